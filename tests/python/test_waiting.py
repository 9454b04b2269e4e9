"""Calls that wait: the GIL, Ctrl-C, threads."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import memlease
import numpy as np
import pytest
from memlease import caller

WAITS = {
    "read": lambda client, array: array.read(),
    "follow": lambda client, array: next(array.follow()),
    "write": lambda client, array: array.write(wait=float("inf")),
    "wait_for": lambda client, array: client.wait_for("never"),
}


@pytest.fixture
def empty(memlease_client):
    return memlease_client.create("a", shape=3, dtype="i8")


@pytest.fixture
def full(memlease_client):
    """Yield an array whose slots another process reads: writers wait."""
    array = memlease_client.create("full", shape=3, dtype="i8", slots=1, fill=1)
    code = "import memlease; lease = memlease.connect(start=False).open('full').read(); "
    code += "print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        reader.stdout.readline()
        yield array
        reader.communicate(b"\n")


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_a_wait(memlease_client, empty, full, name):
    array = full if name == "write" else empty
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        WAITS[name](memlease_client, array)
    assert time.monotonic() - begin < 5
    timer.join()
    array.close()


@pytest.mark.parametrize("what", ["array", "client"])
def test_ctrl_c_ends_a_close_that_the_daemon_does_not_answer(memlease_daemon, what):
    client = memlease_daemon.connect()
    array = client.create("a", 3, "f4", fill=1, lifetime="persistent")
    array.read().release()
    session = client.session_id
    over = threading.Event()

    def interrupt():
        if not over.is_set():  # else it would end pytest
            os.kill(os.getpid(), signal.SIGINT)

    memlease_daemon.process.send_signal(signal.SIGSTOP)
    timer = threading.Timer(0.2, interrupt)
    timer.start()
    begin = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            (array if what == "array" else client).close()
        assert time.monotonic() - begin < 2  # the call's own limit
    finally:
        over.set()
        memlease_daemon.process.send_signal(signal.SIGCONT)
        timer.join()
    assert array.closed
    client.close()
    with memlease_daemon.connect() as again:
        assert again.session_id != session
        again.withdraw("a")
        assert again.list() == []


def test_other_threads_run_while_one_waits(memlease_client, empty):
    result = []
    thread = threading.Thread(target=lambda: result.append(empty.get().tolist()))
    thread.start()
    steps = 0
    deadline = time.monotonic() + 0.2
    while time.monotonic() < deadline:
        steps += 1
    assert steps > 1000
    assert thread.is_alive()
    memlease_client.put("a", np.arange(3))
    thread.join(10)
    assert result == [[0, 1, 2]]


def test_other_threads_run_while_a_later_read_waits(memlease_client):
    array = memlease_client.create("a", shape=3, dtype="i8", slots=1, fill=1)
    with array.read() as first:
        assert first[0] == 1
    result = []
    with array.update() as w:
        thread = threading.Thread(target=lambda: result.append(array.get().tolist()))
        thread.start()
        waiting = threading.Thread(target=lambda: result.append(array.read(timeout=10)[:].tolist()))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        w[...] = 2
    for each in (thread, waiting):
        each.join(10)
    assert result == [[2, 2, 2]] * 2


def test_threads_write_and_read_one_array(memlease_client):
    array = memlease_client.create("a", shape=1000, dtype="i8", slots=6, fill=0)
    torn, done = [], threading.Event()

    def read():
        while not done.is_set():
            with array.read() as r:
                if len({int(r[0]), int(r[500]), int(r[999])}) != 1:
                    torn.append(r.version)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for value in range(300):
        array.put(np.full(1000, value))
    done.set()
    for reader in readers:
        reader.join(30)
        assert not reader.is_alive()
    assert torn == []
    assert array.version == 301


def test_threads_that_write_take_turns(memlease_client):
    array = memlease_client.create("a", shape=1, dtype="i8", fill=0)

    def count():
        for _ in range(50):
            with array.update() as w:
                w[0] += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert array.get().tolist() == [200]


def test_steady_state_calls_nobody(memlease_client):
    array = memlease_client.create("a", shape=10, dtype="i8", fill=0)
    array.get()
    before = memlease_client.calls
    for value in range(200):
        with array.write() as w:
            w[...] = value
        with array.read() as r:
            assert r[0] == value
    assert memlease_client.calls == before


def test_a_wait_ends_with_the_version_it_waits_for(memlease_client, empty):
    timer = threading.Timer(0.1, empty.put, (np.arange(3),))
    timer.start()
    with empty.read(timeout=10) as r:
        assert r.version == 1
    timer.join()
    with pytest.raises(memlease.Timeout):
        empty.read(newer_than=1, timeout=0)


# futex, epoll_wait, epoll_pwait, futex_waitv
SLEEPS = {"x86_64": {202, 232, 281, 449}, "aarch64": {98, 22, 449}}[os.uname().machine]


def wait_until_it_waits(process):
    """Return once the process's first thread sleeps in a system call that waits for others."""
    while True:
        if Path(f"/proc/{process.pid}/syscall").read_text().split()[0] in map(str, SLEEPS):
            return
        assert process.poll() is None
        time.sleep(0.001)


