"""Several processes, one memory."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import memlease
import numpy as np
import pytest


def run(code, *arguments, check=True):
    """Run Python code in a new process, which finds the test's daemon by MEMLEASE_DIR."""
    program = "import sys, memlease, numpy as np\n" + textwrap.dedent(code)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if check:
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
    return result


def start(code):
    """Begin to run Python code in a new process, as run() does."""
    program = "import sys, memlease, numpy as np\n" + textwrap.dedent(code)
    command = [sys.executable, "-X", "faulthandler", "-c", program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def page_of(address):
    """(device, inode, offset in the file) of a mapped address: what it really shows."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        match = re.match(r"(\w+)-(\w+) \S+ (\w+) (\S+) (\d+)", line)
        start, end, offset = (int(match[i], 16) for i in (1, 2, 3))
        if start <= address < end:
            return match[4], int(match[5]), offset + address - start
    raise AssertionError(f"{address:#x} is not mapped")


PAGE_OF = "import re\nfrom pathlib import Path\n" + "\n".join(
    __import__("inspect").getsource(page_of).splitlines()
)

VIEWS = {
    "array": "lease.array.ctypes.data",
    "asarray": "np.asarray(lease).ctypes.data",
    "interface": "np.asarray(__import__('types').SimpleNamespace("
    "__array_interface__=lease.__array_interface__)).ctypes.data",
    "dlpack": "np.from_dlpack(lease).ctypes.data",
    "torch": "__import__('torch').from_dlpack(lease).data_ptr()",
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_every_view_shows_the_same_page_in_both_processes(memlease_client, view):
    array = memlease_client.put("a", np.arange(3000.0))
    with array.read() as lease:
        here = page_of(lease.array.ctypes.data)
        assert page_of(eval(view)) == here
        code = (
            PAGE_OF
            + f"""
with memlease.connect(start=False) as client, client.open("a").read() as lease:
    import warnings; warnings.simplefilter("ignore")
    print(repr(page_of({view})))
"""
        )
        assert eval(run(code).stdout) == here
    assert here[1] != 0


class Meanwhile:
    """A source: while its elements are looked for, another process creates `name` and writes."""

    def __init__(self, name):
        code = f"""if True:
            import sys, memlease
            client = memlease.connect(start=False)
            sys.stdin.readline()
            with client.create({name!r}, shape=3, dtype="i8").write() as lease:
                lease[...] = 7
                print(flush=True)
                sys.stdin.readline()
            print(flush=True)
            sys.stdin.readline()
            """
        self.writer = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def step(self):
        self.writer.stdin.write("\n")
        self.writer.stdin.flush()
        assert self.writer.stdout.readline() == "\n"

    def __array__(self, dtype=None, copy=None):
        self.step()
        return np.arange(3)


def test_a_put_that_fails_leaves_an_array_that_another_process_has_made(memlease_client):
    source = Meanwhile("a")
    with source.writer:
        with pytest.raises(memlease.Timeout):
            memlease_client.put("a", source, wait=0)
        assert memlease_client.list() == ["a"]
        source.step()
        assert memlease_client.get("a").tolist() == [7, 7, 7]


def test_a_handle_does_not_withdraw_another_array_that_has_its_name_now(memlease_client):
    array = memlease_client.create("a", shape=3, dtype="i8")
    run(
        """
        client = memlease.connect(start=False)
        client.withdraw("a")
        client.create("a", shape=3, dtype="i8", lifetime="persistent")
        """
    )
    with pytest.raises(memlease.Withdrawn):
        array.withdraw()
    assert memlease_client.list() == ["a"]


def test_what_one_process_writes_another_one_has_at_once(memlease_client):
    array = memlease_client.create("a", shape=4, dtype="i4", fill=1)
    with array.read() as held:
        code = """
        with memlease.connect(start=False) as client:
            with client.open("a").write() as w:
                w[...] = 5
        """
        run(code)
        assert held.array.tolist() == [1] * 4
        assert array.version == 2
        assert array.get().tolist() == [5] * 4


def test_a_killed_reader_is_noticed_by_nobody(memlease_client):
    array = memlease_client.create("a", shape=4, dtype="i4", slots=2, fill=1)
    code = """
    import os, signal
    lease = memlease.connect(start=False).open("a").read()
    os.kill(os.getpid(), signal.SIGKILL)
    """
    assert run(code, check=False).returncode == -signal.SIGKILL
    for value in range(10):
        array.put(np.full(4, value, dtype="i4"), wait=10)
    assert array.get().tolist() == [9] * 4


def test_what_a_killed_writer_did_not_finish_is_told_once_where_there_is_one_slot(memlease_client):
    field = memlease_client.put("one", [1, 1, 1], slots=1)
    run(
        """
    import os, signal
    lease = memlease.connect(start=False).open("one").write()
    os.kill(os.getpid(), signal.SIGKILL)
    """,
        check=False,
    )
    with pytest.raises(memlease.ProducerDied, match=r"version 2.*newer_than=2"):
        field.read(newer_than=1, timeout=10)
    with pytest.raises(memlease.Timeout):
        field.read(newer_than=2, timeout=0)
    with field.follow(timeout=0, after=1) as versions:
        with pytest.raises(memlease.ProducerDied):
            next(versions)
        with pytest.raises(memlease.Timeout):
            next(versions)
        field.put([3, 3, 3])
        assert next(versions).version == 3
    assert versions.skipped == 1


def test_a_killed_writer_leaves_the_last_version(memlease_client):
    array = memlease_client.create("a", shape=4, dtype="i4", fill=1)
    code = """
    import os, signal
    w = memlease.connect(start=False).open("a").write()
    w[...] = 666
    os.kill(os.getpid(), signal.SIGKILL)
    """
    array.close()  # gives up writer ownership
    run(code, check=False)
    array = memlease_client.open("a")
    assert array.get().tolist() == [1] * 4
    assert array.put(np.full(4, 2, dtype="i4")) > 2  # a dead writer's number is not used again
    assert array.get().tolist() == [2] * 4


@pytest.mark.parametrize(
    "keep",
    [
        "lease = a.read()",
        "v = a.read().array",
        "import warnings; warnings.simplefilter('ignore'); w = a.write(); v = w.array",
        "m = memoryview(a.read())",
    ],
)
def test_interpreter_exit_with_live_leases(memlease_client, keep):
    array = memlease_client.create("a", shape=4, dtype="i4", fill=1)
    array.close()
    run(f'c = memlease.connect(start=False); a = c.open("a"); {keep}')
    array = memlease_client.open("a")
    for _ in range(4):
        array.put(np.zeros(4, dtype="i4"))


def test_interpreter_exit_while_a_thread_waits(memlease_client):
    memlease_client.create("a", shape=4, dtype="i4")
    code = """
    import threading
    array = memlease.connect(start=False).open("a")
    started = threading.Event()
    def wait():
        started.set()
        array.read()
    threading.Thread(target=wait, daemon=True).start()
    started.wait()
    """
    run(code)


@pytest.mark.parametrize(
    ("call", "rounds"),
    [
        ('client.open("a").get()', 100),
        ('client.open("a").put([1, 2, 3, 4])', 100),
        ("memlease.connect(start=False)", 100),
        ('client.wait_for("a"), client.list()', 20),
        ('client.create(f"b/{os.getpid()}/{next(numbers)}", shape=4, dtype="i4").withdraw()', 20),
        ('client.open("a").read(newer_than=2**60)', 3),
        ('next(client.open("a").follow(after=2**60))', 3),
    ],
)
def test_interpreter_exit_while_threads_call(memlease_client, call, rounds):
    memlease_client.create("a", shape=4, dtype="i4", fill=0)
    code = f"""
    import itertools, os, threading
    import numpy
    client, numbers = memlease.connect(start=False), itertools.count()
    begun = threading.Semaphore(0)
    def work():
        while True:
            begun.release()
            {call}
    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    for _ in range({rounds}):
        begun.acquire()
    """
    runs = [start(code) for _ in range(6)]
    for run in runs:
        assert run.communicate(timeout=60) == ("", "")
        assert run.returncode == 0


def _work(array, results):
    with array.read() as lease:
        results.put((os.getpid(), int(np.asarray(lease).sum())))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_of_multiprocessing_take_arrays_as_arguments(memlease_client, method):
    array = memlease_client.put("a", np.arange(10))
    context = multiprocessing.get_context(method)
    results = context.Queue()
    workers = [context.Process(target=_work, args=(array, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    seen = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    assert {total for _, total in seen} == {45}
    assert {pid for pid, _ in seen} == {worker.pid for worker in workers}


def test_a_child_that_creates_what_its_parent_has_is_told_why(memlease_client, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"""
import multiprocessing
import memlease
client = memlease.connect({memlease_client.directory!r})
array = client.create("ours", 4)
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=print)
    child.start()
    child.join()
    print("child:", child.exitcode)
