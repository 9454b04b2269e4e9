"""DLPack exports of GPU arrays, on the CUDA stand-in."""

import ctypes
import threading

import consumers
import memlease
import numpy as np
import pytest
from dlpack_structs import READ_ONLY, get_name, look
from fakecuda_build import require_stand_in
from gpu_arrays import COUNT, create, device_of, opened, publish, read_with, writer_and_reader

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

CUDA = (2, 0)
CONSUMERS = [
    consumers.torch_from_dlpack,
    consumers.cupy_from_dlpack,
    consumers.jax_from_dlpack,
    consumers.numba_kernel_argument,
    consumers.cuda_core_dlpack,
    consumers.tvm_ffi_from_dlpack,
]
READERS = [*CONSUMERS, consumers.nanobind_reads]
WRITERS = [*CONSUMERS, consumers.nanobind_writes]
# They take nothing else.
UNVERSIONED = [consumers.jax_from_dlpack, consumers.tvm_ffi_from_dlpack]


def each(some):
    return pytest.mark.parametrize("consumer", some, ids=lambda it: it.__name__)


def promised(lease):
    """For a library that takes only the form that cannot say "read-only"."""
    return lease.dlpack(readonly_ok=True)


def export_for(consumer):
    return promised if consumer in UNVERSIONED else None


def read_by(here, consumer, expected):
    return read_with(here, consumer, expected, export_for(consumer))


@each(READERS)
def test_libraries_read_what_another_process_writes(gpu, consumer):
    """R-DLP-1, 2, 8, 15, 23; R-SYNC-5, 6, 8: with one slot each kernel has to wait for the last."""
    writer, reader = writer_and_reader(gpu)
    for value in (1, 2, 3):
        writer.run(publish, value)
        assert reader.run(read_by, consumer, value) == 0


def test_who_asks_for_no_order_gets_none(gpu):
    """R-DLP-15; R-SYNC-8: a control; with -1 nothing waits, and who relies on it races."""
    _, reader = writer_and_reader(gpu, published=1)
    reader.run(read_without_order)
    assert "read after write" in gpu.findings()


def read_without_order(here):
    read_with(here, asking_for_no_order, 1)


def asking_for_no_order(here, producer, stream):
    view = consumers.cuda_core_dlpack(here, producer, -1)
    view.stream = stream
    return view


@each(WRITERS)
def test_libraries_write_what_another_process_reads(gpu, consumer):
    """R-DLP-12, 15; R-SYNC-5, 9: the end of the work is told, or waited for."""
    writer, reader = writer_and_reader(gpu)
    for value in (1, 2, 3):
        writer.run(write_with, consumer, value)
        assert reader.run(read_with, consumers.torch_from_dlpack, value) == 0


def write_with(here, consumer, value):
    lease = opened(here).write()
    view = consumer(here, lease, here.stream("library"))
    view.fill(value)
    stream = view.stream
    if value != 3:
        del view  # it may live on, too
    lease.publish(stream=stream if value == 2 else None)


def test_a_library_on_another_stream_than_the_leases_is_waited_for(gpu):
    """R-SYNC-9: the lease's own stream is not where all work ends."""
    writer, reader = writer_and_reader(gpu, published=1)
    assert reader.run(read_on_two_streams) == 0
    writer.run(publish, 2)


def read_on_two_streams(here):
    with opened(here).read(stream=here.stream("mine")) as lease:
        view = consumers.torch_from_dlpack(here, lease, here.stream("library"))
        view.look(1)
        del view
    return here.mismatches()


def test_updates_are_copied_before_a_library_works(gpu):
    """R-DLP-15: what is pending of the lease itself comes first, on whichever stream it is."""
    assert gpu.run(update_with_libraries) == 0


def update_with_libraries(here, consumer=consumers.torch_from_dlpack):
    create(here)
    publish(here, 1)
    with here.kept["a"].update(stream=here.stream("mine")) as lease:
        view = consumer(here, lease, here.stream("library"))
        view.add(4)
        del view
    return read_with(here, consumers.torch_from_dlpack, 5)


def test_an_update_without_order_races(gpu):
    """R-DLP-15: a control; the copy and the library's kernel are on two streams."""
    gpu.run(update_with_libraries, asking_for_no_order)
    assert "write after write" in gpu.findings()


@pytest.mark.parametrize("stream", [None, 1, 2, "handle"])
def test_streams_are_made_to_wait(gpu, stream):
    """R-DLP-15: None and 1 are the legacy stream, 2 the thread's, else it is a handle."""
    _, reader = writer_and_reader(gpu, published=1)
    assert reader.run(read_on, stream) == 0


def read_on(here, stream):
    given = here.stream("library") if stream == "handle" else stream
    with opened(here).read() as lease:
        if given is None:  # which cuda.core refuses; nanobind passes nothing, which is the same
            view = consumers.nanobind_reads(here, lease, consumers.LEGACY)
        else:
            view = consumers.cuda_core_dlpack(here, lease, given)
        view.stream = given or consumers.LEGACY
        view.look(1)
        del view
    return here.mismatches()


