"""SYCL contexts that know memory or not, and queues that are waited for: a stand-in of dpctl."""

import os
import sys

import fake_dpctl
import memlease
import numpy as np
import pytest
from fake_dpctl import SyclContext, SyclQueue, describe


@pytest.fixture(autouse=True)
def dpctl(monkeypatch):
    modules = fake_dpctl.modules()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return modules["dpctl"]


@pytest.fixture
def queue():
    return SyclQueue()


@pytest.fixture
def field(memlease_client):
    """One slot, so that whoever keeps it shows."""
    return memlease_client.create("u", shape=(4, 6), dtype="f4", order="F", slots=1, fill=1)


def is_free(field):
    try:
        field.write(wait=0).drop()
    except (memlease.Busy, memlease.NoFreeSlot):
        return False
    return True


# ---- Exports.


def test_memory_that_the_context_knows_is_not_copied(field, queue):
    """R-SYCL-1, 2, 3, 4, 5: the dict has the lease's own address, and says that it is read-only."""
    with field.read() as lease:
        queue.sycl_context.know(lease.array, "host")
        view = lease.sycl_usm(queue)
        assert (view.copied, view.usm_type, view.sycl_queue) == (False, "host", queue)
        assert view.__sycl_usm_array_interface__ == {
            "version": 1,
            "typestr": "<f4",
            "shape": (4, 6),
            "strides": (1, 4),
            "data": (lease.array.ctypes.data, True),
            "offset": 0,
            "syclobj": queue,
        }
        interface = view.__sycl_usm_array_interface__
        interface.clear()
        assert view.__sycl_usm_array_interface__ != {}


def test_what_is_written_there_is_the_version(field, queue):
    """R-SYCL-3: a lease to write says that it may be."""
    with field.write() as lease:
        queue.sycl_context.know(lease.array)
        view = lease.sycl_usm(queue, copy=False)
        found = memlease.usm_sources.described(view.__sycl_usm_array_interface__)
        assert not found.readonly
        memory = fake_dpctl.as_usm_memory(
            fake_dpctl.Described(
                {
                    **view.__sycl_usm_array_interface__,
                    "typestr": "|u1",
                    "shape": (found.size_bytes,),
                }
            )
        )
        memory.view("f4")[:] = 7
        del view, memory
    assert (field.get() == 7).all()


def test_a_view_keeps_the_slot_and_waits_for_the_queue(field, queue):
    """R-SYCL-7: before the slot is let go."""
    with field.read() as lease:
        queue.sycl_context.know(lease.array)
        view = lease.sycl_usm(queue)
        seen = []
        queue.when_waited = lambda: seen.append(is_free(field))
    assert not is_free(field)
    assert seen == []
    del view
    assert seen == [False]
    assert is_free(field)


@pytest.mark.filterwarnings("ignore::memlease.LeasesAtFork")
def test_a_forked_child_waits_for_no_queue(field, queue):
    """R-SYCL-7: as no runtime of SYCL's goes on there; its parent does."""
    with field.read() as lease:
        queue.sycl_context.know(lease.array)
        view = lease.sycl_usm(queue)
    child = os.fork()
    if child == 0:
        del view
        os._exit(len(queue.log))
    assert os.waitpid(child, 0)[1] == 0
    del view
    assert queue.log == ["wait"]


def test_memory_that_the_context_does_not_know_is_copied(field, queue):
    """R-SYCL-1, 2, 3, 4, 7: at the array's own strides, and the copy may be written and outlive."""
    field.put(np.arange(24).reshape(4, 6))
    with field.read() as lease:
        view = lease.sycl_usm(queue, usm_type="host")
    assert is_free(field)
    assert (view.copied, view.usm_type) == (True, "host")
    interface = view.__sycl_usm_array_interface__
    address, readonly = interface["data"]
    assert (interface["strides"], interface["offset"], readonly) == ((1, 4), 0, False)
    assert queue.sycl_context.kind_of(address) == "host"
    field.put(0)
    field.put(view)
    assert (field.get() == np.arange(24).reshape(4, 6)).all()


def test_part_of_it_known_is_not_known(field, queue):
    """R-SYCL-4: nor is the middle alone asked for."""
    with field.read() as lease:
        queue.sycl_context.know(lease.array[:, :2])
        assert lease.sycl_usm(queue).copied
        with pytest.raises(memlease.Unsupported, match="does not know it as USM"):
            lease.sycl_usm(queue, copy=False)


