"""Leases as other libraries look at them: extents, dtype, length, iteration."""

import collections.abc
import copy
import operator

import jax.numpy as jnp
import memlease
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", (2, 3), "f4", fill=np.arange(6).reshape(2, 3))


def test_a_lease_has_the_extents_of_its_array(field):
    for lease in (field.read(), field.write()):
        with lease:
            assert (lease.ndim, lease.size, lease.nbytes, len(lease)) == (2, 6, 24, 2)
            assert lease.dtype == field.dtype == np.float32
            assert isinstance(lease.dtype, np.dtype)
            assert lease.dtype_name == field.dtype_name == "float32"
        assert (lease.ndim, len(lease)) == (2, 2)  # it has ended


def test_a_lease_is_iterated_over_by_rows(field):
    with field.read() as lease:
        # What pandas asks before it takes an object for an array.
        assert isinstance(lease, collections.abc.Iterable)
        assert isinstance(lease, collections.abc.Sized)
        assert [row.tolist() for row in lease] == [[0, 1, 2], [3, 4, 5]]
        assert sum(lease).tolist() == [3, 5, 7]
        assert lease[-1].tolist() == [3, 4, 5]
        assert next(reversed(lease)).tolist() == [3, 4, 5]
    with pytest.raises(memlease.Closed):
        iter(lease)


def test_a_lease_is_true_unless_it_has_one_element(memlease_client):
    for name, shape in (("none", 0), ("many", 3), ("one", ()), ("row", (1, 1))):
        array = memlease_client.create(name, shape, "i4", fill=0)
        for lease in (array.read(), array.update()):
            with lease:
                if lease.size != 1:
                    assert lease
                    continue
                with pytest.raises(ValueError, match=r"lease\.item\(\) .* `lease is not None`"):
                    bool(lease)
    alone = memlease_client.open("many").read(region=0)
    with alone, pytest.raises(ValueError, match="ambiguous"):
        bool(alone)
    with memlease_client.open("one").read() as lease:
        with pytest.raises(TypeError, match="no length"):
            len(lease)
        assert (lease.ndim, lease.size, lease.nbytes) == (0, 1, 4)


def test_pandas_takes_a_lease_for_its_elements_and_no_handle(memlease_client):
    column = memlease_client.put("a", np.arange(4.0))
    table = memlease_client.put("b", np.arange(6).reshape(3, 2))
    with column.read() as lease:
        series = pd.Series(lease)
        assert (series.dtype, series.tolist()) == (np.float64, [0, 1, 2, 3])
        assert pd.DataFrame({"x": lease, "y": 1})["x"].tolist() == [0, 1, 2, 3]
        assert pd.Index(lease).dtype == np.float64
    with table.read() as lease:
        frame = pd.DataFrame(lease, columns=["x", "y"])
        assert (frame.dtypes.tolist(), frame["y"].tolist()) == ([np.int64] * 2, [1, 3, 5])
    assert memlease_client.put("c", frame).get().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert memlease_client.put("d", series[1:]).get().tolist() == [1, 2, 3]
    for make in (pd.Series, pd.DataFrame, pd.Index):
        with pytest.raises(memlease.Unsupported, match="take a lease"):
            make(column)


def test_frameworks_take_a_lease(memlease_client):
    array = memlease_client.put("a", np.arange(4.0))
    with array.read() as lease:
        assert pa.array(lease).to_pylist() == [0, 1, 2, 3]
        assert jnp.asarray(lease).tolist() == [0, 1, 2, 3]
        assert torch.tensor(lease).tolist() == [0, 1, 2, 3]
        assert np.zeros_like(lease).tolist() == [0] * 4
        copied = copy.deepcopy(np.asarray(lease))
    assert copied.tolist() == [0, 1, 2, 3]


def test_nobody_asks_a_lease_of_one_element_for_its_truth(memlease_client):
    array = memlease_client.create("a", 1, "f8", fill=2)
    with array.try_read() as lease:
        assert "float64" in repr(lease)
        assert 2 in lease
        assert (np.asarray(lease), np.sum(lease), max(lease)) == (2, 2, 2)
        assert pd.Series(lease).tolist() == pd.DataFrame({"x": lease})["x"].tolist() == [2]
        assert pa.array(lease).to_pylist() == [2]
        assert torch.tensor(lease).tolist() == torch.from_dlpack(lease).tolist() == [2]
        assert jnp.asarray(lease).tolist() == jnp.from_dlpack(lease).tolist() == [2]
    with array.try_write() as lease:
        lease[...] = 3
    for lease in array.follow():
        assert lease.item() == 3
        break
    assert array.get() == 3


