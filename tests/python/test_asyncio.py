"""Descriptors for event loops, `async for` and `read_async`."""

import asyncio
import contextlib
import gc
import os
import resource
import selectors
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from pathlib import Path

import memlease
import numpy as np
import pytest
from event_loop import LONG_S, run
from memlease import caller
from memlease.testing import Daemon


@pytest.fixture
def array(memlease_client):
    return memlease_client.create("a", shape=4, dtype="i8", fill=0)


def watchers():
    """Return how many threads of this process wait for arrays on behalf of loops."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ends meanwhile
            names.append((task / "comm").read_text())
    return names.count("memlease-watch\n")


def descriptors():
    """Return what this process has open, but for the folder that it looks into."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
    return found


def writer(array, versions, pause_s=0.005):
    """Publish so many versions from another thread."""

    def write():
        for number in range(versions):
            time.sleep(pause_s)
            array.put(np.full(4, number + 1))

    thread = threading.Thread(target=write)
    thread.start()
    return thread


@pytest.mark.parametrize("kind", ["follower", "array"])
def test_a_selector_knows_when_there_is_a_version(array, kind):
    source = array.follow() if kind == "follower" else array
    step = (lambda: next(source)) if kind == "follower" else array.read
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        assert selector.select(LONG_S)
        assert step().version == 1
        assert selector.select(0) == []
        late = writer(array, 1)
        assert [key.fileobj for key, _ in selector.select(LONG_S)] == [source]
        assert step().version == 2
        late.join()
        source.close()
        assert selector.select(LONG_S)
        selector.unregister(source)


def test_async_for_gives_the_newest_and_ends_leases_as_the_loop_does(array):
    seen = []
    threads = []

    async def follow():
        async for lease in array.follow():
            if seen:
                assert seen[-1].released
            else:  # the first version was there: what comes now is newer
                threads.append(writer(array, 5))
            seen.append(lease)
            assert (lease.array == lease.version - 1).all()
            if lease.version == 6:
                break

    run(follow())
    threads[0].join()
    versions = [lease.version for lease in seen]
    assert versions[0] == 1
    assert versions[-1] == 6
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("by", ["task", "thread"])
def test_closing_a_follower_ends_its_async_for(array, by):
    follower = array.follow()
    seen = []

    async def follow():
        async for lease in follower:
            seen.append(lease)
            if by == "thread":
                threading.Timer(0.02, follower.close).start()
            else:
                asyncio.get_running_loop().call_later(0.02, follower.close)

    run(follow())
    assert [lease.version for lease in seen] == [1]
    assert follower.closed
    run(follow())  # once more: at its end at once
    assert len(seen) == 1


def test_a_timeout_is_for_each_step(array):
    async def follow():
        async for lease in array.follow(timeout=0.05):
            seen.append(lease.version)

    seen = []
    with pytest.raises(TimeoutError, match="did not come within"):
        run(follow())
    assert seen == [1]


def test_read_async_waits_for_the_version_that_is_asked_for(array):
    async def read():
        with await array.read_async() as lease:
            assert lease.version == 1
        with pytest.raises(memlease.Timeout):
            await array.read_async(newer_than=1, timeout=0)
        with pytest.raises(memlease.Timeout, match=r"version above 1 of .* is 1"):
            await array.read_async(newer_than=1, timeout=0.02)
        thread = writer(array, 1)
        lease = await array.read_async(newer_than=1, timeout=LONG_S)
        thread.join()
        assert not lease.released
        assert lease.array.tolist() == [1, 1, 1, 1]
        with pytest.raises(memlease.InvalidArgument):
            await array.read_async(timeout=-1)
        with pytest.raises(memlease.InvalidArgument, match="newer_than=-1 is not a version"):
            await array.read_async(newer_than=-1)
        with pytest.raises(TypeError, match="newer_than='1' is not a version number: give an int"):
            await array.read_async(newer_than="1")

    run(read())


def test_a_hundred_tasks_wait_with_one_thread(memlease_client, array):
    arrays = [memlease_client.create(f"m{i}", shape=4, dtype="i8", fill=0) for i in range(50)]
    arrays += [array] * 50

    async def read(each):
        return (await anext(each.follow(after=1))).version

    async def main():
        tasks = [asyncio.create_task(read(each)) for each in arrays]
        await asyncio.sleep(0)  # all of them wait
        async with asyncio.timeout(LONG_S):
            while watchers() != 1:
                await asyncio.sleep(0)
        assert threading.active_count() == threads
        for each in {*arrays}:
            each.put(np.arange(4))
        assert await asyncio.gather(*tasks) == [2] * 100
        assert watchers() <= 1  # none, where that took longer than the thread waits for more

    threads = threading.active_count()
    run(main())


