"""The CUDA array interface of leases, on the CUDA stand-in."""

import threading

import consumers
import memlease
import numpy as np
import pytest
from fakecuda_build import require_stand_in
from gpu_arrays import (
    COUNT,
    address_of,
    create,
    device_of,
    opened,
    publish,
    read_with,
    writer_and_reader,
)

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

CONSUMERS = [
    consumers.cupy_asarray,
    consumers.numba_as_cuda_array,
    consumers.cuda_core_view,
    consumers.jax_array_of_interface,
]
# They ignore the stream.
IGNORING = [
    consumers.torch_as_tensor,
    consumers.rmm_copy_from_device,
    consumers.arrow_buffer_from_object,
    consumers.mpi4py_buffer_of_interface,
]
each_consumer = pytest.mark.parametrize("consumer", CONSUMERS, ids=lambda it: it.__name__)


@each_consumer
def test_libraries_read_what_another_process_writes(gpu, consumer):
    """R-CAI-2, 10, 11, 18; R-SYNC-5, 6, 7: with one slot each kernel has to wait for the last."""
    writer, reader = writer_and_reader(gpu)
    for value in (1, 2, 3):
        writer.run(publish, value)
        assert reader.run(read_with, consumer, value) == 0


def test_a_library_that_ignores_the_stream_races(gpu):
    """R-SYNC-7, 8: a control; PyTorch takes the interface so, and the checker sees it."""
    writer, reader = writer_and_reader(gpu)
    writer.run(publish_behind_a_gate)
    reader.run(take_ignoring_the_stream)
    writer.run(open_the_gate)
    reader.run(look_and_release)
    assert "read after write" in gpu.findings()


def publish_behind_a_gate(here):
    here.gate(here.stream())  # so that the reader's host does not learn of the version's end
    publish(here, 1)


def take_ignoring_the_stream(here):
    lease = here.kept["lease"] = opened(here).read()
    source = lease.cuda_array(readonly_ok=True)
    here.kept["view"] = consumers.torch_as_tensor(here, source, here.stream("library"))


def open_the_gate(here):
    here.ungate()
    here.synchronize()


def look_and_release(here):
    here.kept.pop("view").look(1)
    assert here.kept.pop("lease").release()


@pytest.mark.parametrize("how", ["host_wait", "version", "environment"])
def test_such_libraries_are_safe_where_the_host_waits(gpu, monkeypatch, how):
    """R-SYNC-14; R-CAI-2, 13: by the call, by version 2, or by the environment."""
    if how == "environment":
        monkeypatch.setenv("MEMLEASE_CUDA_HOST_WAIT", "1")
    writer, reader = writer_and_reader(gpu)
    for value in (1, 2):
        writer.run(publish, value)
        assert reader.run(read_while_the_host_waits, how, value) == 0


def read_while_the_host_waits(here, how, value):
    options = {"host_wait": {"host_wait": True}, "version": {"version": 2}}.get(how, {})
    with opened(here).read() as lease:
        source = lease.cuda_array(readonly_ok=True, **options)
        for consumer in IGNORING:
            consumer(here, source, here.stream("library")).look(value)
    return here.mismatches()


def test_no_stream_means_that_nothing_is_pending(gpu):
    """R-CAI-13; R-SYNC-14: the property's access waits on the host."""
    assert gpu.run(ask_for_no_stream_behind_a_gate) == 0


def ask_for_no_stream_behind_a_gate(here):
    create(here)
    here.gate(here.stream())
    publish(here, 3)
    lease, found = here.kept["a"].read(), []
    source = lease.cuda_array(host_wait=True)
    looks = here.looks()
    thread = threading.Thread(target=lambda: found.append(source.__cuda_array_interface__))
    thread.start()
    here.await_wait(looks)
    assert found == []
    here.ungate()
    thread.join()
    assert found[0]["stream"] is None
    here.look(found[0]["data"][0], COUNT, 3, here.stream("library"))
    lease.release(here.stream("library"))
    return here.mismatches(here.stream("library"))


def test_the_end_of_the_work_must_be_told(gpu):
    """R-SYNC-9: a control; a library works on its own stream, and another is named as the end."""
    writer, reader = writer_and_reader(gpu, published=1)
    reader.run(release_with_another_stream)
    writer.run(publish, 2)
    assert "write after read" in gpu.findings()


def release_with_another_stream(here):
    lease = opened(here).read()
    view = consumers.cupy_asarray(here, lease, here.stream("library"))
    view.look(1)
    here.drain(view.stream)
    lease.release(stream=here.stream("other"))


def test_the_end_of_the_work_is_told(gpu):
    """R-SYNC-6, 9: then nobody needs to wait for the GPU."""
    writer, reader = writer_and_reader(gpu, published=1)
    assert reader.run(release_with_the_librarys_stream)
    writer.run(publish, 2)
    assert reader.run(read_with, consumers.cupy_asarray, 2) == 0


