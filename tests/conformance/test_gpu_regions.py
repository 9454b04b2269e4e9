"""Regions of arrays on a GPU: what libraries are told of them, and copies of rows.

On the CUDA stand-in, whose checker fails a test with a race that it does not ask for.
"""

import ctypes

import consumers
import memlease
import numpy as np
import producers
import pytest
from dlpack_structs import look
from fakecuda_build import require_stand_in
from gpu_arrays import address_of, create, opened
from importing import free, refused, upload

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

SHAPE = (10, 12, 5)
VALUES = np.arange(600, dtype="u8").reshape(SHAPE)
BLOCK = np.s_[2:-1:2, 3:7, 1]  # shape (4, 4)
each_order = pytest.mark.parametrize("order", ["C", "F"])
streams = pytest.mark.parametrize("named", [False, True], ids=["no stream", "stream"])


def filled(here, order="C"):
    array = create(here, shape=SHAPE, order=order)
    array.put(np.asarray(VALUES, order=order))
    return array


# ---- Views.


@each_order
def test_interfaces_have_the_regions_address_shape_and_strides(gpu, order):
    """R-CAI-1, 3; R-DLP-3, 5: by either protocol, from the lease and with options."""
    gpu.run(look_at_a_region, order)


def look_at_a_region(here, order):
    array = filled(here, order)
    expected = np.zeros(SHAPE, "u8", order)[BLOCK].strides
    offset = int(np.dot((2, 3, 1), array.strides))
    with array.read() as whole, array.read(region=BLOCK) as lease:
        for producer in (lease, lease.cuda_array(host_wait=True)):
            interface = producer.__cuda_array_interface__
            assert interface["data"] == (address_of(whole) + offset, True)
            assert (interface["shape"], interface["strides"]) == ((4, 4), expected)
            assert type(interface["strides"]) is tuple
        for producer in (lease, lease.dlpack(readonly_ok=True)):
            capsule = producer.__dlpack__(stream=-1, max_version=(1, 0))
            tensor = look(capsule).tensor
            assert (tensor.data, tensor.byte_offset) == (address_of(whole) + offset, 0)
            assert tensor.shape[:2] == [4, 4]
            assert tensor.strides[:2] == [stride // 8 for stride in expected]
        view = consumers.torch_from_dlpack(here, lease, here.stream("library"))
        assert view.address == address_of(whole) + offset
        with pytest.raises((ValueError, RuntimeError), match="compact"):  # JAX has its own
            consumers.jax_from_dlpack(here, lease.dlpack(readonly_ok=True), here.stream("jax"))
        del view, tensor, capsule
        here.synchronize()


def test_an_empty_region_has_no_address(gpu):
    """R-CAI-4; R-DLP-7: by either protocol."""
    gpu.run(look_at_an_empty_region)


def look_at_an_empty_region(here):
    array = filled(here)
    with array.read(region=np.s_[3:3]) as lease:
        interface = lease.__cuda_array_interface__
        assert (interface["data"][0], interface["shape"]) == (0, (0, 12, 5))
        capsule = lease.__dlpack__(stream=-1, max_version=(1, 0))
        assert not look(capsule).tensor.data
        del capsule
        lease.release(here.stream())
    assert array.get(region=np.s_[3:3]).shape == (0, 12, 5)
    array.put(np.zeros((0, 12, 5), "u8"), region=np.s_[3:3])
    assert (array.get() == VALUES).all()


def test_a_kernel_writes_a_region_and_another_process_reads_it(gpu):
    """R-SYNC-5, 6: behind the copy of what the region leaves out."""
    writer, reader = gpu.process(), gpu.process()
    writer.run(filled)
    for begin, value in (("write", 7), ("update", 8)):
        writer.run(fill_a_plane, begin, value)
        found = reader.run(get)
        assert (found[4] == value).all()
        found[4] = VALUES[4]
        assert (found == VALUES).all()


def fill_a_plane(here, begin, value):
    stream = here.stream()
    with getattr(opened(here), begin)(stream=stream, region=4) as lease:
        assert lease.shape == (12, 5)
        here.fill(address_of(lease), lease.size, value, stream)


def get(here, region=None):
    return opened(here).get(region=region)


# ---- Copies.


@each_order
def test_get_copies_a_region(gpu, order):
    gpu.run(get_regions, order)


def get_regions(here, order):
    array = filled(here, order)
    for region in (BLOCK, 3, np.s_[..., 0], np.s_[1, 2, 3], np.s_[:, 4:, ::3], np.s_[...]):
        assert (array.get(region=region) == VALUES[region]).all(), region
        out = np.zeros(np.shape(VALUES[region])[::-1], "f8").T
        assert (array.get(out, region=region) == VALUES[region]).all()
        with array.read(region=region) as lease:
            assert (np.from_dlpack(lease, device="cpu") == VALUES[region]).all()


@pytest.mark.stand_in_only
def test_a_column_is_one_copy(gpu):
    assert gpu.run(count_copies_of_a_column) == [1, 0]


def count_copies_of_a_column(here):
    array = filled(here)
    here.cuda.fakecuda_calls.restype = ctypes.c_uint64
    names = (b"cudaMemcpy2DAsync", b"cudaMemcpyAsync")
    before = [here.cuda.fakecuda_calls(name) for name in names]
    array.get(region=np.s_[:, 0, 0])
    return [here.cuda.fakecuda_calls(name) - n for name, n in zip(names, before, strict=True)]


@each_order
@streams
def test_put_copies_a_region_from_the_host(gpu, order, named):
    """R-SYNC-5: behind the copy of the rest, on whichever stream that is."""
    gpu.run(put_regions, order, named)


def put_regions(here, order, named):
    array, expected = filled(here, order), VALUES.copy()
    for value, region in enumerate((BLOCK, 3, np.s_[..., 0], np.s_[1, 2, 3], np.s_[:, 4:, ::3])):
        source = np.full(VALUES[region].shape, value, "u4")
        array.put(source, region=region, stream=here.stream() if named else None)
        expected[region] = value
        assert (array.get() == expected).all(), region
    with pytest.raises(memlease.InvalidArgument, match="the source is uint64"):
        array.put(VALUES, region=BLOCK)


@streams
@pytest.mark.parametrize("library", [producers.Torch, producers.CuPyInterface])
@pytest.mark.parametrize("slots", [1, 3])
def test_put_copies_a_region_from_a_gpu(gpu, library, named, slots):
    """R-CAI-14; R-SYNC-5, 6: behind the producer's kernel and the copy of the rest."""
    writer, reader = gpu.process(), gpu.process()
    writer.run(put_from_a_gpu, library, named, slots)
    expected = VALUES.copy()
    expected[BLOCK] = 3
    expected[:, 0, 2] = np.arange(10)
    assert (reader.run(get) == expected).all()


def put_from_a_gpu(here, library, named, slots):
    array = create(here, shape=SHAPE, slots=slots)
    array.put(VALUES)
    stream = here.stream() if named else None
    block, column = (library(here, count, here.stream("library")) for count in (16, 10))
    block.shape = (4, 4)
    for value in (2, 3):
        block.fill(value)
        array.put(block, region=BLOCK, stream=stream)
        here.synchronize()
    column.shape = (10,)
    upload(here, column, np.arange(10, dtype="u8"))
    with array.update(stream=stream, region=np.s_[:, 0, 2]) as lease:
        lease[...] = column
    free(here, block, column)


@pytest.mark.stand_in_only
def test_a_producer_that_names_no_stream_races(gpu):
    """R-CAI-14: a control; rows that a kernel has yet to write are copied."""
    gpu.run(put_without_an_order)
    findings = gpu.findings()  # whichever came first
    assert "read after write" in findings or "write after read" in findings


def put_without_an_order(here):
    array = filled(here)
    source = producers.TorchInterface(here, 16, here.stream("library"))
    source.shape = (4, 4)
    source.fill(2)
    array.put(source, region=BLOCK, stream=here.stream())
    free(here, source)


def test_put_copies_a_region_of_the_same_strides(gpu):
    """A lease of one array's region is the source of another's."""
    gpu.run(put_a_lease)


def put_a_lease(here):
    array, expected = filled(here), VALUES.copy()
    other = here.client.create("other", shape=SHAPE, dtype="u8", device="cuda", fill=5)
    with other.read(region=BLOCK, stream=here.stream()) as lease:
        array.put(lease, region=BLOCK, stream=here.stream())
    expected[BLOCK] = 5
    assert (array.get() == expected).all()
    host = here.client.create("host", shape=SHAPE, dtype="u8", fill=0)
    with array.read(region=BLOCK) as lease:
        host.put(lease, region=BLOCK)
    assert (host.get(region=BLOCK) == 5).all()
    assert host.get().sum() == 5 * 16


def test_a_host_array_takes_a_region_from_a_gpu(gpu):
    gpu.run(put_on_the_host)


def put_on_the_host(here):
    array = create(here, device="host", shape=SHAPE, fill=0)
    source = producers.Torch(here, 16, here.stream("library"))
    source.shape = (4, 4)
    upload(here, source, np.arange(16, dtype="u8"))
    array.put(source, region=BLOCK)
    with array.write(region=np.s_[0, :4, :4]) as lease:
        lease[...] = source
    expected = np.zeros(SHAPE, "u8")
    expected[BLOCK] = expected[0, :4, :4] = np.arange(16).reshape(4, 4)
    assert (array.get() == expected).all()
    source.free()


def test_a_source_in_another_order_is_refused(gpu):
    gpu.run(put_another_order)


def put_another_order(here):
    array = filled(here)
    source = producers.Torch(here, 16, here.stream("library"))
    source.shape, source.strides = (4, 4), (8, 32)
    refused(here, source, memlease.Unsupported, "strides", region=BLOCK)
    source.shape, source.strides = (2, 8), None
    refused(here, source, memlease.InvalidArgument, "shape", region=BLOCK)
    assert (array.get() == VALUES).all()
    free(here, source)


# ---- On another device.


def test_a_replica_has_regions(gpu):
    writer, reader = gpu.process(), gpu.process()
    writer.run(filled)
    assert (reader.run(read_a_region_on_the_host) == VALUES[BLOCK]).all()
    reader.run(write_a_region_on_the_host)
    assert writer.run(get, BLOCK).tolist() == [[9] * 4] * 4
    assert writer.run(get).sum() == VALUES.sum() - VALUES[BLOCK].sum() + 9 * 16


def read_a_region_on_the_host(here):
    with opened(here).on("host").read(region=BLOCK) as lease:
        return np.array(lease)


def write_a_region_on_the_host(here):
    with opened(here).on("host").write(region=BLOCK) as lease:
        lease[...] = 9
