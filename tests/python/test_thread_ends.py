"""Threads that the interpreter's end overtakes inside of a call: they sleep, and nothing aborts.

Until Python 3.13 such a thread is ended by an unwinding through our frames (python/bindings/gil.h).
"""

import subprocess
import sys
import textwrap

import pytest

# A thread is in a call of ours when the interpreter ends. What a module owns dies after Python has
# begun to end the threads that come back for the GIL: `Last` lets the thread come back, waits for
# what becomes of it, and says so. In a module of its own, as the thread keeps this one's names.
PROGRAM = """
import memlease, os, sys, threading, time, types

array = memlease.connect(start=False).open("a")
gate, end = os.pipe()
inside = threading.Event()

class Late:
    def __index__(self):
        inside.set()
        os.read(gate, 1)
        return 0

    def __float__(self):
        return float(self.__index__())

thread = threading.Thread(target=lambda: {call}, daemon=True)
thread.start()

def number_of_syscall(path=f"/proc/self/task/{thread.native_id}/syscall", os=os):
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 100).split()[0]
    finally:
        os.close(file)

{until_inside}

class Last:
    def __init__(self):
        self.os, self.sleep, self.end = os, time.sleep, end
        self.number_of_syscall = number_of_syscall
        self.pauses = (b"34", b"73")  # on x86, on ARM

    def __del__(self):
        self.os.write(self.end, b"x")
        self.os.write(1, b"now\\n")
        try:
            while self.number_of_syscall() not in self.pauses:
                self.sleep(0.001)
        except (FileNotFoundError, ProcessLookupError):
            self.os.write(1, b"has ended")
        else:
            self.os.write(1, b"sleeps")

sys.modules["last"] = types.ModuleType("last")
sys.modules["last"].it = Last()
"""
FUTEX_WAITV = "449"


@pytest.mark.no_asan  # it does not follow such an unwinding, and reports what it does itself then
@pytest.mark.parametrize(
    ("call", "until_inside"),
    [
        ("array.read(version=Late())", "inside.wait()"),
        ("array.write(wait=Late())", "inside.wait()"),
        (
            "array.read(newer_than=1)",
            f'while number_of_syscall() != b"{FUTEX_WAITV}": time.sleep(0.001)',
        ),
    ],
    ids=["in Python that a call calls", "likewise, for a float", "in a wait without the GIL"],
)
def test_a_thread_sleeps_that_comes_back_from_a_call_too_late(memlease_client, call, until_inside):
    array = memlease_client.create("a", shape=4, dtype="i4", fill=0)
    program = PROGRAM.replace("{call}", call).replace("{until_inside}", until_inside)
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        told = process.stdout.readline()
        array.put([1, 2, 3, 4])  # what the wait is for
        rest, errors = process.stdout.read(), process.stderr.read()
    assert (told, rest, errors, process.returncode) == ("now\n", "sleeps", "", 0)


# Errors are raised in a handler of C++, which no unwinding may come through.
RAISES = """
import memlease, threading, time

def raise_errors():
    while True:
        try:
            memlease.wait([], timeout=-1)
        except memlease.Error:
            pass

threads = [threading.Thread(target=raise_errors, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
time.sleep(0.05)
"""


@pytest.mark.no_asan
def test_a_thread_that_raises_errors_may_be_overtaken():
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", RAISES], capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stderr) == (0, "")
