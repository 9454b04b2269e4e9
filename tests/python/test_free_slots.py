"""What a writer finds where slots are held: one more, up to max_slots, the quota and the shares."""

import contextlib
import subprocess
import sys

import memlease
import pytest
from memlease.testing import Daemon


def test_no_free_slot(memlease_client):
    field = memlease_client.create("fixed", shape=(4, 6), dtype="f4", slots=3, max_slots=3, fill=0)
    leases = []
    for value in range(3):
        leases.append(field.read())
        if value < 2:
            field.put(value)
    with pytest.raises(memlease.NoFreeSlot):
        field.write(wait=0)
    leases.pop(0).release()
    field.put(9)
    for lease in leases:
        lease.release()


def test_no_free_slot_where_the_quota_is_used_up(tmp_path):
    daemon = Daemon(str(tmp_path / "run"), tmp_path / "log", "--quota-bytes=8192")
    with daemon.connect() as client:
        field = client.create("a", shape=1024, dtype="f4", slots=2, fill=0)
        lease = field.read()
        field.put(1)
        with (
            field.read() as other,
            pytest.raises(memlease.NoFreeSlot, match="memleasectl status") as caught,
        ):
            field.write(wait=0)
        assert "quota" in caught.value.hint
        assert (lease.version, other.version) == (1, 2)
        lease.release()
    daemon.stop()


def test_versions_that_are_kept_do_not_stop_the_writer(memlease_client):
    field = memlease_client.create("a", shape=4, dtype="i8", slots=2, max_slots=32, fill=1)
    kept = []

    def keep_all():
        while True:
            kept.append(field.read().array)
            field.put([len(kept) + 1] * 4, wait=5)

    with pytest.raises(memlease.TooManyHeld, match=r"as it may, 10, .*: 1, 2, 3, 4, 5, 6, 7, 8, 9"):
        keep_all()
    assert [view.tolist() for view in kept] == [[n] * 4 for n in range(1, 11)]
    for value in range(12, 100):
        field.put([value] * 4, wait=5)
    assert [view.tolist() for view in kept] == [[n] * 4 for n in range(1, 11)]
    kept.clear()
    assert field.get().tolist() == [99] * 4


WRITES = """
import sys, memlease
array = memlease.connect(sys.argv[1]).open("a")
for value in range(100):
    array.put(value, wait=0)
print(array.version)
"""


def test_views_of_what_a_process_has_written_do_not_stop_other_writers(memlease_client):
    field = memlease_client.create("a", shape=4, dtype="i8", slots=2, max_slots=32, fill=1)
    kept = []

    def keep_all():
        while True:
            with field.write(wait=0) as w:
                w[...] = len(kept)
                kept.append(w.array)

    with pytest.raises(memlease.TooManyHeld, match=r"holds more .* than it may, 10, .*: 2, 3, 4"):
        keep_all()
    assert [view.tolist() for view in kept] == [[n] * 4 for n in range(11)]
    for write in (field.write, field.update, field.try_write, lambda: field.put(0)):
        with pytest.raises(memlease.TooManyHeld):
            write()
    command = [sys.executable, "-c", WRITES, memlease_client.directory]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "112\n"
    assert [view.tolist() for view in kept] == [[n] * 4 for n in range(11)]
    del kept[0]
    assert field.put(5, wait=0) == 113


READS = """
import sys, memlease
lease = memlease.connect(sys.argv[1]).open("a").read()
print(lease.version, flush=True)
sys.stdin.read()
"""


def test_readers_that_come_later_stop_no_writer_that_keeps_its_share(memlease_client):
    field = memlease_client.create("a", shape=4, dtype="i8", slots=2, max_slots=32, fill=1)
    kept = [field.read()]
    while len(kept) < 9:
        with field.write(wait=0) as w:
            w[...] = len(kept)
            kept.append(w.array)
    command = [sys.executable, "-c", READS, memlease_client.directory]
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            reader = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            assert int(reader.stdout.readline()) == field.version
            with field.write(wait=0) as w:
                w[...] = 5
                named = w.array
        assert named.tolist() == [5] * 4
        field.put(6, wait=0)
        with pytest.raises(memlease.TooManyHeld, match="than it may, 2,"):
            field.read()


@pytest.mark.parametrize(
    ("slots", "max_slots", "most"),
    [(3, None, 64), (1, None, 1), (3, 3, 3), (3, 5, 5), (64, 64, 64)],
)
def test_max_slots(memlease_client, slots, max_slots, most):
    field = memlease_client.create("a", shape=4, dtype="i8", slots=slots, max_slots=max_slots)
    assert (field.slots, field.max_slots) == (slots, most)
    again = memlease_client.create(
        "a", shape=4, dtype="i8", slots=slots, max_slots=most, exist_ok=True
    )
    assert again.max_slots == most


def test_large_arrays_grow_less(memlease_client):
    field = memlease_client.create("a", shape=(1 << 20) + 1, dtype="u1", slots=2)
    assert field.max_slots == 16


@pytest.mark.parametrize("options", [{"max_slots": 0}, {"max_slots": 2}, {"max_slots": 65},
                                     {"max_slots": "4"}, {"slots": 1, "max_slots": 2}])  # fmt: skip
def test_max_slots_is_checked(memlease_client, options):
    with pytest.raises(memlease.InvalidArgument, match=r"max_slots"):
        memlease_client.create("a", shape=4, dtype="i8", **options)


def test_one_slot_excludes_readers_and_writer(memlease_client):
    a = memlease_client.create("a", shape=2, dtype="f4", slots=1, fill=1)
    with a.read(), pytest.raises(memlease.Busy):
        a.write(wait=5)
    with a.update() as w:
        assert w[0] == 1
        with pytest.raises((memlease.Busy, memlease.Timeout)):
            a.read(timeout=0.05)
        w[...] = 2
    assert a.get().tolist() == [2, 2]
