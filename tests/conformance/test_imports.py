"""Arrays on a GPU that others have made, put into arrays of memlease; the numbers are the rules'.

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
from dlpack_structs import USED, set_name
from fakecuda_build import require_stand_in

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

COUNT = 1000

# cuda.core is apart: it does nothing about the stream. RMM has bytes, and no stream.
BY_DLPACK = [producers.Torch, producers.CuPy, producers.Jax]
BY_INTERFACE = [producers.CuPyInterface, producers.Numba, producers.JaxInterface]
each_library = pytest.mark.parametrize(
    "library", BY_DLPACK + BY_INTERFACE, ids=lambda it: it.__name__
)
by_dlpack = pytest.mark.parametrize("library", BY_DLPACK, ids=lambda it: it.__name__)
streams = pytest.mark.parametrize("stream", [None, "own", 1])


def create(here, **options):
    options = {"shape": COUNT, "dtype": "u8", "device": "cuda", "slots": 2, **options}
    here.kept["a"] = here.client.create("a", **options)
    return here.kept["a"]


def opened(here):
    if "a" not in here.kept:
        here.kept["a"] = here.client.open("a")
    return here.kept["a"]


def stream_of(here, stream):
    return here.stream("mine") if stream == "own" else stream


def upload(here, source, values):
    """Copy from the host, and wait until the GPU has it."""
    address, size_bytes = ctypes.c_void_p(source.address), ctypes.c_size_t(values.nbytes)
    here.call("cudaMemcpy", address, ctypes.c_void_p(values.ctypes.data), size_bytes, 1)
    here.synchronize()


def free(here, *libraries):
    """Give memory back that nobody needs any more."""
    here.synchronize()
    opened(here).read().release()  # lets go of what has been copied
    for library in libraries:
        library.free()


def get_of(here):
    return opened(here).get()


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
        for key, wrong in ((0, source), (..., np.zeros(COUNT, "u8"))):
            with pytest.raises(memlease.Unsupported, match="host cannot touch"):
                lease[key] = wrong
        source.shape = (10, 100)
        with pytest.raises(memlease.InvalidArgument, match="reshape"):
            lease[...] = source
        lease.drop()
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


# ---- Races, and what leaves waits out as their control.


@pytest.mark.parametrize("stream", [None, "own"])
def test_their_stream_waits_for_the_copy(gpu, stream):
    """R-CAI-14: what the library does next on its stream comes behind the copy."""
    gpu.run(put_and_overwrite, stream, None)
    assert gpu.findings() == ""


@pytest.mark.parametrize("how", ["call", "environment"])
def test_whoever_ignores_the_stream_races(gpu, monkeypatch, how):
    """R-CAI-15, R-SYNC-13: a control of the waits in both directions."""
    if how == "environment":
        monkeypatch.setenv("MEMLEASE_CUDA_IGNORE_STREAM", "1")
    gpu.run(put_and_overwrite, "own", True if how == "call" else None)
    found = gpu.findings()
    assert "read after write" in found
    assert "write after read" in found


def put_and_overwrite(here, stream, ignore_stream):
    array, source = create(here), producers.CuPyInterface(here, COUNT, here.stream("library"))
    source.fill(1)
    here.drain(source.stream)
    on = stream_of(here, stream)
    if on:
        here.gate(on)  # so that the call does not learn of the copy's end
    assert array.put(source, stream=on, ignore_stream=ignore_stream) == 1
    here.ungate()
    if on:
        here.drain(on)
    source.fill(2)
    here.synchronize()
    assert array.get().tolist() == [1] * COUNT
    source.free()


def test_an_asserted_order_is_not_asked_for(gpu):
    """R-SYNC-13, R-DLP-18: -1 is passed to those whose elements are said to be ready."""
    gpu.run(put_what_is_ready)


def put_what_is_ready(here):
    array, source = create(here), producers.Torch(here, COUNT, here.stream("library"))
    source.fill(1)
    here.synchronize()
    array.put(source, ignore_stream=True)
    assert [asked["stream"] for asked in source.asked] == [-1]
    assert source.deleted == 1
    free(here, source)


def test_a_producer_that_ignores_our_stream_races(gpu):
    """R-DLP-18: cuda.core's views say nothing of their stream: a control of DLPack's wait."""
    gpu.run(put_a_view, False)
    assert "read after write" in gpu.findings()


def test_such_a_producers_user_orders(gpu):
    """R-DLP-18: the given stream is where the copy is, so that its user can."""
    gpu.run(put_a_view, True)


def put_a_view(here, order):
    array, source = create(here), producers.CudaCore(here, COUNT, here.stream("library"))
    source.fill(3)
    here.drain(source.stream)
    if order:
        here.order(source.stream, here.stream("mine"))
    array.put(source, stream=here.stream("mine"))
    assert array.get().tolist() == [3] * COUNT
    free(here, source)


def test_below_version_3_the_user_orders(gpu):
    """R-CAI-16: there is no stream to wait for, whatever the dict says; a control of the wait."""
    gpu.run(put_an_old_interface, 2)
    assert "read after write" in gpu.findings()


def test_version_3_names_the_order(gpu):
    """R-CAI-14, 16: the same with a version that has a stream."""
    gpu.run(put_an_old_interface, 3)


def put_an_old_interface(here, version):
    array, source = create(here), producers.Described(here, COUNT, here.stream("library"))
    source.changes = {"version": version}
    source.fill(3)
    here.drain(source.stream)
    array.put(source, stream=here.stream("mine"))
    free(here, source)


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


# ---- Nothing is lost by what is refused.


def refused(here, source, error, match, array=None, **options):
    """Nothing is published, the version stands, and the next write is as if nothing had been."""
    array = array or opened(here)
    before = array.version
    with pytest.raises(error, match=match):
        array.put(source, **options)
    assert array.version == before
    array.write(wait=0).drop()


def test_interfaces_that_are_refused(gpu):
    """R-CAI-6, 14, 16: what breaks the rules, or cannot be copied, and says so."""
    gpu.run(put_bad_interfaces)


def put_bad_interfaces(here):
    create(here, fill=1)
    source = producers.Described(here, COUNT, here.stream("library"))
    invalid, unsupported = memlease.InvalidArgument, memlease.Unsupported
    host = np.zeros(COUNT, "u8")
    for changes, error, match in (
        ({"stream": 0}, invalid, "stream is 0.*per-thread"),
        ({"stream": -1}, invalid, "stream=-1"),
        ({"stream": "1"}, invalid, "stream='1'"),
        ({"stream": True}, invalid, "stream=True"),
        ({"mask": object()}, unsupported, "mask"),
        ({"version": 4}, unsupported, "version 4"),
        ({"version": "3"}, invalid, "version='3'"),
        ({"version": ...}, invalid, "no 'version'"),
        ({"typestr": ...}, invalid, "no 'typestr'"),
        ({"typestr": ">u8"}, invalid, ">u8"),
        ({"typestr": "<f8"}, invalid, "float64"),
        ({"shape": (COUNT + 1,)}, invalid, "reshape"),
        ({"shape": (-1,)}, invalid, "shape"),
        ({"data": ...}, invalid, "no 'data'"),
        ({"data": (0, False)}, invalid, "data"),
        ({"data": (host.ctypes.data, False)}, invalid, "no GPU's memory"),
        ({"strides": (8, 8)}, invalid, "strides"),
        ({"strides": (16,)}, unsupported, "contiguous"),
        ({"strides": "8"}, invalid, "strides"),
    ):
        source.changes = changes
        refused(here, source, error, match)
    assert opened(here).get().tolist() == [1] * COUNT
    source.free()


def test_tensors_that_are_refused(gpu):
    """R-DLP-18, 19, R-DLP-10: names, versions, types and devices; a newer one is only deleted."""
    gpu.run(put_bad_tensors)


def put_bad_tensors(here):
    create(here, fill=1)
    source = producers.Handed(here, COUNT)
    deleted = []

    def hand_over(major=1, **changes):
        tensor = source.tensor()
        for field, value in changes.items():
            setattr(tensor, field, value)
        exported = producers.Exported(
            tensor, versioned=True, major=major, on_delete=lambda: deleted.append(major)
        )
        source.capsule = exported.capsule

    hand_over(major=2, ndim=-5, shape=None)  # nothing of it is looked at
    refused(here, source, BufferError, "version 2")
    assert deleted == [2]
    hand_over(lanes=4)
    refused(here, source, memlease.Unsupported, "4 lanes")
    hand_over(code=17)
    refused(here, source, memlease.Unsupported, "code 17")
    hand_over(device_type=1)
    refused(here, source, BufferError, "type 1")
    assert deleted == [2, 1, 1, 1]
    hand_over()
    set_name(source.capsule, ctypes.cast(USED, ctypes.c_char_p))
    refused(here, source, BufferError, "used_dltensor")
    source.capsule = "no capsule"
    refused(here, source, TypeError, "")
    hand_over()
    source.strides = (16,)
    hand_over()
    refused(here, source, memlease.Unsupported, "contiguous")
    source.free()


def test_errors_of_producers_pass(gpu):
    """R-DLP-18: BufferError passes; after TypeError less is asked for, but always the stream."""
    gpu.run(meet_errors)


class Failing(producers.ByDLPack):
    error: type[Exception]

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        raise self.error("not today")


def meet_errors(here):
    create(here, fill=1)
    source = producers.Torch(here, COUNT)
    refused(here, source, BufferError, "per-thread", stream=2)
    failing = Failing(here, COUNT)
    failing.error = BufferError
    refused(here, failing, BufferError, "not today")
    assert len(failing.asked) == 1
    failing.error, failing.asked = TypeError, []
    refused(here, failing, TypeError, "not today")
    assert [sorted(keywords) for keywords in failing.asked] == [
        ["copy", "dl_device", "max_version", "stream"],
        ["copy", "dl_device", "stream"],
        ["stream"],
    ]
    assert len({keywords["stream"] for keywords in failing.asked}) == 1
    source.free()
    failing.free()


def test_another_gpu_is_refused(gpu):
    """R-DLP-8, R-CAI-18: copies stay on one GPU."""
    gpu.run(put_from_another_gpu)


def put_from_another_gpu(here):
    create(here, fill=1)
    for library in (producers.Torch, producers.Numba):
        source = library(here, COUNT, device=1)
        source.has_stream = False
        refused(here, source, memlease.InvalidArgument, "is on cuda:1, and 'a' on cuda:0")
        source.free()
    source = producers.Torch(here, COUNT, device=1)
    mine = here.stream("mine")
    refused(here, source, memlease.InvalidArgument, "one of cuda:0", stream=mine)
    assert source.asked == []
    source.free()


def test_streams_that_capture_are_refused(gpu):
    """R-SYNC-15: ours and theirs, and nobody is asked for a tensor then."""
    gpu.run(put_while_capturing)


def put_while_capturing(here):
    create(here, fill=1)
    torch = producers.Torch(here, COUNT)
    numba = producers.Numba(here, COUNT, here.stream("library"))
    stream = ctypes.c_void_p(here.stream("mine"))
    theirs = producers.Numba(here, COUNT, here.stream("mine"))
    here.call("cudaStreamBeginCapture", stream, 2)
    for options in ({"stream": here.stream("mine")},):
        for source in (torch, numba):
            refused(here, source, memlease.InvalidArgument, "capturing a graph", **options)
        values = np.zeros(COUNT, "u8")
        refused(here, values, memlease.InvalidArgument, "capturing a graph", **options)
    refused(here, theirs, memlease.InvalidArgument, "capturing a graph")
    host = here.client.create("h", shape=COUNT, dtype="u8", fill=1)
    refused(here, theirs, memlease.InvalidArgument, "capturing a graph", array=host)
    assert torch.asked == []
    graph = ctypes.c_void_p()
    here.call("cudaStreamEndCapture", stream, ctypes.byref(graph))
    for source in (torch, numba, theirs):
        source.free()


def test_an_error_of_the_gpu_loses_nothing(gpu):
    """R-CAI-17: a copy that fails is waited for, and its write is dropped."""
    array_of = gpu.process()
    array_of.run(create_filled)
    gpu.world.fail("cudaMemcpyAsync", 1)
    array_of.run(meet_a_failed_copy)


def create_filled(here):
    create(here, fill=1)


def meet_a_failed_copy(here):
    source = producers.Torch(here, COUNT)
    refused(here, source, memlease.Internal, "cudaErrorInvalidValue", stream=here.stream("mine"))
    opened(here).put(source)
    free(here, source)


# ---- Leases that name no stream.


def publish(here, value):
    stream = here.stream()
    with opened(here).write(stream=stream) as lease:
        address, _ = lease.__cuda_array_interface__["data"]
        here.fill(address, COUNT, value, stream)


def create_single(here):
    create(here, slots=1)


@pytest.mark.parametrize("how", ["call", "environment"])
def test_a_lease_may_name_no_stream(gpu, monkeypatch, how):
    """R-CAI-13, R-SYNC-13: then nobody waits, and a library that would have does not either."""
    if how == "environment":
        monkeypatch.setenv("MEMLEASE_CUDA_NO_STREAM", "1")
    writer, reader = gpu.process(), gpu.process()
    writer.run(create_single)
    writer.run(publish, 1)
    reader.run(read_without_a_stream, {"no_stream": True} if how == "call" else {})
    assert "read after write" in gpu.findings()


def read_without_a_stream(here, options):
    """Keep all else of the contract: the lease ends when the GPU has nothing to do."""
    stream = here.stream("library")
    lease = opened(here).read()
    source = lease.cuda_array(**options)
    interface = source.__cuda_array_interface__
    assert (interface["version"], interface["stream"]) == (3, None)
    here.gate(stream)
    assert not here.is_idle(stream)
    consumers.numba_as_cuda_array(here, source, stream)
    here.ungate()
    consumers.cupy_asarray(here, source, stream).look(1)
    lease.release()
    assert here.is_idle(stream)


def test_the_end_of_such_a_lease_is_ordered(gpu):
    """R-SYNC-10, 13: an opt-out of the beginning leaves the end as it is."""
    writer, reader = gpu.process(), gpu.process()
    writer.run(create_single)
    writer.run(publish, 1)
    reader.run(read_after_a_wait)
    writer.run(publish, 2)


def read_after_a_wait(here):
    with opened(here).read() as first:
        assert first.cuda_array(host_wait=True).__cuda_array_interface__["stream"] is None
    lease = opened(here).read()
    view = consumers.cupy_asarray(here, lease.cuda_array(no_stream=True), here.stream("library"))
    view.look(1)
    lease.release()


def test_a_write_lease_without_a_stream_is_published_complete(gpu):
    """R-SYNC-13: publishing waits for the GPU."""
    writer, reader = gpu.process(), gpu.process()
    writer.run(write_without_a_stream)
    assert (reader.run(get_of) == 9).all()


def write_without_a_stream(here):
    create(here)
    with here.kept["a"].write() as lease:
        source = lease.cuda_array(no_stream=True)
        consumers.cupy_asarray(here, source, here.stream("library")).fill(9)


def test_the_host_waits_where_both_are_set(gpu, monkeypatch):
    """R-SYNC-14: the safe one of two settings wins, and a call wins over both."""
    monkeypatch.setenv("MEMLEASE_CUDA_NO_STREAM", "1")
    monkeypatch.setenv("MEMLEASE_CUDA_HOST_WAIT", "1")
    writer, reader = gpu.process(), gpu.process()
    writer.run(create_single)
    for value in (1, 2):
        writer.run(publish, value)
        reader.run(read_safely, value)


def read_safely(here, value):
    with opened(here).read() as lease:
        view = consumers.torch_as_tensor(
            here, lease.cuda_array(readonly_ok=True), here.stream("library")
        )
        view.look(value)
        named = lease.cuda_array(host_wait=False, no_stream=False).__cuda_array_interface__
        assert named["stream"] > 2
        with pytest.raises(memlease.InvalidArgument, match="contradict"):
            lease.cuda_array(host_wait=True, no_stream=True)
    assert here.mismatches() == 0


def test_opt_outs_are_logged_once(gpu):
    """R-SYNC-13: by the logger memlease, once for each; what is off is not."""
    gpu.run(listen_to_the_logger)


def listen_to_the_logger(here):
    import logging

    heard = []

    class Listener(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    logger, listener = logging.getLogger("memlease"), Listener()
    logger.addHandler(listener)
    array = create(here, fill=1, slots=3)
    source = producers.Torch(here, COUNT)
    with array.read() as lease:
        _ = lease.__cuda_array_interface__
        _ = lease.cuda_array(host_wait=True).__cuda_array_interface__
        array.put(source)
        assert heard == []
        for _ in range(2):
            _ = lease.cuda_array(no_stream=True).__cuda_array_interface__
            array.put(source, ignore_stream=True)
    logger.removeHandler(listener)
    assert [text.partition(":")[0] for text in heard] == ["no_stream", "ignore_stream"]
    free(here, source)
