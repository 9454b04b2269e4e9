"""Leases, and the views that they hand out."""

import contextlib
import copy
import gc
import pickle
import subprocess
import sys
import weakref

import memlease
import numpy as np
import pytest
from memlease.testing import Daemon


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", shape=(4, 5), dtype="f4", fill=0)


def write(field, value):
    with field.write() as w:
        w[...] = value


def test_a_clean_exit_publishes(field):
    with field.write() as w:
        assert w.version == 2
        assert field.version == 1
        w[...] = 7
        w[1, 2] = 8
        assert w[1, 2] == 8
    assert w.ended
    assert field.version == 2
    with field.read() as r:
        assert r.version == 2
        assert r[0, 0] == 7
        assert r[1].tolist() == [7, 7, 8, 7, 7]
        assert not r.released
    assert r.released


def test_a_lease_knows_shape_and_dtype(field):
    with field.write() as w:
        assert (w.shape, w.dtype) == (field.shape, field.dtype) == ((4, 5), "float32")
    with field.read() as r:
        assert (r.shape, r.dtype) == (field.shape, field.dtype)
    assert (r.shape, r.dtype) == (field.shape, field.dtype)
    with pytest.raises(AttributeError):
        r.shape = (20,)


def test_an_exception_drops(field):
    w = field.write()
    w[...] = 7
    with pytest.raises(ZeroDivisionError), w:
        raise ZeroDivisionError
    assert w.ended
    assert field.version == 1
    assert field.get()[0, 0] == 0


def test_publish_and_drop_inside_the_block(field):
    with field.write() as w:
        w[...] = 1
        assert w.publish() == 2
    assert field.version == 2
    with field.write() as w:
        w[...] = 2
        w.drop()
        w.drop()
    assert field.version == 2
    with pytest.raises(memlease.Closed):
        w.publish()


def test_a_forgotten_write_lease_is_dropped(field):
    field.write()[...] = 3
    gc.collect()
    assert field.version == 1
    write(field, 4)
    assert field.get()[0, 0] == 4


def test_update_begins_with_the_current_version(field):
    write(field, 5)
    with field.update() as w:
        assert (w.array == 5).all()
        w[0] = 6
    copy = field.get()
    assert (copy[0] == 6).all()
    assert (copy[1:] == 5).all()


def test_read_views_are_read_only(field):
    with field.read() as r:
        assert not r.array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            r.array[0, 0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            r.array.flags.writeable = True
        with pytest.raises(TypeError):
            r[0, 0] = 1


@pytest.mark.parametrize(
    "use",
    [
        lambda lease: lease.array,
        lambda lease: lease[...],
        lambda lease: lease.__dlpack__(max_version=(1, 0)),
        lambda lease: lease.dlpack().__dlpack__(max_version=(1, 0)),
        lambda lease: lease.memoryview(),
        np.asarray,
        lambda lease: lease.__enter__(),
    ],
    ids=["array", "item", "dlpack", "source", "memoryview", "asarray", "enter"],
)
def test_an_ended_lease_gives_no_views(field, use):
    for lease in (field.read(), field.write()):
        with lease:
            pass
        with pytest.raises(memlease.Closed):
            use(lease)


def test_an_ended_read_lease_gives_no_buffer(field):
    with field.read() as r:
        pass
    with pytest.raises(memlease.Closed):
        memoryview(r)
    with pytest.raises(memlease.Closed):
        _ = r.__array_interface__


@pytest.mark.parametrize("begin", ["read", "write"])
def test_leases_are_made_by_arrays_alone(field, begin):
    with getattr(field, begin)() as lease:
        made = type(lease)
        for make in (
            made,
            lambda: made.__new__(made),
            lambda: object.__new__(made),
            lambda: type("Mine", (made,), {}),
            lambda: copy.copy(lease),
            lambda: pickle.dumps(lease),
        ):
            with pytest.raises(TypeError):
                make()
        with pytest.raises(TypeError):
            lease.__class__ = type(field.read())
        assert made.__module__ == "memlease"


def test_a_lease_may_be_referred_to_weakly(field):
    lease = field.read()
    reference = weakref.ref(lease)
    assert reference() is lease
    del lease
    assert reference() is None


def test_a_lease_is_a_sequence_of_its_rows(field):
    with field.write() as w:
        w[...] = np.arange(20).reshape(4, 5)
    with field.read() as r:
        assert [row.tolist() for row in r] == np.arange(20).reshape(4, 5).tolist()
        with pytest.raises(TypeError):
            del r[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda field: field.read(1),
        lambda field: field.read(versions=1),
        lambda field: field.read(version=1.5),
        lambda field: field.write(1, 2),
        lambda field: field.write(1, wait=2),
        lambda field: field.update(timeout=1),
        lambda field: field.write().publish(True),
        lambda field: field.read().release(1, 2),
        lambda field: field.read().__exit__(None),
        lambda field: memlease.Array.read(field.read()),
        lambda field: memlease.Array.read(memlease.Array.__new__(memlease.Array)),
    ],
)
def test_wrong_calls_are_type_errors(field, call):
    with pytest.raises(TypeError):
        call(field)
    assert field.version == 1
    write(field, 2)
    with field.read() as r:
        assert r[0, 0] == 2


def test_positional_arguments_are_refused_with_an_example(field):
    with pytest.raises(TypeError, match=r"read\(\) takes keyword arguments only, for example vers"):
        field.read(1)
    with pytest.raises(
        TypeError, match=r"write\(\) takes at most 1 positional argument, for example"
    ):
        field.write(1, 2)