def test_cancelled_tasks_leave_nothing_behind(array):
    async def main():
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(LONG_S):
            (await array.read_async()).release()
        before = descriptors()
        tasks = [asyncio.create_task(array.read_async(newer_than=1)) for _ in range(20)]
        await asyncio.sleep(0)
        assert len(descriptors()) == len(before) + 20
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended)
        assert descriptors() == before
        assert len(loop._selector.get_map()) == 1  # the loop's own

    run(main())


def test_a_cancelled_async_for_goes_on_where_it_was(array):
    async def main():
        follower = array.follow()
        first = await anext(follower)
        task = asyncio.ensure_future(anext(follower))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        array.put(np.arange(4))
        assert (await anext(follower)).version == first.version + 1
        assert first.released

    run(main())


def test_two_tasks_do_not_share_a_follower(array):
    async def main():
        follower = array.follow(after=1)
        first = asyncio.ensure_future(anext(follower))
        await asyncio.sleep(0)
        with pytest.raises(memlease.Busy, match="another thread or task"):
            await anext(follower)
        with pytest.raises(memlease.Busy):
            next(follower)
        array.put(np.arange(4))
        assert (await first).version == 2

    run(main())


def test_a_callback_that_raises_leaves_the_others_alone(array):
    async def main():
        loop = asyncio.get_running_loop()
        raised = []
        loop.set_exception_handler(lambda _loop, context: raised.append(context["exception"]))
        follower = array.follow(after=1)

        def fail():
            next(follower)
            raise RuntimeError("a mistake")

        loop.add_reader(follower, fail)
        for version in (2, 3):
            waiting = asyncio.ensure_future(array.read_async(newer_than=version - 1))
            await asyncio.sleep(0)
            array.put(np.arange(4))
            with await waiting as lease:
                assert lease.version == version
            while len(raised) < version - 1:
                await asyncio.sleep(0.001)
        follower.close()
        loop.remove_reader(follower)
        assert [str(error) for error in raised] == ["a mistake"] * 2
        assert follower.seen == 2

    run(main())


@pytest.mark.parametrize("end", ["withdraw", "close", "kill"])
def test_what_ends_a_read_ends_waiting_tasks(memlease_client, memlease_daemon, tmp_path, end):
    daemon = Daemon(memlease_daemon.directory + "-other", tmp_path / "log")
    try:
        with daemon.connect() as client:
            array = client.create("a", shape=4, dtype="i8", fill=0)
            other = memlease_client.create("a", shape=4, dtype="i8", fill=0)
            error = {
                "withdraw": memlease.Withdrawn,
                "close": memlease.Closed,
                "kill": memlease.DaemonLost,
            }[end]

            async def follow():
                async for _lease in array.follow():
                    pass

            async def main():
                untouched = asyncio.ensure_future(other.read_async(newer_than=1))
                tasks = [
                    asyncio.ensure_future(follow()),
                    asyncio.ensure_future(array.read_async(newer_than=1)),
                ]
                await asyncio.sleep(0)
                {"withdraw": array.withdraw, "close": array.close, "kill": daemon.kill}[end]()
                for task in tasks:
                    with pytest.raises(error):
                        await task
                assert not untouched.done()
                other.put(np.arange(4))
                with await untouched as lease:
                    assert lease.version == 2

            run(main())
    finally:
        daemon.kill()


