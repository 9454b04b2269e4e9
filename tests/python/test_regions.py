"""Regions of arrays: views of a part, copies of a part, and what is no part."""

import asyncio
import concurrent.futures
import gc
import hashlib
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import memlease
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices
from properties import tried

VALUES = np.arange(4 * 6 * 5, dtype="i4").reshape(4, 6, 5)
COLUMN = np.s_[1:-1, 3, ::2]


@pytest.fixture
def field(memlease_client):
    return memlease_client.put("u", VALUES)


# ---- As NumPy has it.


@pytest.mark.parametrize("order", ["C", "F"])
@tried(examples=150)
@given(data=st.data())
def test_any_region_is_what_numpy_makes_of_it(memlease_client, order, data):
    shape = data.draw(st.sampled_from([(), (0,), (1,), (7,), (3, 0, 2), (4, 6), (3, 1, 4, 2)]))
    name = f"{order}{'x'.join(map(str, shape))}"
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    array = memlease_client.create(
        name, shape=shape, dtype="i4", order=order, exist_ok=True, lifetime="persistent"
    )
    array.put(values)
    region = data.draw(basic_indices(shape, allow_newaxis=False))
    expected = values[region]
    indices = region if isinstance(region, tuple) else (region,)
    if any(isinstance(index, slice) and (index.step or 1) < 0 for index in indices):
        with pytest.raises(memlease.InvalidArgument, match="step"):
            array.read(region=region)
        return
    with array.read(region=region) as r:
        view = np.asarray(r)
        assert view.shape == r.shape == expected.shape
        assert np.array_equal(view, expected)
        with array.read() as whole:
            assert expected.size == 0 or np.shares_memory(view, whole.array)
    assert np.array_equal(array.get(region=region), expected)
    changed = values.copy()
    changed[region] = -7
    array.put(np.full(expected.shape, -7, "i4"), region=region)
    assert np.array_equal(array.get(), changed)


# ---- What a lease shows.


def test_all_that_a_lease_hands_out_is_of_the_region(field):
    expected = VALUES[COLUMN]
    with field.read() as whole, field.read(region=COLUMN) as r:
        address = whole.array[COLUMN].ctypes.data
        assert (r.shape, r.ndim, r.size, r.nbytes) == ((2, 3), 2, 6, 24)
        assert r.strides == whole.array[COLUMN].strides == (120, 8)
        assert r.array.ctypes.data == address
        assert r.memoryview().tolist() == memoryview(r).tolist() == expected.tolist()
        assert r.__array_interface__["strides"] == (120, 8)
        again = np.asarray(type("Described", (), {"__array_interface__": r.__array_interface__})())
        assert again.ctypes.data == address
        tensor = torch.from_dlpack(r)
        assert (tensor.data_ptr(), tensor.stride()) == (address, (30, 2))
        for view in (np.array(r), np.from_dlpack(r), again, tensor, np.array(list(r))):
            assert np.array_equal(view, expected)
        assert bytes(r) == expected.tobytes()
        assert r.sum() == expected.sum()
        assert (len(r), r[1, 2], r.mean(axis=0).tolist()) == (2, expected[1, 2], [60, 62, 64])
        assert np.array_equal(np.from_dlpack(r, copy=True), expected)
        assert repr(r) == f"<memlease.ReadLease 'u' region int32[2,3] v1 slot={r.slot}>"
        with pytest.raises(BufferError, match="other strides"):
            hashlib.sha256(r)


def test_a_region_is_read_only_and_keeps_its_slot(field):
    with field.read(region=COLUMN) as r:
        view, tensor = r.array, torch.from_dlpack(r)
        with pytest.raises(ValueError, match="read-only"):
            view[0, 0] = 1
        assert not r.release()
    for _ in range(5):
        field.put(0)
    assert np.array_equal(view, VALUES[COLUMN])
    assert np.array_equal(tensor, VALUES[COLUMN])


def test_released_views_of_a_region_see_copies(field):
    view = field.read(region=COLUMN).array
    address = view.ctypes.data
    assert memlease.release_views(field) == 1
    for _ in range(5):
        field.put(0)
    assert np.array_equal(view, VALUES[COLUMN])
    assert view.ctypes.data == address


def test_a_late_write_through_a_region_ends_the_process(memlease_daemon):
    program = (
        "import memlease, numpy as np\n"
        "memlease.explain_faults()\n"
        "a = memlease.connect().create('big', shape=(64, 4096), dtype='u1', fill=0)\n"
        "with a.update(region=np.s_[:, 5]) as w:\n"
        "    kept = w.array[1:]\n"
        "kept[0] = 1\n"
    )
    # ASan's runtime, where it is loaded, would report the fault in place of the kernel.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0"}
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert run.returncode == -11
    assert "'big'" in run.stderr


def test_the_array_of_a_published_region_is_read_only(field):
    with field.update(region=COLUMN) as w:
        kept = w.array
    with pytest.raises(ValueError, match="read-only"):
        kept[0, 0] = 1