def release_with_the_librarys_stream(here):
    lease = opened(here).read()
    stream = here.stream("library")
    view = consumers.cupy_asarray(here, lease, stream)
    here.gate(stream)
    view.look(1)
    lease.release(stream)
    waited = here.is_idle(stream)
    here.ungate()
    return not waited


@each_consumer
def test_libraries_write_what_another_process_reads(gpu, consumer):
    """R-CAI-5, 11; R-SYNC-5: a write lease is writable, and its end is told or waited for."""
    writer, reader = writer_and_reader(gpu)
    for value in (1, 2, 3):
        writer.run(write_with, consumer, value)
        assert reader.run(read_with, consumers.cupy_asarray, value) == 0


def write_with(here, consumer, value):
    lease = opened(here).write()
    assert lease.__cuda_array_interface__["data"][1] is False
    view = consumer(here, lease, here.stream("library"))
    view.fill(value)
    lease.publish(stream=view.stream if value == 2 else None)


def test_each_access_covers_the_work_before_it(gpu):
    """R-CAI-11: what one library does on the stream that it was given, another one waits for."""
    assert gpu.run(use_two_libraries) == 0


def use_two_libraries(here):
    create(here)
    with here.kept["a"].write() as lease:
        consumers.numba_as_cuda_array(here, lease, here.stream("one")).fill(5)
        view = consumers.cuda_core_view(here, lease, here.stream("two"))
        view.add(1)
        lease.publish(stream=view.stream)
    return read_with(here, consumers.cupy_asarray, 6)


def test_updates_are_copied_before_a_library_works(gpu):
    """R-CAI-11: the copy is on the lease's stream."""
    assert gpu.run(update_with_a_library) == 0


def update_with_a_library(here):
    create(here)
    publish(here, 1)
    with here.kept["a"].update(stream=here.stream("mine")) as lease:
        consumers.numba_as_cuda_array(here, lease, here.stream("library")).add(4)
    return read_with(here, consumers.cupy_asarray, 5)


def test_an_access_does_not_block(gpu):
    """R-CAI-11: the stream waits, and the host goes on."""
    assert gpu.run(access_behind_a_gate) == 0


def access_behind_a_gate(here):
    create(here)
    here.gate(here.stream())
    publish(here, 3)
    with here.kept["a"].read() as lease:
        view = consumers.cuda_core_view(here, lease, here.stream("library"))
        view.look(3)
        assert not here.is_idle(view.stream)
        here.ungate()
    return here.mismatches(view.stream)


def test_what_the_dict_says(gpu):
    """R-CAI-1, 2, 3, 5, 6, 7, 10: exact types, byte strides or None, neither mask nor descr."""
    gpu.run(look_at_dicts)


def look_at_dicts(here):
    field = here.client.create("f", shape=(4, 6), dtype="f4", device="cuda")
    with field.write() as lease:
        interface = lease.__cuda_array_interface__
        assert type(interface) is dict
        assert set(interface) == {"version", "typestr", "shape", "strides", "data", "stream"}
        assert (interface["version"], interface["typestr"]) == (3, "<f4")
        assert (interface["shape"], interface["strides"]) == ((4, 6), None)
        assert type(interface["shape"]) is tuple
        assert [type(it) for it in interface["data"]] == [int, bool]
        assert type(interface["data"]) is tuple
        assert interface["data"][0] % 256 == 0
        assert type(interface["stream"]) is int
        assert interface["stream"] > 2
        assert interface is not lease.__cuda_array_interface__
        assert lease.__cuda_array_interface__ == interface
    with field.read() as lease:
        assert lease.__cuda_array_interface__["data"][1] is True
        relaxed = lease.cuda_array(readonly_ok=True).__cuda_array_interface__
        assert relaxed["data"][1] is False
        safe = lease.cuda_array(host_wait=True).__cuda_array_interface__
        assert safe["stream"] is None
        old = lease.cuda_array(version=2).__cuda_array_interface__
        assert old["version"] == 2
        assert set(old) == {"version", "typestr", "shape", "strides", "data"}
        with pytest.raises(memlease.InvalidArgument, match="version=4"):
            lease.cuda_array(version=4)
    turned = here.client.create("t", shape=(4, 6), dtype="f4", device="cuda", order="F", fill=1)
    with turned.read() as lease:
        assert lease.__cuda_array_interface__["strides"] == (4, 16)
        assert type(lease.__cuda_array_interface__["strides"]) is tuple
    padded = here.client.create("p", shape=(4, 6), dtype="f4", device="cuda", strides=(32, 4))
    with padded.write() as lease:
        assert lease.__cuda_array_interface__["strides"] == (32, 4)
        lease.drop()
    with pytest.raises(memlease.InvalidArgument, match="multiple"):
        here.client.create("q", shape=(2, 2), dtype="f4", device="cuda", strides=(10, 4))
    with pytest.raises(memlease.Closed):
        _ = lease.__cuda_array_interface__


