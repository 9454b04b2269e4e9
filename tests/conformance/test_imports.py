"""Arrays on a GPU that others have made, put into arrays of memlease.

On the CUDA stand-in, whose checker fails a test with a race that it does not ask for.
"""

import ctypes
import gc
import weakref

import consumers
import memlease
import numpy as np
import producers
import pytest
from fakecuda_build import require_stand_in
from gpu_arrays import COUNT, create, read_with
from importing import BY_DLPACK, BY_INTERFACE, free, get_of, stream_of, upload

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

each_library = pytest.mark.parametrize(
    "library", BY_DLPACK + BY_INTERFACE, ids=lambda it: it.__name__
)
by_dlpack = pytest.mark.parametrize("library", BY_DLPACK, ids=lambda it: it.__name__)
streams = pytest.mark.parametrize("stream", [None, "own", 1])


# ---- What is copied, and behind what.


@each_library
@streams
def test_what_libraries_have_is_copied(gpu, library, stream):
    """R-CAI-14, 16; R-DLP-18: behind the library's kernel, for a reader in another process."""
    writer, reader = gpu.process(), gpu.process()
    writer.run(put_often, library, stream)
    assert (reader.run(get_of) == 3).all()


def put_often(here, library, stream):
    array, source = create(here), library(here, COUNT, here.stream("library"))
    for value in (1, 2, 3):
        source.fill(value)
        assert array.put(source, stream=stream_of(here, stream)) == value
        here.synchronize()  # what has no stream says nothing of its next kernel
    free(here, source)


@by_dlpack
@pytest.mark.parametrize("order", ["C", "F"])
def test_copies_to_the_host(gpu, library, order):
    """R-DLP-18, R-CAI-14: synchronised before they return, in whatever order the array is."""
    gpu.run(put_on_the_host, library, order)


def put_on_the_host(here, library, order):
    array = create(here, device="host", shape=(10, 100), order=order)
    source = library(here, COUNT, here.stream("library"))
    source.shape = (10, 100)
    values = np.arange(COUNT, dtype="u8").reshape(10, 100)
    upload(here, source, values)
    for stream in (None, here.stream("mine")):
        array.put(source, stream=stream)
        assert (array.get() == values).all()
        array.put(np.zeros((10, 100), "u8"))
        with array.write() as lease:
            lease[...] = source
        assert (array.get() == values).all()
    source.free()


def test_an_interface_is_copied_to_the_host(gpu):
    """R-CAI-14: also there the stream is waited for, and the copy is over at the return."""
    gpu.run(put_an_interface_on_the_host)


def put_an_interface_on_the_host(here):
    source = producers.CuPyInterface(here, COUNT, here.stream("library"))
    source.fill(6)
    array = here.client.put("h", source)
    assert array.device == "host"
    source.fill(7)
    assert array.get().tolist() == [6] * COUNT
    here.synchronize()
    source.free()


def test_buffers_of_bytes(gpu):
    """R-CAI-16: RMM has version 0 and no stream; its user waits."""
    assert gpu.run(put_bytes) == [5] + 7 * [0]


def put_bytes(here):
    array = create(here, dtype="u1", shape=8 * COUNT)
    source = producers.Rmm(here, 8 * COUNT, here.stream("library"))
    source.fill(5)
    here.synchronize(source.stream)
    array.put(source)
    free(here, source)
    return array.get()[:8].tolist()


def test_arrays_are_created_from_a_gpu(gpu):
    """R-DLP-18, R-CAI-14: shape and dtype are the source's."""
    gpu.run(create_from_sources)


def create_from_sources(here):
    for library in (producers.Torch, producers.Numba):
        source = library(here, COUNT, here.stream("library"))
        source.fill(4)
        array = here.client.put(library.__name__, source, device="cuda", stream=here.stream("mine"))
        assert (array.shape, array.dtype) == ((COUNT,), "uint64")
        assert array.get().tolist() == [4] * COUNT
        source.free()


def test_a_lease_is_a_source(gpu):
    """R-DLP-18: memlease takes what memlease hands out."""
    gpu.run(put_a_lease)


def put_a_lease(here):
    array = create(here)
    other = here.client.create("b", shape=COUNT, dtype="u8", device="cuda", fill=8)
    with other.read() as lease:
        array.put(lease)
    with other.read() as lease:
        array.put(lease, stream=here.stream("mine"))
    assert array.get().tolist() == [8] * COUNT
    here.synchronize()
    other.write().drop()


