"""Write leases that are read, or written in part: nobody computes with unspecified bytes."""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import memlease
import numpy as np
import pytest

ROUNDS = 7  # more than an array has slots


@pytest.fixture
def field(memlease_client):
    array = memlease_client.create("field", 4, "f8")
    array.put([1, 2, 3, 4])
    return array


def double(w):
    w[...] *= 2


def double_the_lease(w):
    w *= 2


def double_by_numpy(w):
    np.multiply(w, 2, out=w)


def double_one_by_one(w):
    for i in range(len(w)):
        w[i] = w[i] * 2


def double_rows(w):
    w[:] = [row * 2 for row in w]


@pytest.mark.parametrize(
    "way", [double, double_the_lease, double_by_numpy, double_one_by_one, double_rows]
)
@pytest.mark.parametrize("slots", [1, 3])
def test_what_a_lease_computes_begins_with_the_current_version(memlease_client, slots, way):
    array = memlease_client.create("a", 3, "f8", slots=slots, fill=1)
    for _ in range(ROUNDS):
        with array.write() as w:
            way(w)
    assert array.get().tolist() == [2**ROUNDS] * 3


@pytest.mark.parametrize(
    ("key", "rest"), [(0, slice(1, None)), (slice(1, 3), [0, 3]), ([True, False] * 2, [1, 3])]
)
def test_what_is_not_assigned_is_the_current_versions(field, key, rest):
    before = field.get()
    for number in range(ROUNDS):
        with field.write() as w:
            w[key] = number
    assert np.all(field.get()[key] == ROUNDS - 1)
    assert np.array_equal(field.get()[rest], before[rest])


def test_a_masked_ufunc_leaves_the_rest(field):
    with field.write() as w:
        np.add(1.0, 1.0, out=w, where=[True, False, False, True])
    assert field.get().tolist() == [2, 2, 3, 2]


def test_what_is_assigned_as_a_whole_copies_nothing(field, memlease_client):
    for key in (..., slice(None), (slice(None),), (..., slice(None))):
        before = memlease_client.copies
        with field.write() as w:
            w[key] = 5
        assert memlease_client.copies == before
    with field.write() as w:
        np.add(2, 2, out=w)
    with field.write() as w:
        w.array[...] = 3
    assert memlease_client.copies == before
    with field.write() as w:
        w[0] = 1
        w[1] = 1
    assert memlease_client.copies == before + 1


def test_looking_at_a_lease_is_no_writing(field, memlease_client):
    before = memlease_client.copies
    with field.write() as w:
        assert (w.strides, w.itemsize, w.nbytes, len(w)) == ((8,), 8, 32, 4)
    assert field.version == 1
    with field.write() as w:
        w.fill(7)
    assert field.get().tolist() == [7] * 4
    assert memlease_client.copies == before + 1, "that of get() alone"


def test_threads_may_fill_one_lease_by_rows(memlease_client):
    field = memlease_client.create("rows", (8, 1 << 17), "f8", fill=0)
    for number in range(1, 5):
        with field.write() as w, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda row, w=w, number=number: w.__setitem__(row, number), range(8)))
        assert np.all(field.get() == number)


def test_bytes_that_somebody_has_had_are_left_as_they_are(field):
    with field.write() as w:
        np.asarray(w)[...] = 9
        w[0] = 1
    assert field.get().tolist() == [1, 9, 9, 9]


def test_a_first_version_may_be_written_in_parts(memlease_client):
    array = memlease_client.create("new", 4, "i4")
    with array.write() as w:
        w[:2] = 1
        w[2:] = 2
    assert array.get().tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("slots", [1, 3])
def test_without_a_version_it_begins_with_zeros(memlease_client, slots):
    """Not with what another array, or a write that came to nothing, has left there."""
    for _ in range(ROUNDS):
        gone = memlease_client.create("gone", 4, "f8", slots=slots)
        gone.put([9, 9, 9, 9])
        gone.write().drop()
        if slots == 3:
            gone.withdraw()
            gone.close()
        array = gone if slots == 1 else memlease_client.create("new", 4, "f8", slots=slots)
        with array.write() as w:
            w[1] = 5
        assert array.get().tolist() == [0, 5, 0, 0]
        with array.write() as w:
            w += 1
        assert array.get().tolist() == [1, 6, 1, 1]
        array.withdraw()
        array.close()


def test_an_array_that_was_computed_with_unspecified_bytes_is_not_published(field):
    with (
        pytest.raises(memlease.InvalidArgument, match=r"begin with array\.update\(\)"),
        field.write() as w,
    ):
        w.array += 1
    assert field.version == 1
    with field.write() as w:
        w.array[...] = 1
        w.array += 1
    with field.update() as w:
        w.array += 1
    assert field.get().tolist() == [3] * 4


def test_what_asks_for_no_bytes_publishes_nothing(field):
    with field.write() as w:
        assert np.shape(w) == (4,)
        assert np.ndim(w) == 1
        assert np.size(w) == 4
        assert np.isrealobj(w)
    assert field.version == 1


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_an_array_is_copied_out_into_a_lease(field, memlease_client, dtype):
    other = memlease_client.create("other", 4, dtype)
    with other.write() as w:
        assert field.get(out=w) is w
    assert other.get().tolist() == [1, 2, 3, 4]
    with other.write(region=np.s_[1:3]) as w:
        field.get(w, region=np.s_[2:])
        with pytest.raises(memlease.InvalidArgument, match=r"out has shape \(2,\)"):
            memlease_client.get("field", out=w)
    assert other.get().tolist() == [1, 3, 4, 4]
    with other.read() as r, pytest.raises(memlease.InvalidArgument, match="ReadLease"):
        field.get(out=r)


class Pair(NamedTuple):
    one: object
    other: object


def test_leases_may_be_in_tuples_of_other_types(field, memlease_client):
    other = memlease_client.create("other", 4, "f8", fill=5)
    with field.write() as w, other.write() as v:
        assert np.stack(Pair(w, v)).tolist() == [[1, 2, 3, 4], [5, 5, 5, 5]]


def test_what_is_filled_and_read_is_read_first(field):
    with field.write() as w:
        np.round(out=w, a=w)
    assert field.get().tolist() == [1, 2, 3, 4]


def test_a_block_that_wrote_nothing_publishes_nothing(field, memlease_client):
    with field.write() as w:
        w = np.zeros(4)  # for w[...] = np.zeros(4)
        assert w is not None
    assert field.version == 1
    assert field.get().tolist() == [1, 2, 3, 4]
    one = memlease_client.create("one", 2, "i4", slots=1, fill=3)
    with one.write():
        pass
    assert (one.version, one.get().tolist()) == (2, [3, 3])
