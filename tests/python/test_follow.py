"""Following an array."""

import asyncio
import collections.abc
import copy
import pickle
import subprocess
import sys
import threading

import memlease
import numpy as np
import pytest


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", shape=3, dtype="i8")


def test_follow_gives_the_newest_and_counts_what_it_skips(field):
    field.put(np.full(3, 1))
    seen = []
    with field.follow(timeout=5) as versions:
        for lease in versions:
            seen.append(lease.version)
            assert (lease.array == lease.version).all()
            for _ in range(lease.version):
                field.put(np.full(3, field.version + 1))
            if field.version > 10:
                break
    assert seen == [1, 2, 4, 8]
    assert versions.seen == 4
    assert versions.skipped == 4
    assert lease.released


def test_a_step_ends_the_lease_of_the_step_before(field):
    field.put(np.zeros(3, dtype="i8"))
    versions = field.follow()
    first = next(versions)
    assert not first.released
    field.put(np.ones(3, dtype="i8"))
    second = next(versions)
    assert first.released
    assert second[0] == 1
    versions.close()
    assert second.released


def test_a_view_outlives_the_step(field):
    field.put(np.zeros(3, dtype="i8"))
    versions = field.follow()
    kept = next(versions).array
    field.put(np.ones(3, dtype="i8"))
    next(versions)
    assert kept.tolist() == [0, 0, 0]
    versions.close()


def test_timeout_after_and_close(field):
    versions = field.follow(timeout=0.02)
    with pytest.raises(memlease.Timeout):
        next(versions)
    field.put(np.zeros(3, dtype="i8"))
    with pytest.raises(memlease.Timeout):
        next(field.follow(timeout=0.02, after=1))
    assert next(versions).version == 1
    versions.close()
    versions.close()
    assert versions.closed
    assert list(versions) == []


def test_another_thread_may_close_a_waiting_follower(field):
    versions = field.follow()
    waiting = threading.Event()
    ended = []

    def follow():
        waiting.set()
        ended.append(list(versions))

    thread = threading.Thread(target=follow)
    thread.start()
    waiting.wait()
    versions.close()
    thread.join(10)
    assert ended == [[]]


def test_a_follower_is_for_one_thread(field):
    versions = field.follow()
    results = []

    def step():
        try:
            results.append(next(versions, None))
        except memlease.Busy:
            results.append("busy")
            versions.close()

    threads = [threading.Thread(target=step) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(results, key=str) == [None, "busy"]


def test_withdraw_ends_a_wait(field):
    versions = field.follow()
    threading.Timer(0.1, field.withdraw).start()
    with pytest.raises(memlease.Withdrawn):
        next(versions)


def test_a_follower_names_its_array(field):
    with field.follow() as versions:
        assert isinstance(versions, collections.abc.Iterator)
        assert repr(versions) == f"<memlease.Follower of '{field.name}' seen=0 skipped=0>"
    assert repr(versions).endswith(" closed>")


WRITER = """
import sys, memlease
array = memlease.connect(start=False).open("u")
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class Writer:
    """Another process that writes the array."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_error):
        self.process.kill()
        self.process.communicate()

    def does(self, line):
        print(line, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"


@pytest.fixture
def kept(memlease_client):
    return memlease_client.create("u", shape=3, dtype="i8", lifetime="persistent")


def versions_of(follower, kind):
    if kind == "for":
        return [lease.version for lease in follower]

    async def follow():
        return [lease.version async for lease in follower]

    return asyncio.run(follow())


@pytest.mark.parametrize("kind", ["for", "async for"])
@pytest.mark.parametrize("end", ["kill", "close"])
def test_follow_ends_with_the_writer(kept, kind, end):
    with Writer() as writer:
        follower = kept.follow(until_writer_gone=True, timeout=20)
        seen = []
        thread = threading.Thread(target=lambda: seen.extend(versions_of(follower, kind)))
        thread.start()  # before there is a writer, or a version
        for number in range(1, 6):
            writer.does(f"array.put([{number}] * 3)")
        if end == "close":
            writer.does("array.close()")
            thread.join()
    thread.join()
    assert seen[-1] == 5
    assert seen == sorted(set(seen))
    assert follower.closed
    assert list(follower) == []
    # Whoever comes later gets what is there.
    assert versions_of(kept.follow(until_writer_gone=True), kind) == [5]
    assert versions_of(kept.follow(until_writer_gone=True, after=5), kind) == []


def test_a_writer_that_has_published_nothing_has_not_come(kept):
    follower = kept.follow(until_writer_gone=True, timeout=0.15)
    with Writer() as writer:
        writer.does("array.write().drop()")
        writer.does("array.close()")
        with pytest.raises(memlease.Timeout):
            next(follower)
    with Writer() as writer:
        writer.does("array.put([1, 2, 3])")
        assert next(follower)[2] == 3
        with pytest.raises(memlease.Timeout):
            next(follower)
    assert list(follower) == []


def test_a_withdrawn_array_has_no_writer(field):
    field.put(np.zeros(3, dtype="i8"))
    follower = field.follow(until_writer_gone=True)
    next(follower)
    threading.Timer(0.05, field.withdraw).start()
    assert list(follower) == []


def test_the_end_of_a_handle_is_not_the_writers(field):
    field.put(np.zeros(3, dtype="i8"))
    follower = field.follow(until_writer_gone=True)
    next(follower)
    threading.Timer(0.05, field.close).start()
    with pytest.raises(memlease.Closed):
        next(follower)


def test_a_writer_that_dies_in_its_only_slot_is_told_before_the_end(memlease_client):
    array = memlease_client.create("u", shape=3, dtype="i8", lifetime="persistent", slots=1)
    follower = array.follow(until_writer_gone=True, timeout=20)
    with Writer() as writer:
        writer.does("lease = array.write()")
    with pytest.raises(memlease.ProducerDied):
        next(follower)
    assert list(follower) == []


@pytest.mark.parametrize("takes", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_follower_says_that_its_array_can_be_pickled(memlease_client, takes):
    array = memlease_client.create("u", shape=3, dtype="i8")
    with pytest.raises(TypeError, match=r"pickle the array handle and call follow\(\) on it"):
        takes(array.follow())