def test_arguments(gpu):
    """R-DLP-1, 8, 13, 14, 15, 16, 17; R-BUG-5: what is refused, and by which error."""
    gpu.run(try_arguments)


def try_arguments(here):
    create(here, fill=7)
    with here.kept["a"].read() as lease:
        assert lease.__dlpack_device__() == CUDA
        assert lease.dlpack().__dlpack_device__() == CUDA
        versioned = {"max_version": (1, 0)}
        for accepted in (
            {},
            {"stream": -1},
            {"stream": None, "dl_device": None, "copy": None},
            {"dl_device": CUDA, "copy": False},
        ):
            lease.__dlpack__(**versioned, **accepted)
        for stream in (0, -2, -(2**70), 2**70):
            with pytest.raises(ValueError, match="stream"):
                lease.__dlpack__(**versioned, stream=stream)
        for wrong in ({"stream": "1"}, {"copy": 1}, {"dl_device": 2}, {"unknown": 1}):
            with pytest.raises(TypeError):
                lease.__dlpack__(**versioned, **wrong)
        for refused in (
            {"copy": True},
            {"dl_device": (2, 1)},
            {"dl_device": (3, 0)},
            {"dl_device": (1, 0), "copy": False},
        ):
            with pytest.raises(BufferError):
                lease.__dlpack__(**versioned, **refused)
        with pytest.raises(ValueError, match="host memory has no streams"):
            lease.__dlpack__(**versioned, dl_device=(1, 0), stream=1)
        with pytest.raises(BufferError, match="readonly_ok"):
            lease.__dlpack__()
    with pytest.raises(memlease.Closed):
        lease.__dlpack__(**versioned)


def test_what_the_struct_says(gpu):
    """R-DLP-2, 3, 4, 5, 6, 7, 10, 12, 22; R-BUG-7: for both forms."""
    gpu.run(look_at_structs)


def look_at_structs(here):
    field = here.client.create("f", shape=(4, 6), dtype="f4", device="cuda", order="F", fill=1)
    with field.read() as lease:
        managed = look(lease.__dlpack__(max_version=(1, 0)))
        assert managed.flags == READ_ONLY
        assert get_name(lease.dlpack(readonly_ok=True).__dlpack__()) == b"dltensor"
    with field.write() as lease:
        for max_version in (None, (1, 1)):
            capsule = lease.__dlpack__(max_version=max_version)
            tensor = look(capsule).tensor
            assert (tensor.device_type, tensor.device_id) == CUDA
            assert tensor.data == lease.__cuda_array_interface__["data"][0]
            assert tensor.data % 256 == 0
            assert tensor.byte_offset == 0
            assert tensor.shape[:2] == [4, 6]
            assert tensor.strides[:2] == [1, 4]
            assert (tensor.code, tensor.bits, tensor.lanes) == (2, 32, 1)
            assert look(capsule).deleter
            del capsule, tensor
        lease.drop()
    with here.client.create("e", shape=(0, 2), dtype="f4", device="cuda").write() as lease:
        capsule = lease.__dlpack__()
        assert look(capsule).tensor.data is None
        assert bool(look(capsule).tensor.strides)
        del capsule
        lease.drop()
    with here.client.create("b", shape=2, dtype="bfloat16", device="cuda").write() as lease:
        capsule = lease.__dlpack__()
        assert (look(capsule).tensor.code, look(capsule).tensor.bits) == (4, 16)
        del capsule
        lease.drop()


def test_a_copy_on_the_host(gpu):
    """R-DLP-13, 14: complete when the call returns, and the consumer's own."""
    writer, reader = writer_and_reader(gpu, published=6)
    reader.run(copy_to_the_host)
    writer.run(publish, 7)


def copy_to_the_host(here):
    with opened(here).read() as lease:
        copy = np.from_dlpack(lease, device="cpu")
        assert copy.tolist() == [6] * COUNT
        copy[...] = 1
        assert np.from_dlpack(lease, device="cpu", copy=True).tolist() == [6] * COUNT
        assert lease.release()
    assert copy.tolist() == [1] * COUNT


def test_an_export_does_not_block(gpu):
    """R-SYNC-8, R-DLP-15: the consumer's stream waits, and the host goes on."""
    assert gpu.run(export_behind_a_gate) == 0


def export_behind_a_gate(here):
    create(here)
    here.gate(here.stream())
    publish(here, 3)
    with here.kept["a"].read() as lease:
        view = consumers.numba_kernel_argument(here, lease, here.stream("library"))
        view.look(3)
        assert not here.is_idle(view.stream)
        here.ungate()
        del view
    return here.mismatches()


def test_streams_that_capture_a_graph_are_refused(gpu):
    """R-SYNC-15: BufferError, as for every request that cannot be met."""
    gpu.run(export_while_capturing)


def export_while_capturing(here):
    create(here, fill=1)
    stream = here.stream("library")
    with here.kept["a"].read() as lease:
        here.call("cudaStreamBeginCapture", ctypes.c_void_p(stream), 1)
        with pytest.raises(BufferError, match="captur"):
            lease.__dlpack__(stream=stream, max_version=(1, 0))
        graph = ctypes.c_void_p()
        here.cuda.cudaStreamEndCapture(ctypes.c_void_p(stream), ctypes.byref(graph))