@pytest.fixture
def stopped_beyond():
    """Return a function that runs a call in another process, which is stopped beyond its deadline.

    Meanwhile `happens` does what the call waits for.
    """
    deadline_s = 1

    def run(call, happens):
        code = "import memlease; client = memlease.connect(start=False); array = client.open('a'); "
        code += f"print(flush=True); print({call.format(timeout=deadline_s)})"
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as waiting:
            try:
                waiting.stdout.readline()
                wait_until_it_waits(waiting)
                begin = time.monotonic()
                waiting.send_signal(signal.SIGSTOP)
                happens()
                time.sleep(max(0, begin + deadline_s + 0.1 - time.monotonic()))
                waiting.send_signal(signal.SIGCONT)
                return waiting.communicate()[0].strip()
            finally:
                waiting.kill()

    return run


def test_who_was_stopped_beyond_a_deadline_looks_once_more(memlease_client, empty, stopped_beyond):
    read = "array.read(timeout={timeout}).version"
    assert stopped_beyond(read, lambda: empty.put([1, 1, 1])) == "1"
    wait_for = "client.wait_for('late', timeout={timeout}).name"
    late = {"shape": 1, "dtype": "i8"}
    assert stopped_beyond(wait_for, lambda: memlease_client.create("late", **late)) == "late"


def test_a_long_wait_for_a_name_in_a_thread_of_asyncio_is_logged(
    memlease_client, monkeypatch, caplog
):
    monkeypatch.setattr(caller.long_waits, "after_s", 0)
    monkeypatch.setattr(caller.long_waits, "_said", False)

    async def main():
        opened = asyncio.create_task(asyncio.to_thread(memlease_client.wait_for, "later"))
        while not caplog.text:
            await asyncio.sleep(0.001)
        memlease_client.create("later", 4, "i8")
        assert (await opened).name == "later"

    asyncio.run(main())
    assert caplog.text.count("a wait for 'later' has gone on for 0 s in a thread of asyncio") == 1


# ---- One slot: readers wait for the write that goes on.


@pytest.fixture
def one(memlease_client):
    return memlease_client.create("one", shape=4, dtype="f8", slots=1, fill=0)


def test_one_slot_is_not_read_by_the_thread_that_writes_it(one):
    with one.write() as w:
        for call in (one.read, one.get, lambda: next(one.follow())):
            with pytest.raises(memlease.Busy, match="this thread itself is writing 'one'"):
                call()
        assert one.try_read() is None
        with pytest.raises(memlease.Timeout):
            one.read(timeout=0)
        w[...] = 1
    assert one.get()[0] == 1
    with pytest.raises(memlease.Timeout):
        one.read(newer_than=2, timeout=0.01)


def test_one_slot_is_awaited_by_another_thread(one):
    begun, seen = threading.Event(), []

    def read():
        begun.set()
        seen.append(one.get()[0])

    with one.write() as w:
        reader = threading.Thread(target=read)
        reader.start()
        begun.wait()
        w[...] = 1
    reader.join()
    assert seen == [1]


def test_one_slot_has_no_version_after_a_write_that_was_dropped(memlease_client, one):
    other = memlease_client.open("one")
    with one.write() as lease:
        assert other.version == one.version == 1  # nobody knows what comes of the write
        lease[...] = 2
        lease.drop()
    assert other.version == one.version == 0
    with pytest.raises(memlease.WriteAborted):
        one.read()
    assert memlease.wait([other], 0) == [other]  # as a read would raise
    with pytest.raises(memlease.VersionGone, match="is not there, and no other one is"):
        one.read(version=1)
    with pytest.raises(memlease.Timeout, match="there is none now"):
        one.read(newer_than=2, timeout=0)
    with one.write() as lease:
        assert other.version == one.version == 0
        lease.drop()
    one.put(3)
    assert other.version == one.version == one.read().version == 4


def test_who_waits_for_a_write_of_one_slot_that_is_dropped_is_told(memlease_client, one):
    follower, other = one.follow(), memlease_client.open("one")
    with next(follower) as first:
        assert first.version == one.version == 1
    with one.write() as lease:
        lease.drop()
    assert memlease.wait([other, follower], 0, newer_than=[1, 1]) == [other, follower]
    for call in (
        lambda: other.read(newer_than=1, timeout=1),
        lambda: other.try_read(newer_than=1),
        lambda: asyncio.run(other.read_async(newer_than=1, timeout=1)),
        lambda: next(follower),
    ):
        with pytest.raises(memlease.WriteAborted, match="version 2, was given up"):
            call()
    one.put(3)
    assert next(follower).version == other.read(newer_than=2).version == 3


def test_an_event_loop_is_told_once_of_a_write_of_one_slot_that_was_dropped(one):
    def readable(seconds):
        return bool(select.select([one], [], [], seconds)[0])

    assert readable(20)
    one.read().release()
    assert not readable(0)
    one.write().drop()
    assert readable(20)
    with pytest.raises(memlease.WriteAborted):
        one.read(newer_than=1)
    assert not readable(0)
    one.put(3)
    assert readable(20)
