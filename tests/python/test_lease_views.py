"""The views that leases hand out: which object it is, and how long it keeps the bytes."""

import weakref

import numpy as np
import pytest


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", shape=(4, 5), dtype="f4", fill=0)


def test_the_same_array_object_while_nothing_changed(field):
    field.put(1)
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
    field.put(1)
    with field.read() as r:
        view = take(r)
    if isinstance(view, np.ndarray):
        for value in range(10, 20):
            field.put(value)
        assert (view == 1).all()
    with field.read() as r:
        assert r.array is not view
    del view
    for value in range(5):
        field.put(value)


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
        field.put(value)
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