def test_a_copy_is_made_where_it_is_asked_for(field, queue):
    """R-SYCL-4: also of what the context knows, and of a lease to write."""
    with field.read() as lease:
        queue.sycl_context.know(lease.array)
        assert lease.sycl_usm(queue, copy=True).copied
    with field.write() as lease:
        assert lease.sycl_usm(SyclQueue(), copy=True).copied


def test_a_lease_to_write_is_not_copied_silently(field, queue):
    """R-SYCL-4: since what is written into a copy would be lost."""
    with field.write() as lease:
        with pytest.raises(memlease.Unsupported, match="would not change the version"):
            lease.sycl_usm(queue)
        lease[...] = 0


def test_copies_into_device_memory_go_by_the_queue(field, queue):
    """R-SYCL-7: and are complete when the call returns."""
    with field.read() as lease:
        view = lease.sycl_usm(queue, usm_type="device")
    assert queue.log == ["copy_from_host"]
    assert (field.get() == 1).all()
    field.put(view)
    assert queue.log == ["copy_from_host", "wait", "copy_to_host"]


def test_no_elements_have_an_address_too(memlease_client, queue):
    """R-SYCL-4: which dpctl asks for."""
    with memlease_client.create("a", shape=(0, 3), dtype="i8", fill=0).read() as lease:
        interface = lease.sycl_usm(queue).__sycl_usm_array_interface__
        assert interface["shape"] == (0, 3)
        assert queue.sycl_context.kind_of(interface["data"][0]) == "shared"
        with pytest.raises(memlease.Unsupported, match="no elements"):
            lease.sycl_usm(queue, copy=False)


def test_arguments_of_an_export(field, queue, monkeypatch):
    """R-SYCL-5: what is wrong, and what to give instead."""
    with field.read() as lease:
        with pytest.raises(memlease.InvalidArgument, match="'shared', 'host' or 'device'"):
            lease.sycl_usm(queue, usm_type="managed")
        with pytest.raises(memlease.InvalidArgument, match=r"names no SYCL context.*SyclQueue"):
            lease.sycl_usm(3)
        for wrong in ({"copy": 1}, {"stream": 1}, {"usm_type": 3}):
            with pytest.raises((TypeError, memlease.InvalidArgument)):
                lease.sycl_usm(queue, **wrong)
        with pytest.raises(TypeError):
            lease.sycl_usm()
        assert lease.sycl_usm(SyclContext()).sycl_queue.sycl_context is not queue.sycl_context
        monkeypatch.setattr("fake_dpctl.Memory.at", no_room)
        with pytest.raises(memlease.OutOfMemory, match="96 bytes of USM shared"):
            lease.sycl_usm(queue)
    with pytest.raises(memlease.Closed):
        lease.sycl_usm(queue)


def no_room(*_):
    raise sys.modules["dpctl.memory"].USMAllocationError("USM allocation failed")


# ---- Imports.


def test_a_put_waits_for_the_queue_and_then_reads(memlease_client, queue):
    """R-SYCL-7: the work on it changes what is read."""
    source = np.zeros((2, 3), "f4")
    queue.sycl_context.know(source)
    queue.when_waited = lambda: source.fill(5)
    assert (memlease_client.put("a", describe(source, queue)).get() == 5).all()
    with memlease_client.open("a").write() as lease:
        queue.when_waited = lambda: source.fill(6)
        lease[...] = describe(source, queue)
        queue.when_waited = lambda: source.fill(7)
        lease[0] = describe(source[1], queue)
    assert memlease_client.get("a").tolist() == [[7, 7, 7], [6, 6, 6]]


def test_a_get_waits_for_the_queue_and_then_writes(memlease_client, queue):
    """R-SYCL-7: the work on it does not overwrite what has come."""
    array = memlease_client.put("a", np.ones((2, 3), "f4"))
    target = np.zeros((2, 3), "f8")
    queue.sycl_context.know(target)
    queue.when_waited = lambda: target.fill(5)
    out = describe(target, queue)
    assert array.get(out=out) is out
    assert (target == 1).all()