def test_jax_takes_a_region_without_gaps(field):
    with field.read(region=COLUMN) as r:
        with pytest.raises(jax.errors.JaxRuntimeError, match="compact"):
            jnp.from_dlpack(r)
        assert np.array_equal(jnp.asarray(r), VALUES[COLUMN])
    with field.read(region=1) as r:
        assert np.array_equal(jnp.from_dlpack(r), VALUES[1])


def test_jax_takes_it_in_place_where_it_is_aligned(memlease_client):
    array = memlease_client.put("rows", np.arange(12 * 64, dtype="f4").reshape(12, 64))
    with array.read(region=np.s_[4:9]) as r:
        rows = jnp.from_dlpack(r)
        assert rows.unsafe_buffer_pointer() == r.array.ctypes.data
        assert float(rows[0, 0]) == 256
        rows.delete()
        del rows
        gc.collect()


def test_a_follower_shows_the_region_of_each_version(field):
    with field.follow(timeout=5, region=np.s_[..., 0]) as versions:
        for value in (1, 2, 3):
            field.put(value)
            lease = next(versions)
            assert (lease.version, lease.shape) == (value + 1, (4, 6))
            assert (lease.array == value).all()
    assert field.try_read(region=0).shape == (6, 5)
    assert field.try_read(newer_than=99, region=0) is None

    async def read():
        with await field.read_async(region=np.s_[0, 0]) as lease:
            return lease.shape

    assert asyncio.run(read()) == (5,)


# ---- Writing.


@pytest.mark.parametrize("begin", ["write", "update"])
def test_what_a_region_leaves_out_is_the_current_versions(field, begin):
    with getattr(field, begin)(region=COLUMN) as w:
        assert (w.shape, w.version) == ((2, 3), 2)
        w[...] = -1
        w[0, 0] += -1
    changed = VALUES.copy()
    changed[COLUMN] = -1
    changed[1, 3, 0] = -2
    assert np.array_equal(field.get(), changed)
    assert field.version == 2


def test_an_update_begins_with_the_regions_own_elements(field):
    with field.update(region=np.s_[:, 0]) as w:
        w += 1000
    assert np.array_equal(field.get()[:, 0], VALUES[:, 0] + 1000)


def test_a_library_writes_into_a_region(field):
    with field.write(region=COLUMN) as w:
        torch.from_dlpack(w).fill_(-3)
    assert (field.get(region=COLUMN) == -3).all()
    assert (field.get() == -3).sum() == 6


def test_a_dropped_region_changes_nothing(field):
    with field.write(region=0) as w:
        w[...] = -1
        w.drop()
    assert np.array_equal(field.get(), VALUES)


def test_with_one_slot_a_region_is_written_in_place(memlease_client):
    array = memlease_client.create("one", shape=(3, 4), dtype="f4", slots=1, fill=1)
    with array.write(region=np.s_[:, 1]) as w:
        w[...] = 2
    assert array.get().tolist() == [[1, 2, 1, 1]] * 3


def test_without_a_version_only_what_covers_all_is_written(memlease_client):
    array = memlease_client.create("new", shape=(2, 2), dtype="f4")
    for call in (
        lambda: array.write(region=0),
        lambda: array.update(region=0),
        lambda: array.put(1, region=0),
    ):
        with pytest.raises(memlease.InvalidArgument, match="no version that could be updated"):
            call()
    with array.write(region=...) as w:
        w[...] = 1
    array.put(np.ones((2, 2)), region=np.s_[:, 0:2])
    assert array.version > 0


# ---- Halos.


def smooth(cells):
    """One step of a solver, which needs a column of halo on either side."""
    return (cells[:, :-2] + 2 * cells[:, 1:-1] + cells[:, 2:]) / 4


def run_rank(directory, rank, ranks, blocks, steps):
    """Do what one process of a ring of them does."""
    with memlease.connect(directory) as client:
        block = blocks[rank]
        mine = client.create(f"rank{rank}", (block.shape[0], block.shape[1] + 2), "f8")
        mine.put(np.pad(block, ((0, 0), (1, 1))))
        left = client.wait_for(f"rank{(rank - 1) % ranks}", timeout=20)
        right = client.wait_for(f"rank{(rank + 1) % ranks}", timeout=20)
        for step in range(1, steps + 1):
            with (
                left.read(version=step, timeout=20, region=np.s_[:, -2]) as from_left,
                right.read(version=step, timeout=20, region=np.s_[:, 1]) as from_right,
                mine.update() as lease,
            ):
                lease[:, 0], lease[:, -1] = from_left, from_right
                lease[:, 1:-1] = smooth(lease.array)
        blocks[rank] = mine.get(region=np.s_[:, 1:-1])


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_exchange_their_outer_columns(memlease_daemon, ranks):
    columns, steps = 6, 20
    cells = np.random.default_rng(1).random((5, ranks * columns))
    blocks = np.split(cells, ranks, axis=1)
    rest = (ranks, blocks, steps)
    with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
        directory = memlease_daemon.directory
        runs = [pool.submit(run_rank, directory, rank, *rest) for rank in range(ranks)]
        for run in runs:
            run.result(timeout=60)
    for _ in range(steps):
        cells = smooth(np.pad(cells, ((0, 0), (1, 1)), mode="wrap"))
    assert np.allclose(np.concatenate(blocks, axis=1), cells, rtol=1e-12)


