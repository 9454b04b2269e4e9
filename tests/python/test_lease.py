"""How leases begin and end, and what they take."""

import gc
import pickle
import weakref

import memlease
import numpy as np
import pytest


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
        with pytest.raises(ValueError, match="a published version does not change"):
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
        with pytest.raises(ValueError, match="read-only"):
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