def test_an_array_is_changed_in_place(field):
    with field.update() as lease:
        lease.array += 1
        lease.array[0] *= 2
        with pytest.raises(AttributeError, match=r"lease\[\.\.\.\] = values"):
            lease.array = np.zeros((2, 3))
    assert field.get().tolist() == [[2, 4, 6], [4, 5, 6]]
    with field.read() as lease, pytest.raises(ValueError, match="read-only"):
        lease.array += 1


def test_a_mask_is_refused(field):
    with field.write() as lease:
        with pytest.raises(memlease.InvalidArgument, match="a masked array"):
            lease[...] = np.ma.masked_equal(np.zeros((2, 3)), 0)
        lease[...] = np.float32(7)
        lease[0] = [1, 2, 3]
    assert field.get().tolist() == [[1, 2, 3], [7, 7, 7]]


def test_arithmetic_and_comparisons_are_numpys(field, memlease_client):
    with field.read() as lease:
        assert (lease + 1).tolist() == [[1, 2, 3], [4, 5, 6]]
        assert (10 - lease * 2).tolist() == [[10, 8, 6], [4, 2, 0]]
        assert (lease == lease.array).all()
        assert (lease > 3).sum() == 2
        assert (-lease).min() == -5
        assert {lease: 1}[lease] == 1
    with field.update() as lease:
        lease += 1
        lease *= 2
    assert field.get().tolist() == [[2, 4, 6], [8, 10, 12]]
    mask = memlease_client.create("mask", 2, "bool", fill=[True, False])
    with mask.read() as lease:
        assert ((~lease).tolist(), (lease | ~lease).all()) == ([False, True], True)
    with memlease_client.put("one", np.uint8(53)).read() as lease:
        assert (int(lease), float(lease)) == (53, 53.0)
        assert list(range(60))[lease] == 53
        with pytest.raises(TypeError, match="0-d"):
            list(lease)
    with memlease_client.put("real", np.float64(2.5)).read() as lease:
        assert (float(lease), int(lease)) == (2.5, 2)
        with pytest.raises(TypeError):
            operator.index(lease)


IN_PLACE = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "@=": operator.imatmul,
    "&=": operator.iand,
    "|=": operator.ior,
    "^=": operator.ixor,
    "<<=": operator.ilshift,
    ">>=": operator.irshift,
}


@pytest.mark.parametrize("change", IN_PLACE.values(), ids=IN_PLACE)
def test_what_changes_a_numpy_array_in_place_changes_a_write_lease(memlease_client, change):
    expected = np.array([[5, 6], [7, 8]])
    other = np.array([[2, 1], [1, 3]])
    array = memlease_client.put("u", expected)
    with array.update() as lease:
        changed = change(lease, other)
        assert changed is lease
    np.testing.assert_array_equal(array.get(), change(expected, other))
    with array.read() as lease, pytest.raises(ValueError, match="read-only"):
        change(lease, other)


def test_a_true_division_in_place_needs_numbers_with_a_fraction(field, memlease_client):
    with field.update() as lease:
        lease /= 2
    assert field.get().tolist() == [[0, 0.5, 1], [1.5, 2, 2.5]]
    whole = memlease_client.create("whole", 2, "i8", fill=3)
    with whole.update() as lease:
        with pytest.raises(TypeError, match="divide"):
            lease /= 2
        lease.drop()
    assert whole.get().tolist() == [3, 3]


def test_an_array_without_axes_changes_in_place(memlease_client):
    array = memlease_client.put("u", np.float64(3))
    with array.update() as lease:
        lease **= 2
    assert array.get() == 9


def test_what_pandas_has_on_the_left_asks_the_lease(memlease_client):
    array = memlease_client.create("table", (3, 2), "f8", fill=2)
    frame = pd.DataFrame(np.ones((3, 2)), columns=["a", "b"])
    with array.read() as lease:
        for ours, theirs in (
            (frame + lease, frame + lease.array),
            (frame - lease, frame - lease.array),
            (frame * lease, frame * lease.array),
            (lease + frame, lease.array + frame),
            (frame["a"] + lease[:, 0], frame["a"] + lease.array[:, 0]),
        ):
            assert type(ours) is type(theirs)
            assert ours.equals(theirs)