def test_unknown_arguments_are_refused_with_what_there_is(field):
    with pytest.raises(TypeError, match=r"has no argument 'newer'; it has version, newer_than, ti"):
        field.read(newer=1)
    with field.write() as w, pytest.raises(TypeError, match="never fails because of views"):
        w.publish(allow_pins=True)


def test_arguments_may_be_numbers_of_any_type(field):
    with field.read(version=np.int64(1), newer_than=None, timeout=np.float32(1)) as r:
        assert r.version == 1
    with field.write(None) as w:
        w[...] = 1
    with field.write(wait=True) as w:
        w[...] = 1
    assert field.version == 3


def test_a_class_may_have_array_among_its_bases(field):
    class Mine(memlease._core.DLPackSource, memlease.Array):
        pass

    mine = Mine.__new__(Mine)
    memlease.Array.__init__(mine, field)
    with mine.read() as r:
        assert r[0, 0] == 0


def test_the_same_array_object_while_nothing_changed(field):
    write(field, 1)
    seen = set()
    for _ in range(10):
        with field.read() as r:
            assert r.array is r.array
            seen.add(id(r.array))
    assert len(seen) == 1
    written = set()
    for step in range(12):
        with field.write() as w:
            w.array[:] = step
            written.add((w.slot, id(w.array)))
        assert field.get()[3, 4] == step
    assert len({slot for slot, _ in written}) == len(written) <= 3


def test_a_changed_array_object_is_not_handed_out_again(field):
    with field.read() as r:
        r.array.shape = (20,)
    with field.read() as r:
        assert r.array.shape == (4, 5)


def test_a_weak_reference_finds_nothing_after_the_lease(field):
    with field.read() as r:
        reference = weakref.ref(r.array)
        assert reference() is r.array
    assert reference() is None


def test_two_leases_of_one_slot_have_separate_arrays(field):
    with field.read() as one, field.read() as two:
        assert one.slot == two.slot
        assert one.array is not two.array
        assert np.shares_memory(one.array, two.array)


VIEWS = {
    "NumPy array": lambda lease: lease.array,
    "slice": lambda lease: lease.array[1:],
    "item": lambda lease: lease[1:],
    "base": lambda lease: lease.array.base,
    "asarray": np.asarray,
    "buffer": memoryview,
    "interface": lambda lease: lease.__array_interface__,
    "DLPack": lambda lease: np.from_dlpack(lease),
    "capsule": lambda lease: lease.__dlpack__(max_version=(1, 0)),
}


@pytest.mark.parametrize("take", VIEWS.values(), ids=VIEWS)
def test_a_view_outlives_its_lease_and_keeps_the_bytes(field, take):
    write(field, 1)
    with field.read() as r:
        view = take(r)
    if isinstance(view, np.ndarray):
        for value in range(10, 20):
            write(field, value)
        assert (view == 1).all()
    with field.read() as r:
        assert r.array is not view
    del view
    for value in range(5):
        write(field, value)


def test_release_says_whether_the_slot_is_free(field):
    assert field.read().release()
    lease = field.read()
    view = lease.array
    assert not lease.release()
    assert lease.release() in (True, False)  # a second call does nothing
    assert view[0, 0] == 0


def test_a_view_of_a_forgotten_lease_keeps_the_bytes(field):
    view = field.read().array
    for value in range(1, 6):
        write(field, value)
    assert (view == 0).all()


def test_dropped_views_keep_the_slot_out_of_use(field):
    lease = field.write()
    slot, view = lease.slot, lease.array
    view[...] = 7
    lease.drop()
    with pytest.raises(ValueError, match="read-only"):
        view[...] = 8
    for _ in range(4):
        with field.write() as w:
            assert w.slot != slot
            w[...] = 9
    del view
    slots = set()
    for _ in range(6):
        with field.write() as w:
            slots.add(w.slot)
            w[...] = 9
    assert slot in slots


def test_no_free_slot(memlease_client):
    field = memlease_client.create("fixed", shape=(4, 6), dtype="f4", slots=3, max_slots=3, fill=0)
    leases = []
    for value in range(3):
        leases.append(field.read())
        if value < 2:
            write(field, value)
    with pytest.raises(memlease.NoFreeSlot):
        field.write(wait=0)
    leases.pop(0).release()
    write(field, 9)
    for lease in leases:
        lease.release()


def test_no_free_slot_where_the_quota_is_used_up(tmp_path):
    daemon = Daemon(str(tmp_path / "run"), tmp_path / "log", "--quota-bytes=8192")
    with daemon.connect() as client:
        field = client.create("a", shape=1024, dtype="f4", slots=2, fill=0)
        lease = field.read()
        write(field, 1)
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


def test_versions_by_number(field):
    write(field, 2)
    with field.read(version=1) as r:
        assert (r.version, r[0, 0]) == (1, 0)
    for value in range(3, 8):
        write(field, value)
    with pytest.raises(memlease.VersionGone):
        field.read(version=1)
    with pytest.raises(memlease.Timeout):
        field.read(version=100, timeout=0.02)
    with pytest.raises(memlease.Timeout):
        field.read(newer_than=field.version, timeout=0.02)
    for wrong in (0, -1, 2**64):
        with pytest.raises(memlease.InvalidArgument, match="from 1"):
            field.read(version=wrong)