""")
    run = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout) == (0, "child: 1\n")
    assert "a child of multiprocessing, which runs the main module again" in run.stderr
    assert 'if __name__ == "__main__":' in run.stderr


def test_the_loss_of_the_daemon_is_told(memlease_daemon, memlease_client):
    array = memlease_client.put("a", np.arange(4))
    lease = array.read()
    memlease_daemon.kill()
    with pytest.raises(memlease.DaemonLost):
        array.read(newer_than=1, timeout=20)
    with pytest.raises(memlease.DaemonLost):
        memlease_client.list()
    assert lease.array.tolist() == [0, 1, 2, 3]  # the bytes are ours as long as the lease lives
    lease.release()
    with pytest.raises((memlease.DaemonUnavailable, memlease.DaemonLost)):
        memlease.connect(start=False).list()


@pytest.mark.parametrize("use", ["array.read(timeout=1)", "array.write(wait=1)", "array.get()"])
def test_an_array_whose_creator_has_died_is_named_at_the_first_use(memlease_client, use):
    creator = start("""
        client = memlease.connect(start=False)
        array = client.create("gone/y", 4, "f4", fill=0, mode=0o666)
        print("made", flush=True)
        sys.stdin.read()
        """)
    assert creator.stdout.readline() == "made\n"
    array = memlease_client.open("gone/y")
    creator.kill()
    creator.communicate()
    while "gone/y" in memlease_client.list():
        pass
    with pytest.raises(memlease.Withdrawn, match="'gone/y' has been withdrawn"):
        eval(use, {"array": array})


MANY_WRITERS = """
import os, memlease
client = memlease.connect(start=False)
array = client.create("sum", 4, "i8", fill=0)
reads, writes = os.pipe()
for _ in range(16):
    if os.fork() == 0:
        for _ in range(5):
            with array.update() as w:
                w += 1
        os.write(writes, b"%d " % client.calls)
        os._exit(0)
for _ in range(16):
    assert os.wait()[1] == 0
print(array.get()[0], sum(map(int, os.read(reads, 1000).split())))
"""


def test_what_a_write_costs_does_not_grow_with_those_who_wait_for_it(memlease_daemon):
    ended = subprocess.run(
        [sys.executable, "-c", MANY_WRITERS],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    total, calls = map(int, ended.stdout.split())
    assert total == 16 * 5
    assert calls < 10 * total  # each of the others asked at each end of a write, twice
