"""Programs that close descriptors which are not theirs, as daemonisers do."""

import subprocess
import sys
import textwrap

import pytest

START = """
import os, threading, time
import memlease
import numpy as np

def threads():
    return len(os.listdir("/proc/self/task"))

def say(call):
    try:
        print(call())
    except memlease.Error as error:
        print(type(error).__name__, error.message)

alone = threads()
client = memlease.connect(start=False)
array = client.create("a", 3, "f8", fill=1)
view = array.read().array
"""
REST = """
while threads() > alone:  # gRPC's go when it has not been used for a moment
    time.sleep(0.01)
"""
SAID = "this program has closed"


def run(*parts):
    ended = subprocess.run(
        [sys.executable, "-c", "".join(map(textwrap.dedent, parts))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


@pytest.fixture(autouse=True)
def _daemon(memlease_daemon):
    return memlease_daemon


def test_calls_say_so_and_a_new_connection_works():
    said = run(START, REST, """
        os.closerange(3, 4096)
        say(client.list)
        say(lambda: client.open("a"))
        say(lambda: memlease.connect(start=False).put("b", [1]).version)
        print(view.sum())
        """)  # fmt: skip
    lost = f"DaemonLost {SAID} the descriptor of the connection to the daemon of "
    assert [line.startswith(lost) for line in said[:2]] == [True] * 2
    assert said[2:] == ["1", "3.0"]


def test_files_that_have_come_in_their_place_are_left_alone():
    said = run(START, REST, """
        os.closerange(3, 4096)
        files = [os.open("/dev/null", os.O_RDONLY) for _ in range(64)]
        say(client.list)
        say(lambda: memlease.connect(start=False).list())
        client.close()
        print({os.fstat(file).st_rdev for file in files} == {os.stat("/dev/null").st_rdev})
        """)  # fmt: skip
    assert said[0].startswith(f"DaemonLost {SAID} the descriptor")
    assert said[1].startswith(f"Unsupported {SAID} descriptors that gRPC cannot do without")
    assert said[2] == "True"


def test_an_eventfd_that_has_come_in_an_events_place_is_left_alone():
    said = run(START, REST, """
        follower = array.follow()
        events = [array.fileno(), follower.fileno()]
        os.closerange(3, 4096)
        files = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(64)]
        print(all(event in files for event in events))
        client.close()
        del array, follower, client
        for file in files:
            os.eventfd_write(file, 1)
        print({os.eventfd_read(file) for file in files})
        """)  # fmt: skip
    assert said == ["True", "{1}"]


def test_a_program_goes_on_where_grpc_has_just_been_used():
    said = run(START, """
        client.list()
        os.closerange(3, 4096)
        say(lambda: memlease.connect(start=False).list())
        print(view.sum())
        """)  # fmt: skip
    assert said[0].startswith(f"Unsupported {SAID} descriptors that gRPC cannot do without")
    assert said[1] == "3.0"


def test_a_daemon_of_the_programs_own_uses_what_it_has_opened():
    said = run("import warnings; warnings.simplefilter('ignore')", START, """
        reads, writes = os.pipe()
        if os.fork() == 0:
            os.dup2(writes, 2)
            os.closerange(3, 4096)
            os.write(2, str(array.get().sum()).encode())
            os._exit(0)
        os.close(writes)
        print(os.read(reads, 100).decode())
        """)  # fmt: skip
    assert said == ["3.0"]


@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_printed_where_nothing_is_open_reaches_no_connection(closed, when):
    code = textwrap.dedent(f"""
        import os, select
        import memlease

        def close():
            for number in {closed}:
                os.close(number)

        def descriptors():
            return {{os.readlink(f"/proc/self/fd/{{n}}") for n in (0, 1, 2)
                    if os.path.exists(f"/proc/self/fd/{{n}}")}}

        {"close()" if when == "before" else ""}
        client = memlease.connect(start=False)
        {"close()" if when == "after" else ""}
        array = client.create("a", 3, "f8", fill=1)
        client.list()
        fileno = array.fileno()
        assert fileno > 2
        assert not any("socket" in one or "eventpoll" in one for one in descriptors())
        try:
            os.write({closed[-1]}, b"to nobody")
        except OSError as error:
            assert error.strerror == "Bad file descriptor"
        assert client.exists("a") and array.put([1, 2, 3]) == 2
        """)
    ended = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
