"""Following an array."""

import collections.abc
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