def test_a_tensor_keeps_the_slot_beyond_the_lease(gpu):
    """R-DLP-20, 21; R-SYNC-10; R-BUG-4, 8: and the slot comes back after the work on it."""
    writer, reader = writer_and_reader(gpu, published=1)
    reader.run(keep_a_tensor)
    assert not writer.run(can_write)
    reader.run(use_and_drop_the_tensor)
    writer.run(publish, 2)


def keep_a_tensor(here):
    lease = opened(here).read()
    here.kept["tensor"] = consumers.torch_from_dlpack(here, lease, here.stream("library"))
    assert not lease.release()


def can_write(here):
    try:
        here.kept["a"].write(wait=0).drop()
    except memlease.NoFreeSlot:
        return False
    return True


def use_and_drop_the_tensor(here):
    here.kept["tensor"].look(1)
    del here.kept["tensor"]
    opened(here).read().release()  # the next lease settles it
    assert here.mismatches() == 0


def test_a_capsule_that_keeps_its_name_keeps_the_slot(gpu):
    """R-DLP-20: as mpi4py, which lets the capsule free the tensor; the host has waited before."""
    writer, reader = writer_and_reader(gpu, published=1)
    reader.run(keep_a_capsule)
    assert not writer.run(can_write)
    reader.run(use_and_drop_the_tensor)
    writer.run(publish, 2)


def keep_a_capsule(here):
    lease = opened(here).read()
    _ = lease.cuda_array(host_wait=True).__cuda_array_interface__
    here.kept["tensor"] = consumers.mpi4py_buffer(here, lease, here.stream("library"))
    assert here.kept["tensor"].readonly
    assert not lease.release()


def test_who_writes_is_refused_what_is_read(gpu):
    """R-DLP-12: nanobind asks for a version, and sees the flag."""
    gpu.run(ask_to_write)


def ask_to_write(here):
    create(here, fill=1)
    with here.kept["a"].read() as lease:
        with pytest.raises(TypeError, match="incompatible"):
            consumers.nanobind_writes(here, lease, 1)
        assert lease.release()


@pytest.mark.stand_in_only
@pytest.mark.parametrize("visible", ["0,1", "1,0", "1"])
def test_the_device_is_the_processs_own_number(gpu, monkeypatch, visible):
    """R-DLP-8: by the GPU's UUID, whatever the daemon and the writer call it."""
    writer = gpu.process()
    uuid = writer.run(create_on_the_second)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu.run(look_at_the_number, visible.split(",").index("1")) == uuid


def create_on_the_second(here):
    return create(here, device="cuda:1", fill=1).device


def look_at_the_number(here, expected):
    with opened(here).read() as lease:
        assert lease.__dlpack_device__() == (2, expected)
        capsule = lease.__dlpack__(max_version=(1, 0))
        tensor = look(capsule).tensor
        assert (tensor.device_type, tensor.device_id) == (2, expected)
        assert device_of(here, tensor.data) == expected
        del capsule
        return opened(here).device


def test_registered_host_memory_is_the_cpus(gpu):
    """R-DLP-9, 16: CUDA reaches it, and yet PyTorch and CuPy take it as what it is."""
    gpu.run(register_host_memory)


def register_host_memory(here):
    with here.client.create("h", shape=COUNT, dtype="u8").write() as lease:
        address = ctypes.c_void_p(lease.array.ctypes.data)
        here.call("cudaHostRegister", address, ctypes.c_size_t(COUNT * 8), 2)
        here.fill(address.value, COUNT, 3, here.stream())
        here.synchronize(here.stream())
        assert lease.__dlpack_device__() == (1, 0)
        capsule = lease.__dlpack__(stream=-1)
        assert (look(capsule).tensor.device_type, look(capsule).tensor.device_id) == (1, 0)
        assert np.from_dlpack(lease).tolist() == [3] * COUNT
        with pytest.raises(BufferError):
            lease.__dlpack__(dl_device=(13, 0))
        here.call("cudaHostUnregister", address)
        del capsule
        lease.drop()


def test_a_tensor_dies_while_another_lease_waits_for_the_gpu(gpu):
    """R-DLP-21: a deleter never waits, whatever the array is doing; it may have the GIL."""
    gpu.run(tensor_dies_during_a_wait)


def tensor_dies_during_a_wait(here):
    array, stream = create(here), here.stream("slow")
    publish(here, 1)
    with array.read() as lease:
        tensor = consumers.torch_from_dlpack(here, lease, stream)
    waiting = array.read()
    # It ends by a wait for the GPU.
    assert waiting.cuda_array(no_stream=True).__cuda_array_interface__["stream"] is None
    here.synchronize()
    here.gate(stream)
    looks = here.looks()
    thread = threading.Thread(target=waiting.release)
    thread.start()
    here.await_wait(looks)
    del tensor
    assert thread.is_alive()
    here.ungate()
    thread.join()
    array.get()  # the call that gives the tensor's slot back