@pytest.mark.stand_in_only  # whose checker is told of the host's touches
def test_the_host_is_copied_on_the_stream(gpu):
    """R-SYNC-5: also pinned memory, which a copy reads later, may be changed after the return."""
    gpu.run(put_from_the_host)


def put_from_the_host(here):
    array, size_bytes = create(here), 8 * COUNT
    pinned = ctypes.c_void_p()
    here.call("cudaHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(size_bytes), 0)
    values = np.frombuffer((ctypes.c_char * size_bytes).from_address(pinned.value), "u8")
    for stream in (None, here.stream("mine")):
        here.fill(pinned.value, COUNT, 3, here.stream("mine"))
        here.synchronize()
        array.put(values, stream=stream)
        write = 2
        here.cuda.fakecuda_touch(pinned, ctypes.c_size_t(size_bytes), write)
        values[:] = 4
        assert array.get().tolist() == [3] * COUNT
    del values
    here.call("cudaFreeHost", pinned)


@each_library
@pytest.mark.parametrize("stream", [None, "own"])
def test_a_lease_is_filled(gpu, library, stream):
    """R-CAI-14, R-DLP-18: by the same rules, on the lease's stream, before what comes later."""
    gpu.run(fill_a_lease, library, stream)


def fill_a_lease(here, library, stream):
    array, source = create(here), library(here, COUNT, here.stream("library"))
    source.fill(3)
    with array.write(stream=stream_of(here, stream)) as lease:
        lease[...] = source
        consumers.cuda_core_view(here, lease, here.stream("kernel")).add(4)
        lease.publish(stream=here.stream("kernel"))
    assert array.get().tolist() == [7] * COUNT
    with array.write() as lease:
        for key, wrong in ((0, source), (..., np.zeros(COUNT, "u8")), (..., 1.5), (..., [1, 2])):
            with pytest.raises(memlease.Unsupported, match="host cannot touch") as caught:
                lease[key] = wrong
            assert "fill a view" in caught.value.hint
        source.shape = (10, 100)
        with pytest.raises(memlease.InvalidArgument, match="reshape"):
            lease[...] = source
        lease.drop()
    free(here, source)


@each_library
def test_a_filled_lease_ends_behind_what_comes_later(gpu, library):
    """R-SYNC-9, R-CAI-14: without a stream its end waits for the GPU, whoever worked last."""
    writer, reader = gpu.process(), gpu.process()
    writer.run(fill_and_work, library)
    assert reader.run(read_with, consumers.cupy_asarray, 7) == 0


def fill_and_work(here, library):
    array, source = create(here), library(here, COUNT, here.stream("library"))
    source.fill(3)
    with array.write() as lease:
        lease[...] = source
        consumers.cupy_asarray(here, lease, here.stream("kernel")).add(4)
    free(here, source)


# ---- Nothing blocks, and the source stays.


@each_library
def test_a_copy_on_a_stream_does_not_block(gpu, library):
    """R-CAI-17, R-DLP-18: the source is held until the GPU has copied it, and no longer."""
    assert gpu.run(put_behind_a_gate, library) == [5] * COUNT


def put_behind_a_gate(here, library):
    array, stream = create(here), here.stream("mine")
    source = library(here, COUNT, here.stream("library"))
    address, name = source.address, weakref.ref(source)
    source.fill(5)
    here.synchronize()
    here.gate(stream)
    array.put(source, stream=stream)
    assert not here.is_idle(stream)
    del source
    gc.collect()
    array.read(stream=stream).release()
    kept = name()
    assert kept is None or not kept.deleted
    assert kept is not None or library in BY_DLPACK
    del kept
    here.ungate()
    values = array.get().tolist()
    here.synchronize(stream)
    array.read().release()
    gc.collect()
    assert name() is None
    here.call("cudaFree", ctypes.c_void_p(address))
    return values


def test_a_copy_without_a_stream_holds_nothing(gpu):
    """R-DLP-18: the deleter has run when it returns."""
    gpu.run(put_and_look_at_the_deleter)


def put_and_look_at_the_deleter(here):
    array, source = create(here), producers.Torch(here, COUNT)
    array.put(source)
    assert source.deleted == 1
    array.put(source)
    assert source.deleted == 2
    free(here, source)


def test_the_source_is_let_go_when_the_client_closes(gpu):
    """R-CAI-17: closing waits for the GPU."""
    gpu.run(close_after_a_copy)


def close_after_a_copy(here):
    array, source = create(here), producers.Torch(here, COUNT)
    array.put(source, stream=here.stream("mine"))
    del array
    here.kept.clear()
    here.client.close()
    assert source.deleted == 1
    source.free()


# ---- Interfaces and capsules of every kind.


@pytest.mark.parametrize("stream", [1, 2])
def test_default_streams_are_waited_for(gpu, stream):
    """R-CAI-14: as the table says, 1 is the legacy stream and 2 the calling thread's."""
    gpu.run(put_from_a_default_stream, stream)


def put_from_a_default_stream(here, stream):
    array, source = create(here), producers.CuPyInterface(here, COUNT, stream)
    for value in (1, 2):
        source.fill(value)
        array.put(source, stream=here.stream("mine"))
    source.fill(3)
    assert array.get().tolist() == [2] * COUNT
    free(here, source)


def test_interfaces_that_are_taken(gpu):
    """R-CAI-5, 6, 14, 16: versions 0 to 3, strides in bytes, read-only, no stream."""
    gpu.run(put_interfaces)


def put_interfaces(here):
    array = create(here, shape=(10, 100))
    source = producers.Described(here, COUNT, here.stream("library"))
    source.shape = (10, 100)
    source.fill(2)
    here.synchronize()
    for changes in (
        *({"version": version} for version in (0, 1, 2, 3)),
        {"stream": None},
        {"stream": ...},
        {"mask": None},
        {"strides": (800, 8)},
        {"strides": ...},
        {"data": (source.address, True)},
        {"descr": [("", "<u8")]},
        {"shape": [10, 100]},
    ):
        source.changes = changes
        before = array.version
        assert array.put(source) == before + 1, changes
        assert (array.get() == 2).all()
    free(here, source)


def test_equal_layouts_are_copied_as_they_are(gpu):
    """R-CAI-14, R-DLP-3: also Fortran order, and rows with gaps."""
    gpu.run(put_layouts)


def put_layouts(here):
    values = np.arange(24, dtype="u8")
    for name, strides in (("fortran", (8, 32)), ("gaps", (48, 8))):
        array = here.client.create(name, shape=(4, 6), dtype="u8", device="cuda", strides=strides)
        for library in (producers.Torch, producers.CuPyInterface):
            source = library(here, 24, here.stream("library"))
            source.shape, source.strides = (4, 6), strides
            upload(here, source, values)
            array.put(source)
            expected = np.lib.stride_tricks.as_strided(values, (4, 6), strides)
            assert (array.get() == expected).all()
            source.free()


def test_no_elements(gpu):
    """R-CAI-4, R-DLP-7: then the pointer is 0, or anything."""
    gpu.run(put_nothing)


def put_nothing(here):
    array = create(here, shape=(3, 0))
    for address in (0, None, 4096):
        source = producers.Described(here, 0)
        source.shape, source.changes = (3, 0), {"data": (address, False)}
        array.put(source)
        source.free()
    source = producers.Torch(here, 0)
    source.shape = (3, 0)
    source.free()
    source.address = 0
    array.put(source, stream=here.stream("mine"))
    assert array.version == 4


def test_unusual_tensors(gpu):
    """R-DLP-3, 5, 22: no strides, an offset, no deleter."""
    assert gpu.run(put_an_unusual_tensor) == list(range(1, 7))


def put_an_unusual_tensor(here):
    source = producers.Handed(here, 7)
    values = np.arange(7, dtype="u8")
    upload(here, source, values)
    source.shape, source.offset = (2, 3), 8
    for versioned in (False, True):
        exported = producers.Exported(source.tensor(), versioned=versioned, with_deleter=False)
        source.capsule = exported.capsule
        array = here.client.put("u", source, device="cuda")
        assert not source.is_untouched()
    source.free()
    return array.get().ravel().tolist()


@pytest.mark.parametrize("stream", [1, "own", None])
def test_the_stream_is_always_passed(gpu, stream):
    """R-DLP-18: the one given, or one of the library's, never PyTorch's default."""
    gpu.run(look_at_what_is_asked, stream)


def look_at_what_is_asked(here, stream):
    array = create(here)
    given = stream_of(here, stream)
    source = producers.Torch(here, COUNT)
    array.put(source, stream=given)
    [asked] = source.asked
    assert asked["max_version"][0] == 1
    assert asked["stream"] == given if given else asked["stream"] > 2
    jax = producers.Jax(here, COUNT)
    array.put(jax, stream=given)
    assert [list(keywords) for keywords in jax.asked] == [["stream"]]
    free(here, source, jax)