# ---- Copies.


def test_get_and_put_convert_and_take_any_layout(field):
    out = np.zeros((3, 2), "f8").T
    assert field.get(out, region=COLUMN) is out
    assert np.array_equal(out, VALUES[COLUMN])
    swapped = np.zeros((2, 3), ">i4")
    assert np.array_equal(field.get(swapped, region=COLUMN), VALUES[COLUMN])
    sources = (
        np.arange(6, dtype=">i4").reshape(3, 2).T,
        np.arange(12, dtype="i2").reshape(2, 6)[:, ::-2],
        torch.arange(6).reshape(3, 2).T,
        [[1, 2, 3], [4, 5, 6]],
        np.broadcast_to(np.int32(9), (2, 3)),
        3,
    )
    for source in sources:
        field.put(source, casting="unsafe", region=COLUMN)
        assert np.array_equal(field.get(region=COLUMN), np.broadcast_to(source, (2, 3)))
    changed = VALUES.copy()
    changed[COLUMN] = 3
    assert np.array_equal(field.get(), changed)


def test_a_lease_of_a_region_is_a_source(field):
    with field.read(region=np.s_[:, 0]) as r:
        field.put(r, region=np.s_[:, 5])
    assert np.array_equal(field.get(region=np.s_[:, 5]), VALUES[:, 0])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda a: a.get(np.zeros(6, "i4"), region=COLUMN), r"the region of 'u' has \(2, 3\)"),
        (lambda a: a.put(np.zeros((3, 2), "i4"), region=COLUMN), "source.T"),
        (lambda a: a.put(np.zeros((4, 6, 5), "i4"), region=COLUMN), r"int32\[2, 3\]"),
        (lambda a: a.put(0.5, region=COLUMN), "casting"),
    ],
)
def test_a_copy_of_another_shape_is_refused(field, call, says):
    with pytest.raises(memlease.InvalidArgument, match=says):
        call(field)
    assert field.version == 1


# ---- What is no region.


@pytest.mark.parametrize(
    ("region", "says"),
    [
        (np.s_[0, 0, 0, 0], "has 4 indices, and the array 3 axes"),
        (np.s_[:, :, :, :], "has 4 indices"),
        (np.s_[..., :, ...], "more than one|2 \\.\\.\\."),
        (4, "index 4 of axis 0, which has 4 elements.*Give one from -4 to 3"),
        (np.s_[:, -7], "index -7 of axis 1"),
        (10**30, "index 9223372036854775807 of axis 0"),
        (-(10**30), "index -9223372036854775808 of axis 0"),
        (np.s_[::-1], "has the step -1.*lease.array"),
        (np.s_[:, None], "new axis"),
        ([0, 1], "an index of type list.*lease.array"),
        (np.array([0, 1]), "an index of type numpy.ndarray"),
        (np.ones(4, bool), "an index of type numpy.ndarray"),
        (torch.tensor([1]), "an index of type Tensor"),
        (True, "an index of type bool"),
        (np.True_, "an index of type numpy.bool"),
        (1.0, "an index of type float"),
        ("u", "an index of type str"),
    ],
    ids=str,
)
def test_what_is_no_region_is_refused(field, region, says):
    for call in (
        lambda: field.read(region=region),
        lambda: field.try_read(region=region),
        lambda: field.follow(region=region),
        lambda: field.write(region=region),
        lambda: field.update(region=region),
        lambda: field.get(region=region),
        lambda: field.put(0, region=region),
    ):
        with pytest.raises(memlease.InvalidArgument, match=f"(?s){says}"):
            call()
    assert field.version == 1
    field.write(wait=0).drop()  # no lease is left behind


@pytest.mark.parametrize("region", [np.s_["a":], np.s_[::0], np.s_[0.5:]])
def test_a_slice_is_checked_as_pythons_are(field, region):
    with pytest.raises((TypeError, ValueError)):
        field.read(region=region)


@pytest.mark.parametrize("index", [np.int8(1), np.array(1), torch.tensor(1)])
def test_any_integer_is_an_index(field, index):
    assert np.array_equal(field.get(region=index), VALUES[1])


def test_an_empty_region_is_one(field):
    for region in (np.s_[2:2], np.s_[3:1], np.s_[9:], np.s_[:, 1:1]):
        with field.read(region=region) as r:
            assert r.array.shape == VALUES[region].shape
            assert torch.from_dlpack(r).numel() == 0
            assert r.memoryview().nbytes == 0
        field.put(np.empty(VALUES[region].shape, "i4"), region=region)
    assert np.array_equal(field.get(), VALUES)


def test_types_that_numpy_does_not_know(memlease_client):
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3).to(torch.float8_e5m2)
    array = memlease_client.put("f8", tensor)
    with array.read(region=np.s_[:, 1]) as r:
        assert torch.from_dlpack(r).float().tolist() == [1, 4]


def test_regions_of_a_closed_array(field):
    field.close()
    with pytest.raises(memlease.Closed):
        field.read(region=0)