@pytest.mark.parametrize("stream", [1, 2])
def test_default_streams_are_not_exported(gpu, stream):
    """R-CAI-10: JAX would not wait for them, and 2 is another one in each thread."""
    assert gpu.run(export_after, stream) == 0


def export_after(here, stream):
    create(here, slots=1, fill=1)
    with here.kept["a"].update(stream=stream) as lease:
        assert lease.__cuda_array_interface__["stream"] > 2
        consumers.jax_array_of_interface(here, lease, here.stream("library")).fill(8)
        lease.publish(stream=here.stream("library"))
    return read_with(here, consumers.cupy_asarray, 8)


def test_no_elements(gpu):
    """R-CAI-4: the pointer is 0, and there are no strides."""
    gpu.run(look_at_nothing)


def look_at_nothing(here):
    empty = here.client.create("e", shape=(3, 0), dtype="f4", device="cuda", order="F")
    with empty.write() as lease:
        interface = lease.__cuda_array_interface__
        assert interface["data"] == (0, False)
        assert interface["strides"] is None
        assert interface["shape"] == (3, 0)
    assert empty.get().shape == (3, 0)


def test_types_are_numpys(gpu):
    """R-CAI-7, 8: in native byte order; others raise AttributeError, so that DLPack is tried."""
    gpu.run(look_at_types)


def look_at_types(here):
    for name in ("bool", "i1", "i8", "u1", "u2", "u4", "f2", "f8", "c8", "c16"):
        array = here.client.create(name, shape=2, dtype=name, device="cuda")
        with array.write() as lease:
            assert lease.__cuda_array_interface__["typestr"] == np.dtype(name).str
            assert "descr" not in lease.__cuda_array_interface__
            lease.drop()
    with pytest.raises(memlease.InvalidArgument, match="byte order"):
        here.client.create("x", shape=2, dtype=np.dtype(">f4"), device="cuda")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        with here.client.create(name, shape=2, dtype=name, device="cuda").write() as lease:
            assert not hasattr(lease, "__cuda_array_interface__")
            with pytest.raises(AttributeError, match="use DLPack"):
                _ = lease.__cuda_array_interface__
            lease.drop()


def test_host_arrays_have_no_such_interface(memlease_client):
    """R-CAI-9: libraries probe with hasattr."""
    with memlease_client.create("h", shape=2, dtype="f4", fill=1).read() as lease:
        assert not hasattr(lease, "__cuda_array_interface__")
        with pytest.raises(AttributeError, match="device-accessible"):
            _ = lease.__cuda_array_interface__
        assert not hasattr(lease.cuda_array(), "__cuda_array_interface__")


def test_the_exported_stream_outlives_all(gpu):
    """R-CAI-12: libraries synchronise with it when they like."""
    gpu.run(synchronize_late)


def synchronize_late(here):
    create(here)
    publish(here, 1)
    with here.kept["a"].read() as lease:
        stream = lease.__cuda_array_interface__["stream"]
    here.kept.clear()
    here.client.withdraw("a")
    here.client.close()
    here.synchronize(stream)


def test_the_lease_keeps_the_slot(gpu):
    """R-CAI-17: the dict holds nothing; a library holds what it took the dict from."""
    gpu.run(hold_by_a_library)


def hold_by_a_library(here):
    create(here, slots=1)
    publish(here, 1)
    array = here.kept["a"]
    interface = array.read().__cuda_array_interface__
    array.write(wait=0).drop()
    assert interface["data"][0]
    publish(here, 2)
    view = consumers.cupy_asarray(here, array.read().cuda_array(), here.stream("library"))
    with pytest.raises(memlease.Busy):
        array.write(wait=0)
    view.look(2)
    del view
    array.write(wait=0).drop()
    assert here.mismatches() == 0


def test_cuda_knows_the_pointer(gpu):
    """R-CAI-18: one of the GPU that the array names, also inside of an allocation."""
    gpu.run(ask_for_pointers)


def ask_for_pointers(here):
    addresses = []
    last = here.devices() - 1  # the stand-in has several
    for name, device in (("one", 0), ("two", 0), ("other", last)):
        array = here.client.create(name, shape=COUNT, dtype="u8", device=f"cuda:{device}", fill=1)
        with array.read() as lease:
            address = address_of(lease)
            assert device_of(here, address) == device
            addresses.append(address)
    segment_bytes = 2**21
    assert any(address % segment_bytes for address in addresses)