def test_no_descriptors_left_is_an_error(array):
    async def main():
        (await array.read_async()).release()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        taken = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.dup(0))
            with pytest.raises(memlease.OutOfMemory, match=r"which is 256 \(ulimit -n\)"):
                await array.read_async(newer_than=1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in taken:
                os.close(descriptor)
        with pytest.raises(memlease.Timeout):
            await array.read_async(newer_than=1, timeout=0.01)

    run(main())


def test_a_loop_that_is_closed_over_a_waiting_task_leaves_nothing(array):
    loop = asyncio.new_event_loop()
    task = loop.create_task(array.read_async(newer_than=1))
    loop.run_until_complete(asyncio.sleep(0))
    seen = weakref.ref(task)
    loop.close()
    task._log_destroy_pending = False
    del task
    gc.collect()
    assert seen() is None


PROGRAM = """
import asyncio, os, sys, threading
import memlease, numpy as np
array = memlease.connect(start=False).open("a")
"""


def run_program(code, **options):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def test_ctrl_c_ends_a_program_that_waits(array):
    assert array.version == 1
    with run_program(
        """
        async def main():
            asyncio.get_running_loop().call_later(0.1, lambda: print("waits", flush=True))
            await array.read_async(newer_than=1)
        asyncio.run(main())
        """
    ) as process:
        try:
            assert process.stdout.readline() == "waits\n"
            process.send_signal(signal.SIGINT)
            output = process.communicate(timeout=LONG_S)[0]
        finally:
            process.kill()
    assert "KeyboardInterrupt" in output
    assert process.returncode != 0


@pytest.mark.parametrize("end", ["cancel", "Ctrl-C"])
def test_a_read_in_a_thread_ends_with_the_client_of_its_task(array, end):
    """The task closes it on its way out: else asyncio.run() would wait for the thread."""
    assert array.version == 1
    with run_program(
        """
        async def read():
            with memlease.connect(start=False) as client:
                await asyncio.to_thread(client.open("a").read, newer_than=1)
        async def main():
            task = asyncio.create_task(read())
            while not any(it.name.startswith("asyncio_") for it in threading.enumerate()):
                await asyncio.sleep(0)
            print("waits", flush=True)
            sys.stdin.read(1) or task.cancel()
            await task
        asyncio.run(main())
        """,
        stdin=subprocess.PIPE if end == "Ctrl-C" else subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout.readline() == "waits\n"
            if end == "Ctrl-C":
                process.stdin.write("x")
                process.stdin.flush()
                process.send_signal(signal.SIGINT)
            output = process.communicate(timeout=LONG_S)[0]
        finally:
            process.kill()
    assert ("KeyboardInterrupt" if end == "Ctrl-C" else "CancelledError") in output
    assert process.returncode != 0


@pytest.mark.parametrize(
    "wait",
    [
        lambda array: array.read(newer_than=1).release(),
        lambda array: array.get(),
        lambda array: array.get(np.empty(4, "i8")),
        lambda array: next(array.follow(after=1)).release(),
        lambda array: memlease.wait([array], newer_than=[1]),
    ],
)
def test_a_long_wait_in_a_thread_of_asyncio_is_logged_once(
    memlease_client, monkeypatch, caplog, wait
):
    array = memlease_client.create("later", 4, "i8")
    long_waits = caller.long_waits
    monkeypatch.setattr(long_waits, "after_s", 0)
    monkeypatch.setattr(long_waits, "_said", False)

    async def main():
        with pytest.raises(memlease.Timeout):
            await asyncio.to_thread(array.read, newer_than=1, timeout=0.3)
        long_waits.note("later")  # by another thread
        assert caplog.text == ""
        tasks = [asyncio.create_task(asyncio.to_thread(wait, array)) for _ in range(2)]
        while "read_async" not in caplog.text:
            await asyncio.sleep(0.001)
        for _ in range(2):
            array.put(np.arange(4))
        for task in tasks:
            await task

    run(main())
    assert caplog.text.count("a wait for 'later' has gone on for 0 s in a thread of asyncio") == 1


def test_a_forked_child_waits_for_itself(array):
    assert array.version == 1
    with run_program(
        """
        follower = array.follow(after=1)
        async def step():
            return (await anext(follower)).version
        async def waits():
            task = asyncio.ensure_future(step())
            await asyncio.sleep(0)
            task.cancel()
        asyncio.run(waits())
        pid = os.fork()
        if pid == 0:
            async def child():
                task = asyncio.ensure_future(step())
                await asyncio.sleep(0)
                array.put(np.arange(4))
                return await task
            code = asyncio.run(child())
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), asyncio.run(step()))
        """
    ) as process:
        assert process.communicate(timeout=LONG_S)[0] == "2 2\n"


def test_what_is_waited_for_with_a_thread_now_needs_none(array):
    """The review's program: readers and a writer in one loop, and a wait that is cancelled."""

    async def reader():
        seen = []
        async for lease in array.follow():
            seen.append(int(lease.array[0]))
            if seen[-1] == 8:
                break
        return seen

    async def write():
        for number in range(1, 9):
            await asyncio.sleep(0.005)
            array.put(np.full(4, number))

    async def main():
        seen, _ = await asyncio.gather(reader(), write())
        assert seen == sorted(set(seen))
        assert seen[0] == 0
        task = asyncio.create_task(array.read_async(newer_than=10**9))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
