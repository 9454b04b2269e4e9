"""What a daemon that is stopped, or slow, does not hold up."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import memlease
import pytest

# A call's own limit is ten seconds.
SOON_S = 5


@contextlib.contextmanager
def stopped(daemon):
    daemon.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, daemon.process.pid, os.WSTOPPED)  # until then it may answer
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def soon():
    begin = time.monotonic()
    yield
    assert time.monotonic() - begin < SOON_S


@contextlib.contextmanager
def ctrl_c():
    """Interrupt what goes on in here."""
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        timer.join()


@pytest.fixture
def unread(memlease_client):
    """Return an array of which this process has no row to read."""
    return memlease_client.create("unread", 3, "i8")


@pytest.fixture
def unmet(memlease_client):
    """Return an array whose writer's row this process has not met."""
    array = memlease_client.create("unmet", 3, "i8", fill=1, lifetime="persistent")
    array.read().release()
    code = "import memlease; memlease.connect(start=False).open('unmet').put([2, 2, 2])"
    subprocess.run([sys.executable, "-c", code], check=True)
    return array


def test_the_array_of_a_write_lease_needs_no_daemon(memlease_daemon, memlease_client):
    for begin in ("write", "try_write", "update"):
        array = memlease_client.create(begin, 3, "i8")
        if begin == "update":
            array.put([1, 1, 1])
        lease = getattr(array, begin)()
        with stopped(memlease_daemon):
            lease[...] = 2
            assert lease.publish() == array.version


def test_a_write_that_cannot_begin_leaves_the_only_version(memlease_daemon, memlease_client):
    array = memlease_client.create("a", 3, "i8", slots=1)
    array.put([1, 1, 1])  # which takes no row to read
    with stopped(memlease_daemon):
        for begin in array.write, array.update:
            with pytest.raises(memlease.Timeout):
                begin(wait=0.1)
        assert array.try_write() is None
    assert array.get().tolist() == [1, 1, 1]


@pytest.mark.parametrize("which", ["unread", "unmet"])
def test_a_wait_for_any_ends_with_its_timeout(memlease_daemon, request, which):
    array = request.getfixturevalue(which)
    with stopped(memlease_daemon), soon():
        assert memlease.wait([array], timeout=0.2, newer_than=[2]) == []


@pytest.mark.parametrize("which", ["unread", "unmet"])
def test_a_wait_for_any_ends_with_ctrl_c(memlease_daemon, request, which):
    array = request.getfixturevalue(which)
    with stopped(memlease_daemon), soon(), ctrl_c():
        memlease.wait([array], newer_than=[2])


def run_in_loop(coroutine):
    async def main():
        async with asyncio.timeout(4 * SOON_S):
            return await coroutine

    return asyncio.run(main())


async def step(array):
    return await anext(aiter(array.follow(after=1, timeout=SOON_S)))


@pytest.mark.parametrize("begin", [step, lambda array: array.read_async(newer_than=1)])
@pytest.mark.parametrize("which", ["unread", "unmet"])
def test_an_event_loop_goes_on(memlease_daemon, request, which, begin):
    array = request.getfixturevalue(which)
    if which == "unread":
        for _ in range(2):
            array.put([2, 2, 2])

    async def main():
        task = asyncio.create_task(begin(array))
        await asyncio.sleep(0)
        # The task waits by now; were it not for the loop, nobody would do this.
        memlease_daemon.process.send_signal(signal.SIGCONT)
        return await task

    with stopped(memlease_daemon), run_in_loop(main()) as lease:
        assert lease.array.tolist() == [2, 2, 2]


def test_a_read_in_an_event_loop_ends_with_its_timeout(memlease_daemon, unread):
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    async def main():
        ticking = asyncio.create_task(tick())
        try:
            await unread.read_async(timeout=0.2)
        finally:
            ticking.cancel()

    with stopped(memlease_daemon), soon(), pytest.raises(memlease.Timeout, match="did not answer"):
        run_in_loop(main())
    assert ticks > 3


@pytest.mark.no_asan  # whose leak check takes its time
@pytest.mark.parametrize("how", ["", "if os.fork() == 0: os._exit(0)"])
def test_many_calls_do_not_keep_a_process_from_its_end_or_a_fork(memlease_daemon, how):
    code = f"""
import os, threading, memlease
client = memlease.connect(start=False)
client.exists("a")
print("begin", flush=True)
input()
def call():
    try:
        client.exists("a")
    except memlease.Error:
        pass
for _ in range(4):
    threading.Thread(target=call, daemon=True).start()
import time
while client.calls < 5: time.sleep(0.01)
{how}
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        assert process.stdout.readline() == "begin\n"
        with stopped(memlease_daemon), soon():
            process.communicate("\n", timeout=30)
