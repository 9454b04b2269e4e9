"""`memlease.wait` for several arrays at once, and whether an array has a writer."""

import contextlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import memlease
import numpy as np
import pytest
from memlease.testing import Daemon


def writer(code):
    """Start a process that runs code with `array(name)`; it says when it is ready."""
    program = "import sys, memlease\nclient = memlease.connect(start=False)\narray = client.open\n"
    return subprocess.Popen(
        [sys.executable, "-c", program + textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def arrays(memlease_client):
    return [memlease_client.create(f"a{i}", shape=4, dtype="i8", fill=i) for i in range(3)]


def test_those_with_a_newer_version_are_returned(arrays):
    assert memlease.wait(arrays, 0) == []
    assert memlease.wait(arrays, 0, newer_than=[0, 1, 0]) == [arrays[0], arrays[2]]
    assert memlease.wait(arrays, 0.05) == []
    followers = [array.follow() for array in arrays]
    assert memlease.wait(followers, 0) == followers
    assert [next(follower).version for follower in followers] == [1, 1, 1]
    assert memlease.wait(followers, 0) == []
    arrays[1].put(np.arange(4))
    assert memlease.wait(followers, 0) == memlease.wait(followers) == [followers[1]]
    assert followers[1].last == 1
    assert next(followers[1]).version == followers[1].last == 2
    assert memlease.wait([followers[1]], 0) == []


def test_what_came_since_a_handles_last_read_is_news(arrays, memlease_client):
    reader = memlease_client.open("a0")
    ways = [
        lambda: reader.read().release(),
        reader.get,
        lambda: reader.get(out=np.empty(4, "i8")),
        lambda: reader.get(region=np.s_[1:]),
        lambda: reader.try_read().release(),
        lambda: reader.read(newer_than=1).release(),
    ]
    for read in ways:
        arrays[0].put(np.arange(4))
        assert memlease.wait([reader], 0) == ([] if read is ways[0] else [reader])
        read()
        assert memlease.wait([reader], 0) == []
    reader.read(version=reader.version).release()
    assert memlease.wait([reader], 0) == []


def test_a_version_of_another_process_ends_the_wait(arrays):
    with writer(
        """
        print("ready", flush=True)
        for line in sys.stdin:
            array(line.strip()).put([1, 2, 3, 4])
        """
    ) as process:
        assert process.stdout.readline() == "ready\n"
        followers = [array.follow(after=1) for array in arrays]
        for place in (2, 0, 1, 1, 0, 2):
            sender = threading.Thread(
                target=lambda name: print(name, file=process.stdin, flush=True),
                args=(arrays[place].name,),
            )
            sender.start()
            assert memlease.wait(followers, 30) == [followers[place]]
            next(followers[place])
            sender.join()
        process.stdin.close()
    assert process.returncode == 0


@pytest.mark.parametrize("count", [63, 64, 200])
def test_many_arrays_are_waited_for(memlease_client, count):
    many = [memlease_client.create(f"m{i}", shape=1, dtype="u1", fill=0) for i in range(count)]
    for place in (0, count // 2, count - 1):
        late = threading.Timer(0, many[place].put, args=(np.zeros(1, "u1"),))
        known = [array.version for array in many]
        late.start()
        assert memlease.wait(many, 30, newer_than=known) == [many[place]]
        late.join()


def test_arrays_of_several_daemons_are_waited_for(memlease_client, memlease_daemon, tmp_path):
    here = memlease_client.put("a", np.arange(4))
    other = Daemon(memlease_daemon.directory + "-other", tmp_path / "log")
    try:
        with other.connect() as client:
            there = client.put("a", np.arange(4))
            assert memlease.wait([here, there], 0) == []
            late = threading.Timer(0, there.put, args=(np.arange(4),))
            late.start()
            assert memlease.wait([here, there], 30, newer_than=[1, 1]) == [there]
            late.join()
            other.kill()
            with pytest.raises(memlease.DaemonLost):
                memlease.wait([here, there], 30, newer_than=[1, 2])
    finally:
        other.kill()


def test_what_a_read_would_not_wait_for_is_ready(arrays):
    follower = arrays[1].follow(after=1)
    late = threading.Timer(0, arrays[1].withdraw)
    late.start()
    assert memlease.wait([arrays[0].follow(after=1), follower], 30) == [follower]
    late.join()
    assert memlease.wait([follower], 0) == [follower]
    with pytest.raises(memlease.Withdrawn):
        next(follower)
    closing = threading.Timer(0, arrays[2].close)
    closing.start()
    with contextlib.suppress(memlease.Closed):  # where it is closed before the wait begins
        assert memlease.wait([arrays[0], arrays[2]], 30, newer_than=[1, 1]) == [arrays[2]]
    closing.join()
    with pytest.raises(memlease.Closed):
        memlease.wait([arrays[0], arrays[2]], 0)


def test_a_follower_that_is_closed_is_ready(arrays):
    follower, other = arrays[0].follow(after=1), arrays[1].follow(after=1)
    closing = threading.Timer(0, follower.close)
    closing.start()
    assert memlease.wait([other, follower], 30) == [follower]
    closing.join()
    assert memlease.wait(iter([other, follower])) == [follower]
    assert memlease.wait([other], 0.01) == []


def test_wrong_arguments_are_refused(arrays):
    with pytest.raises(TypeError, match="takes a list"):
        memlease.wait(arrays[0].follow())
    with pytest.raises(memlease.InvalidArgument, match="timeout"):
        memlease.wait([arrays[0].follow(after=1)], "soon")
    with pytest.raises(memlease.InvalidArgument, match="nothing to wait for"):
        memlease.wait([])
    with pytest.raises(memlease.InvalidArgument, match="2 numbers for 3 sources"):
        memlease.wait(arrays, newer_than=[1, 2])
    with pytest.raises(memlease.InvalidArgument, match=r"newer_than=0 .*give one for each source"):
        memlease.wait(arrays, 0, newer_than=0)
    with pytest.raises(TypeError, match="not str"):
        memlease.wait(["a"])


def test_an_interrupt_ends_the_wait(arrays):
    del arrays
    process = writer(
        """
        import threading, os, signal
        arrays = [array("a0"), array("a1")]
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            memlease.wait(arrays)
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    assert process.communicate(timeout=60)[0] == "interrupted\n"


def test_what_is_not_known_is_none(arrays):
    assert memlease.wait(arrays, 0, newer_than=[None, 0, None]) == [arrays[1]]


@pytest.mark.parametrize(
    ("known", "error", "words"),
    [
        (-1, memlease.InvalidArgument, "newer_than=-1 is not a version number"),
        (2**64, memlease.InvalidArgument, f"newer_than={2**64} is not a version number"),
        (1.5, TypeError, r"newer_than=1\.5 is not a version number: give an int"),
    ],
)
def test_what_is_no_version_is_refused(arrays, known, error, words):
    with pytest.raises(error, match=words):
        memlease.wait(arrays, 0, newer_than=[known, 0, 0])


@pytest.mark.parametrize("end", ["close", "exit", "kill"])
def test_an_array_has_a_writer_while_it_lives_and_has_not_closed(memlease_client, end):
    array = memlease_client.create("a", shape=4, dtype="i8", lifetime="persistent")
    assert not array.has_writer
    process = writer(
        """
        own = array("a")
        own.put([1, 2, 3, 4])
        print("ready", flush=True)
        if sys.stdin.readline() == "close\\n":
            own.close()
            print("closed", flush=True)
            sys.stdin.readline()
        """
    )
    assert process.stdout.readline() == "ready\n"
    calls = memlease_client.calls
    assert array.has_writer
    assert memlease_client.calls == calls
    if end == "close":
        print("close", file=process.stdin, flush=True)
        assert process.stdout.readline() == "closed\n"
    elif end == "kill":
        process.send_signal(signal.SIGKILL)
    if end != "close":
        process.communicate()
    deadline = time.monotonic() + 30
    while array.has_writer and time.monotonic() < deadline:
        time.sleep(0.01)  # the daemon sees the end of the process
    assert not array.has_writer
    process.communicate()
    array.put(np.arange(4))
    assert array.has_writer
