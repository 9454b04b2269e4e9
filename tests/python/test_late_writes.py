"""Views that outlive the publication of what they were made to write: published all the same."""

import contextlib
import gc
import logging

import memlease
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

PAGES = (64, 64)  # four pages of f4


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", shape=PAGES, dtype="f4", fill=0)


def named(w):
    v = np.asarray(w)
    v[...] = 5
    return v


def array(w):
    v = w.array
    v += 5 - v
    return v


def rows(w):
    for row in w.array:
        row[:] = 5
    return row


def halves(w):
    a, b = w.array[:32], w.array[32:]
    a[:], b[:] = 5, 5
    return a, b


def item(w):
    v = w[...]
    v[...] = 5
    return v


def transposed(w):
    v = w.array.T
    v[...] = 5
    return v


def memory_view(w):
    v = w.memoryview()
    w[...] = 5
    return v


def memory_view_of_the_array(w):
    v = memoryview(w.array)
    w[...] = 5
    return v


def buffer(w):
    v = np.frombuffer(w.array, dtype="f4")
    v[...] = 5
    return v


def capsule(w):
    w[...] = 5
    return w.__dlpack__(max_version=(1, 0))


def numpy_by_dlpack(w):
    v = np.from_dlpack(w)
    v[...] = 5
    return v


def torch_tensor(w):
    import torch

    return torch.from_dlpack(w).fill_(5)


def torch_as_tensor(w):
    import torch

    return torch.as_tensor(w).fill_(5)


def jax_array(w):
    import jax.numpy

    w[...] = 5
    return jax.numpy.from_dlpack(w)


FOREIGN = [
    rows,
    halves,
    item,
    transposed,
    memory_view,
    memory_view_of_the_array,
    buffer,
    capsule,
    numpy_by_dlpack,
    torch_tensor,
    torch_as_tensor,
    jax_array,
]
WAYS = [named, array, *FOREIGN]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@every_way
def test_a_with_block_publishes_whatever_lives(field, way, memlease_client, recwarn):
    before = memlease_client.protected_slots
    with field.write() as w:
        view = way(w)
    assert w.ended
    assert field.version == 2
    assert (field.get() == 5).all()
    assert memlease_client.protected_slots - before == (1 if way in FOREIGN else 0)
    assert memlease_client.refused_protections == 0
    assert not recwarn.list
    del view


@every_way
def test_a_view_keeps_its_version(field, way):
    with field.write() as w:
        view = way(w)
    slot = w.slot
    for value in range(10, 16):
        with field.write() as w:
            assert w.slot != slot
            w[...] = value
    if isinstance(view, np.ndarray):
        assert (view == 5).all()
    del view, w
    gc.collect()
    slots = set()
    for _ in range(6):
        with field.write() as w:
            slots.add(w.slot)
            w[...] = 9  # also where the pages were protected
        assert (field.get() == 9).all()
    assert slot in slots


@every_way
def test_update_publishes_whatever_lives(field, way):
    with field.update() as w:
        view = way(w)
    assert (field.get() == 5).all()
    del view


def test_several_arrays_in_one_block(memlease_client):
    arrays = [memlease_client.create(name, shape=4, dtype="f8", fill=0) for name in "dvt"]
    with arrays[0].write() as wd, arrays[1].write() as wv, arrays[2].write() as wt:
        views = [np.asarray(wd), wv.array, wt.array[:]]
        for view in views:
            view[...] = 1
    assert [a.version for a in arrays] == [2, 2, 2]
    assert all((a.get() == 1).all() for a in arrays)
    del views


@every_way
def test_an_exception_drops_whatever_lives(field, way):
    kept = []

    def fail(w):
        kept.append(way(w))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), field.write() as w:
        fail(w)
    assert w.ended
    assert field.version == 1
    assert (field.get() == 0).all()
    kept.clear()


