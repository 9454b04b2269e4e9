"""Threads of the library: programs that get few, or have no other left, and how many it makes."""

import os
import subprocess
import sys

import pytest

# Room for none of the stacks of gRPC's threads, for some, and for all.
ROOM_MIB = (8, 14, 20, 40, 80, 256)

LITTLE_ROOM = """
import os, resource, sys
import memlease

client = memlease.connect(start=False)
there = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
limit = there + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
try:
    client.exists("anything")
    print("answered")
except memlease.OutOfMemory as error:
    assert "this process gets no" in str(error), error
    print("refused")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert not client.exists("anything")
"""

# What other threads end in, once the first has ended, is the end of the process.
LAST_THREAD = """
import ctypes, threading
import memlease

client = memlease.connect(start=False)
called = threading.Event()

def call():
    client.exists("anything")
    called.set()

ending = ctypes.CDLL(None).pthread_exit
threading.Thread(target=call).start()
called.wait()
ending(None)
"""

# gRPC ends a moment later, in a thread of the library's.
NO_ROOM_AFTER_A_CALL = """
import os, resource, time
import memlease

def ended():
    return len(os.listdir("/proc/self/task")) == threads

def look_for(seconds, done=lambda: False):
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.01)

threads = len(os.listdir("/proc/self/task"))
client = memlease.connect(start=False)
client.exists("anything")
resource.setrlimit(resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
look_for(0.5)
assert not ended()
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
look_for(20, ended)
assert ended()
assert not client.exists("anything")
"""

THREADS = """
import os
import memlease

def count():
    return len(os.listdir("/proc/self/task"))

client = memlease.connect(start=False)
before = count()
client.exists("anything")
print(count() - before, os.sysconf("SC_NPROCESSORS_CONF"))
"""

MANY_PROCESSORS = """
#include <dlfcn.h>
#include <unistd.h>

long sysconf(int name) {
  long (*const real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  return name == _SC_NPROCESSORS_CONF ? 64 : real(name);
}
"""


def run(program, *arguments, environment=None):
    # OpenBLAS has threads of its own.
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"} | (environment or {}),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.usefixtures("memlease_daemon")
@pytest.mark.private_grpc
@pytest.mark.no_asan  # which needs all address space
@pytest.mark.parametrize("room", ROOM_MIB)
def test_little_address_space_costs_a_call_and_no_more(room):
    ended = run(LITTLE_ROOM, str(room))
    assert (ended.returncode, ended.stderr) == (0, "")
    if room in (min(ROOM_MIB), max(ROOM_MIB)):
        assert ended.stdout == ("answered\n" if room == max(ROOM_MIB) else "refused\n")


@pytest.mark.usefixtures("memlease_daemon")
@pytest.mark.private_grpc
@pytest.mark.no_asan
def test_grpc_stays_while_there_is_no_memory_for_its_end():
    ended = run(NO_ROOM_AFTER_A_CALL)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.usefixtures("memlease_daemon")
@pytest.mark.no_asan  # whose runtime does not let a thread outlive the first
def test_a_process_may_end_in_the_librarys_thread():
    ended = run(LAST_THREAD)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.usefixtures("memlease_daemon")
@pytest.mark.private_grpc
@pytest.mark.no_asan  # whose runtime wants to be the first library
def test_a_process_has_as_few_threads_where_there_are_many_processors(tmp_path):
    library = tmp_path / "processors.so"
    subprocess.run(
        ["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-ldl"],
        input=MANY_PROCESSORS.encode(),
        check=True,
    )
    here = run(THREADS)
    there = run(THREADS, environment={"LD_PRELOAD": str(library)})
    assert (here.stderr, there.stderr) == ("", "")
    threads, processors = map(int, there.stdout.split())
    assert processors == 64
    assert threads == int(here.stdout.split()[0]) < 24
