"""Replicas of arrays with one slot, whose version goes with a write that is given up."""

from concurrent.futures import ThreadPoolExecutor

import memlease
import numpy as np
import pytest
from fakecuda_build import require_stand_in

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]


def test_a_version_that_was_given_up_in_its_only_slot_keeps_nobody_beyond_its_deadline(gpu):
    gpu.run(read_what_was_given_up)


def with_one_slot(here):
    home = here.client.create("one", shape=4, dtype="f4", device="cuda:0", slots=1, fill=1)
    return home, home.on("host")


def read_what_was_given_up(here):
    home, there = with_one_slot(here)
    there.put(np.full(4, 5, "f4"))
    there.write(wait=2).drop()
    for read in (home.try_read, home.read):
        with pytest.raises(memlease.WriteAborted, match="version 3"):
            read()
    with pytest.raises(memlease.Timeout):
        home.read(newer_than=3, timeout=0.05)
    there.put(np.full(4, 6, "f4"))
    assert home.get()[0] == 6


def test_threads_that_read_in_an_only_slot_wait_for_each_other(gpu):
    gpu.run(read_by_threads)


def read_by_threads(here):
    home, there = with_one_slot(here)

    def read_often(_thread):
        for _ in range(200):
            with there.read(timeout=20) as lease:
                assert lease.version > 0

    with ThreadPoolExecutor(4) as pool:
        reading = [pool.submit(read_often, thread) for thread in range(3)]
        for value in range(50):
            home.put(np.full(4, value, "f4"))
        for thread in reading:
            thread.result()


def test_threads_that_find_an_only_slot_empty_bring_its_version_once(gpu):
    gpu.run(bring_by_threads)


def bring_by_threads(here):
    home, there = with_one_slot(here)
    assert there.get()[0] == 1
    with ThreadPoolExecutor(8) as pool:
        for value in range(2, 40):
            home.put(np.full(4, value, "f4"))
            assert there.get()[0] == value
            there.write(wait=2).drop()
            got = list(pool.map(lambda _: there.get(timeout=20)[0], range(8)))
            assert got == [value] * 8
            assert home.get()[0] == value


def test_what_was_given_up_at_home_is_where_it_was_only_read(gpu):
    gpu.run(give_up_at_home)


def give_up_at_home(here):
    home, there = with_one_slot(here)
    assert there.get()[0] == 1
    home.write(wait=2).drop()
    assert home.get()[0] == 1


def test_who_is_killed_in_an_only_slot_leaves_nothing_older_elsewhere(gpu):
    """Neither where he wrote nor elsewhere: what he wrote over was newer."""
    for place, other in (("cuda:0", "host"), ("host", "cuda:0")):
        writer, reader = gpu.process(), gpu.process()
        reader.run(publish_twice, place, other)
        writer.run(begin_a_write, place)
        reader.start(read_as_it_goes, place, other)
        writer.kill()
        assert reader.result() == ["ProducerDied", "ProducerDied", "Timeout", 3, 3]
        reader.run(withdraw_it)


def test_who_is_killed_while_another_place_has_what_he_wrote_over_loses_nothing(gpu):
    writer, reader = gpu.process(), gpu.process()
    reader.run(publish_twice, "cuda:0", "host")
    assert reader.run(read_at, "host") == 2
    writer.run(begin_a_write, "cuda:0")
    writer.kill()
    assert [reader.run(read_at, device) for device in ("host", "cuda:0")] == [2, 2]


def opened_at(here, device):
    array = here.kept.get("one") or here.client.open("one")
    here.kept["one"] = array
    return array if device == "cuda:0" else array.on("host")


def publish_twice(here, place, other):
    """Publish one version, read it elsewhere, and publish another one."""
    here.kept["one"] = here.client.create("one", shape=4, dtype="f4", device="cuda:0", slots=1)
    here.kept["places"] = [opened_at(here, device) for device in (place, other)]
    opened_at(here, place).put(np.full(4, 1, "f4"))
    assert read_at(here, other) == 1
    opened_at(here, place).put(np.full(4, 2, "f4"))


def begin_a_write(here, place):
    here.kept["lease"] = opened_at(here, place).write(wait=5)


def read_at(here, device):
    return int(opened_at(here, device).get(timeout=20)[0])


def outcome(read, *arguments, **options):
    try:
        return read(*arguments, **options)
    except memlease.Error as error:
        return type(error).__name__


def read_as_it_goes(here, place, other):
    """Read while the write goes on, and then."""
    found = [outcome(read_at, here, device) for device in (other, place)]
    found.append(outcome(opened_at(here, other).read, newer_than=3, timeout=0.05))
    opened_at(here, place).put(np.full(4, 3, "f4"))
    return found + [read_at(here, device) for device in (other, place)]


def withdraw_it(here):
    here.kept.clear()
    here.client.withdraw("one")


def test_what_was_given_up_in_an_only_slot_comes_again_from_where_it_is(gpu):
    gpu.run(give_up_and_read_again)


def give_up_and_read_again(here):
    home, there = with_one_slot(here)
    assert there.get()[0] == 1
    there.write(wait=2).drop()
    assert there.get()[0] == 1
    assert home.get()[0] == 1
    home.put(np.full(4, 2, "f4"))
    assert there.get()[0] == 2
    home.write(wait=2).drop()
    assert home.get()[0] == 2
    there.put(np.full(4, 3, "f4"))
    assert home.get()[0] == 3
    for place in (there, home):
        place.write(wait=2).drop()
    with pytest.raises(memlease.WriteAborted):
        home.get(timeout=0.05)
    assert (home.version, there.version) == (0, 0)
    for place in (there, home):
        with pytest.raises(memlease.WriteAborted):
            place.update(wait=5)
    home.put(np.full(4, 4, "f4"))
    with there.update(wait=5) as lease:
        assert lease.version < 20, "no number is used up by looking"
        lease[0] = 5
    assert home.get().tolist() == [5, 4, 4, 4]