def test_an_array_that_was_named_is_read_only_after_its_lease(field):
    for end in (memlease.WriteLease.publish, memlease.WriteLease.drop):
        w = field.write()
        v = w.array
        v[...] = 1
        end(w)
        with pytest.raises(ValueError, match="read-only"):
            v[...] = 2
        with pytest.raises(ValueError, match="WRITEABLE"):
            v.flags.writeable = True
        with pytest.raises(ValueError, match="WRITEABLE"):
            v.base.flags.writeable = True
        with pytest.raises(ValueError, match="read-only"):
            v[1:][...] = 2
        with pytest.raises((BufferError, ValueError)):
            np.frombuffer(v.base.base, dtype="f4")[0] = 2
    assert (field.get() == 1).all()


def test_a_loop_that_rebinds_names_calls_nobody(field, memlease_client, recwarn):
    def step(value):
        with field.write() as w:
            v = np.asarray(w)
            v[...] = value
        return v

    kept = step(1)
    calls, protected = memlease_client.calls, memlease_client.protected_slots
    for value in range(2, 100):
        kept = step(value)
    assert kept[0, 0] == 99
    assert memlease_client.calls == calls
    assert memlease_client.protected_slots == protected
    assert not recwarn.list


def test_a_kept_name_does_not_break_the_cache(field):
    with field.write() as w:
        kept = w.array
    seen = set()
    for _ in range(8):
        with field.write() as w:
            seen.add((w.slot, id(w.array)))
            w[...] = 1
    assert len({slot for slot, _ in seen}) == len(seen) == 2
    del kept


def test_views_of_small_arrays_are_published(memlease_client):
    small = memlease_client.create("small", shape=8, dtype="f4", fill=0)
    with small.write() as w:
        row = w.array[:4]
        w[...] = 3
    assert memlease_client.protected_slots == 0  # it shares its page with others
    assert (small.get() == 3).all()
    assert row[0] == 3


def test_strict_connections_refuse(field, memlease_client):
    with memlease.connect(memlease_client.directory, strict=True) as strict:
        u = strict.open("u")
        for way in (named, rows, memory_view, torch_tensor):
            w = u.write()
            view = way(w)
            with pytest.raises(memlease.Busy, match="strict"):
                w.publish()
            assert not w.ended
            named(w)
            del view
            gc.collect()
            w.publish()
        with pytest.raises(memlease.Busy), u.write() as w:
            view = named(w)
        assert w.ended
        assert (u.get() == 5).all()
        del view


def test_strictness_from_the_environment(memlease_client, monkeypatch):
    monkeypatch.setenv("MEMLEASE_STRICT", "1")
    with memlease.connect(memlease_client.directory) as strict:
        a = strict.create("strict", shape=2, dtype="f4")
        with pytest.raises(memlease.Busy), a.write() as w:
            view = named(w)
        del view


def test_blocks_that_write_nothing_are_counted_and_logged(field, memlease_client, recwarn, caplog):
    caplog.set_level(logging.DEBUG, "memlease")
    before = memlease_client.empty_writes
    version = field.version
    with field.write() as w:
        w = np.ones(PAGES, "f4")  # for w[...] = np.ones(PAGES, "f4")
    assert field.version == version, "a version of unspecified bytes"
    with contextlib.suppress(ZeroDivisionError), field.write():
        _ = 1 / 0
    field.write().drop()
    assert memlease_client.empty_writes - before == 3
    text = f"a write of '{field.name}' has ended, and nobody has asked for its bytes"
    assert caplog.messages == [text] * 3
    for way in WAYS:
        with field.write() as w:
            view = way(w)
        del view
    with field.update():
        pass
    field.put(np.zeros(PAGES, "f4"))
    assert memlease_client.empty_writes - before == 3
    assert len(caplog.messages) == 3
    assert not recwarn.list


@pytest.mark.parametrize("way", [as_strided, sliding_window_view, np.nditer, np.ma.asarray])
def test_a_slice_in_front_is_protected_whatever_is_made_of_it(memlease_client, way):
    field = memlease_client.create("v", shape=PAGES, dtype="f4", fill=0)
    before = memlease_client.protected_slots
    with field.write() as w:
        w[...] = 5
        options = {} if way is not sliding_window_view else {"window_shape": 2, "axis": 0}
        view = way(w.array[:], **options)
    assert memlease_client.protected_slots == before + 1
    del view