@pytest.mark.parametrize("part", ["first", "last"])
def test_memory_that_the_context_does_not_know_is_refused(memlease_client, queue, part):
    """R-SYCL-4: both ways, and nothing is published; the error says what to do."""
    array = memlease_client.put("a", np.ones(8, "f4"))
    memory = np.zeros(8, "f4")
    queue.sycl_context.know(memory[1:] if part == "first" else memory[:7])
    with pytest.raises(memlease.InvalidArgument, match="does not know its 32 bytes"):
        array.put(describe(memory, queue))
    with pytest.raises(memlease.InvalidArgument, match="does not know its 32 bytes"):
        array.get(out=describe(memory, queue))
    with pytest.raises(memlease.InvalidArgument, match="copy it to the host"), array.write() as w:
        w[...] = describe(memory, queue)
    assert array.version == 1
    assert (memory == 0).all()


def test_layouts_are_taken_as_they_are(memlease_client, queue):
    """R-SYCL-2: with strides, below and above the first element, and with an offset."""
    memory = np.arange(60, dtype="i4")
    queue.sycl_context.know(memory)
    cut = memory.reshape(6, 10)[::-2, 1::3].T
    offset = (cut.ctypes.data - memory.ctypes.data) // 4
    for source in (
        describe(cut, queue),
        describe(cut, queue, data=(memory.ctypes.data, False), offset=offset),
    ):
        assert (memlease_client.put("a", source).get() == cut).all()
    wanted = cut.copy() + 100
    memlease_client.put("a", wanted).get(out=describe(cut, queue))
    assert (cut == wanted).all()
    assert memory.sum() == np.arange(60).sum() + 100 * cut.size


def test_device_memory_goes_by_the_queue(memlease_client, queue):
    """R-SYCL-7: the host does not touch it; to fill it, it must be in C order."""
    memory = np.arange(6, dtype="f4").reshape(2, 3)
    queue.sycl_context.know(memory, "device")
    array = memlease_client.put("a", describe(memory.T, queue))
    assert (array.get() == memory.T).all()
    assert queue.log == ["wait", "copy_to_host"]
    with pytest.raises(memlease.Unsupported, match="not in C order"):
        array.get(out=describe(memory.T, queue))
    memlease_client.put("b", memory + 1).get(out=describe(memory, queue))
    assert memory.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert queue.log[-2:] == ["wait", "copy_from_host"]


def test_the_flag_is_the_documents(memlease_client, dpctl, queue):
    """R-SYCL-3: True is read-only, but for dpctl's own memory, which says True and is not."""
    memory = np.arange(6, dtype="u1")
    queue.sycl_context.know(memory)
    array = memlease_client.put("a", describe(memory, queue, data=(memory.ctypes.data, True)))
    memory[:] = 0
    with pytest.raises(memlease.InvalidArgument, match="read-only"):
        array.get(out=describe(memory, queue, data=(memory.ctypes.data, True)))
    assert (memory == 0).all()
    array.get(out=describe(memory, queue, data=(memory.ctypes.data, False)))
    assert memory.tolist() == list(range(6))
    own = dpctl.memory.MemoryUSMShared(6, queue=queue)
    assert own.__sycl_usm_array_interface__["data"][1] is True
    array.get(out=own)
    assert own.tolist() == list(range(6))


def test_the_source_is_kept_while_it_is_read(memlease_client, queue):
    """R-SYCL-4: an interface keeps nothing, so the elements do."""
    memory = np.full(4, 3, "f4")
    queue.sycl_context.know(memory)
    _, elements = memlease.usm_sources.from_interface(
        (source := describe(memory, queue)).__sycl_usm_array_interface__, source
    )
    found = sys.getrefcount(source)
    assert found > 2  # the name's and the call's
    del elements
    assert sys.getrefcount(source) < found


def test_shapes_and_types_are_those_of_a_put(memlease_client, queue):
    """R-SYCL-6: what fits is converted, and what does not is refused."""
    array = memlease_client.create("a", shape=(2, 2), dtype="f4", fill=0)
    memory = np.arange(4, dtype="i8").reshape(2, 2)
    queue.sycl_context.know(memory)
    array.put(describe(memory, queue))
    assert array.get().tolist() == [[0, 1], [2, 3]]
    with pytest.raises(memlease.InvalidArgument, match="shape"):
        array.put(describe(memory.reshape(4), queue))
    with pytest.raises(memlease.InvalidArgument, match="shape"):
        array.get(out=describe(memory.reshape(4), queue))
    complex_ = np.zeros((2, 2), "c16")
    queue.sycl_context.know(complex_)
    with pytest.raises(memlease.InvalidArgument, match="complex128"):
        array.put(describe(complex_, queue), casting="same_kind")
