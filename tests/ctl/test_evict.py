"""Eviction of a process that holds on without being a client any more."""

import subprocess
import sys

import pytest
from conftest import clean_environment, until

WRITER = """
import memlease, sys
client = memlease.connect(sys.argv[1], start=False)
array = client.create("x", shape=4, dtype="f8", slots=2, max_slots=3, lifetime="persistent")
for line in sys.stdin:
    try:
        print(array.put(0, wait=0), flush=True)
    except memlease.NoFreeSlot:
        print("no slot", flush=True)
"""

# Holds all three slots when the writer has published as often, and runs another program.
READER = """
import memlease, os, sys
client = memlease.connect(sys.argv[1], start=False)
array = client.open("x")
print(client.session_id, flush=True)
leases = []
while len(leases) < 3:
    leases.append(array.read(newer_than=len(leases)))
    print(leases[-1].version, flush=True)
sys.stdin.readline()
os.execv("/bin/sleep", ["sleep", "1000"])
"""


class Process:
    def __init__(self, code, directory):
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, directory],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment(),
        )  # fmt: skip

    def ask(self):
        print(file=self.process.stdin, flush=True)
        return self.line()

    def line(self):
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start(start_daemon):
    """Start programs, beside a daemon that may not look into them."""
    daemon = start_daemon(through=["setpriv", "--bounding-set=-sys_ptrace"])
    started = []

    def start(code):
        started.append(Process(code, daemon.directory))
        return started[-1]

    start.daemon = daemon
    yield start
    for process in started:
        process.end()


def test_what_an_evicted_process_holds_after_an_exec_stops_nobody(start):
    writer = start(WRITER)
    assert writer.ask() == "1"
    reader = start(READER)
    session = int(reader.line())
    assert reader.line() == "1"
    assert writer.ask() == "2"
    assert reader.line() == "2"
    assert writer.ask() == "3"
    assert reader.line() == "3"
    assert writer.ask() == "no slot"
    print(file=reader.process.stdin, flush=True)

    def hung_up():
        sessions = start.daemon.json("sessions")["sessions"]
        return [s["connected"] for s in sessions if s["session"] == session] == [False]

    until(hung_up, "the daemon sees the hang-up")
    assert writer.ask() == "no slot"  # and does not see more
    assert start.daemon.ctl("evict", session).returncode == 0
    assert [writer.ask() for _ in range(3)] == ["4", "5", "6"]
    assert reader.process.poll() is None


HOLDER = """
import memlease, sys
client = memlease.connect(sys.argv[1], start=False)
array = client.create("x", shape=4, dtype="f8", lifetime="persistent")
array.put(7)
lease = array.read()
print(client.session_id, flush=True)
sys.stdin.readline()
try:
    client.list()
except memlease.DaemonLost:
    print(lease[0], flush=True)
sys.stdin.readline()
"""


def test_an_eviction_frees_nothing_that_the_process_has_mapped(start):
    """Which is why the alert and the operators' guide say to end the process."""

    def withdrawn_bytes():
        name = 'memlease_array_bytes{device="host",state="withdrawn"} '
        [line] = [line for line in start.daemon.ctl("metrics").stdout.splitlines() if name in line]
        return float(line.removeprefix(name))

    holder = start(HOLDER)
    session = int(holder.line())
    assert start.daemon.ctl("withdraw", "x").returncode == 0
    held = withdrawn_bytes()
    assert held > 0
    assert start.daemon.ctl("evict", session).returncode == 0
    assert holder.ask() == "7.0", "no call, but its bytes"
    assert withdrawn_bytes() == held
    holder.end()
    until(lambda: withdrawn_bytes() == 0, "they come back when it has ended")


CALLER = """
import asyncio, itertools, memlease, sys

def connected():
    client = memlease.connect(sys.argv[1], start=False)
    return client, client.create("x", 4, "f8", lifetime="persistent", exist_ok=True)

def calls(client, array):
    for number in itertools.count():
        CALL

async def follow(array):
    async for lease in array.follow():
        lease.release()

client, array = connected()
array.put(0)
print(client.session_id, flush=True)
try:
    calls(client, array)
except memlease.Error as error:
    print(type(error).__name__, flush=True)
client, array = connected()
version = array.put(5)
with array.read() as lease:
    print(lease[0], lease.version == version, *client.list(), flush=True)
"""

CALLS = {
    "list": "client.list()",
    "create": "client.create(f'y/{number}', 4, 'f8').withdraw()",
    "create and leave": "client.create(f'y/{number}', 4, 'f8')",
    "open": "client.open('x')",
    "close": "client.open('x').close()",
    "exists": "client.exists('x')",
    "withdraw": "client.put('y', [number]); client.withdraw('y')",
    "wait_for": "client.wait_for('later')",
    "read": "array.read().release()",
    "read newer": "array.read(newer_than=array.version)",
    "try_read": "array.try_read(timeout=1).release()",
    "get": "array.get()",
    "write": "array.write().drop()",
    "write in with": """with array.write() as lease: lease[...] = number""",
    "publish": "lease = array.write(); lease[...] = number; lease.publish()",
    "update": """with array.update() as lease: lease[0] += 1""",
    "put": "array.put(number)",
    "follow": "for lease in array.follow(): lease.release()",
    "async for": "asyncio.run(follow(array))",
    "read_async": "asyncio.run(array.read_async(newer_than=array.version))",
    "wait": "memlease.wait([array, array.follow(after=array.version)])",
    "version": "array.version",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_session_that_is_evicted_in_the_middle_of_a_call_is_told_so_and_connects_again(
    start, call
):
    caller = start(CALLER.replace("CALL", CALLS[call]))
    session = int(caller.line())
    assert start.daemon.ctl("evict", session).returncode == 0
    assert caller.line() == "DaemonLost"
    number, is_latest, *names = caller.line().split()
    assert (number, is_latest) == ("5.0", "True")
    assert "x" in names
    assert caller.process.wait(60) == 0


SHORT = """
import memlease, os, resource, sys, time
client = memlease.connect(sys.argv[1], start=False)
time.sleep(0.5)  # until gRPC, which the next call starts again, has been shut down
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
for free in range(4):
    files = []
    try:
        while True:
            files.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for file in files[len(files) - free:]:
        os.close(file)
    try:
        client.list()
    except memlease.OutOfMemory as error:
        print("OutOfMemory", "ulimit -n" in str(error), flush=True)
    for file in files[: len(files) - free]:
        os.close(file)
client.list()
print("works", flush=True)
"""


def test_a_call_without_descriptors_is_an_error(start):
    process = start(SHORT)
    assert [process.line() for _ in range(5)] == ["OutOfMemory True"] * 4 + ["works"]
