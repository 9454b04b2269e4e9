"""DLPack exports and imports of host arrays, capsule by capsule."""

import ctypes
import gc
import sys
import threading

import memlease
import numpy as np
import pytest
from dlpack_structs import (
    COPIED,
    READ_ONLY,
    delete,
    deleter_of,
    get_name,
    look,
    take,
)


@pytest.fixture
def field(memlease_client):
    return memlease_client.create("u", shape=(4, 6), dtype="f4", order="F", fill=1)


def is_free(field):
    """Tell whether nothing keeps the slot of an array that has only one."""
    try:
        field.write(wait=0).drop()
    except (memlease.Busy, memlease.NoFreeSlot):
        return False
    return True


@pytest.fixture
def single(memlease_client):
    return memlease_client.create("single", shape=3, dtype="i4", slots=1, fill=1)


def test_methods_are_on_the_class_with_keywords_only():
    """R-DLP-1: where nanobind looks for them."""
    for kind in (memlease.ReadLease, memlease.WriteLease):
        assert callable(kind.__dlpack__)
        assert callable(kind.__dlpack_device__)


def test_arguments(field):
    """R-DLP-1, 16, 17, 14; R-BUG-5: what is taken, and which error refuses the rest."""
    with field.write() as w:
        assert w.__dlpack_device__() == (1, 0)
        for accepted in (
            {},
            {"stream": None, "max_version": None, "dl_device": None, "copy": None},
            {"stream": -1},
            {"max_version": (1, 99)},
            {"dl_device": (1, 0)},
            {"copy": False},
        ):
            w.__dlpack__(**accepted)
        for wrong in (
            {"stream": "0"},
            {"max_version": 1},
            {"max_version": ("1", 0)},
            {"dl_device": 1},
            {"copy": 1},
            {"unknown": None},
        ):
            with pytest.raises(TypeError):
                w.__dlpack__(**wrong)
        with pytest.raises(TypeError):
            w.__dlpack__(None)
        for stream in (0, 1, 2, 1234, -2):
            with pytest.raises(ValueError, match="stream"):
                w.__dlpack__(stream=stream)
        for device in ((2, 0), (3, 0), (1, 1)):
            with pytest.raises(BufferError):
                w.__dlpack__(dl_device=device)
        w.drop()


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 1), (2, 0)])
def test_the_consumer_chooses_the_form(field, max_version):
    """R-DLP-2, 3, 5, 8, 12, 22; R-BUG-2: both forms, field by field."""
    with field.write() as w:
        capsule = w.__dlpack__(max_version=max_version)
        managed = look(capsule)
        versioned = max_version is not None and max_version[0] >= 1
        assert get_name(capsule) == (b"dltensor_versioned" if versioned else b"dltensor")
        if versioned:
            assert managed.major == 1
            assert managed.flags == 0
        tensor = managed.tensor
        assert tensor.data == w.array.ctypes.data
        assert tensor.byte_offset == 0
        assert (tensor.device_type, tensor.device_id) == (1, 0)
        assert (tensor.code, tensor.bits, tensor.lanes) == (2, 32, 1)
        assert tensor.shape[: tensor.ndim] == [4, 6]
        assert tensor.strides[: tensor.ndim] == [1, 4]
        assert managed.deleter
        del capsule
        w.drop()


def test_read_only_is_flagged_where_that_can_be_said(field):
    """R-DLP-12: the form without flags needs no promise, as the pages cannot be written."""
    with field.read() as r:
        assert look(r.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
        assert get_name(r.__dlpack__()) == b"dltensor"
        assert get_name(r.dlpack().__dlpack__()) == b"dltensor"
        assert get_name(r.dlpack(readonly_ok=True).__dlpack__()) == b"dltensor"
        assert r.dlpack(readonly_ok=True).__dlpack_device__() == (1, 0)
        assert look(r.dlpack(readonly_ok=True).__dlpack__(max_version=(1, 0))).flags == READ_ONLY


def test_copies(field):
    """R-DLP-13: flagged, writable, and the consumer's own."""
    with field.read() as r:
        capsule = r.__dlpack__(copy=True, max_version=(1, 0))
        managed = look(capsule)
        assert managed.flags == COPIED
        assert managed.tensor.data != r.array.ctypes.data
        assert managed.tensor.strides[:2] == [6, 1]
        copy = np.from_dlpack(r, copy=True)
        assert copy.flags.writeable
        copy[...] = 9
        assert (r.array == 1).all()
        r.__dlpack__(copy=True)  # no read-only memory: the unversioned form can carry it
        assert r.release()
    assert (copy == 9).all()


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [
        ("bool", 6, 8),
        ("int8", 0, 8),
        ("int64", 0, 64),
        ("uint16", 1, 16),
        ("float16", 2, 16),
        ("float64", 2, 64),
        ("bfloat16", 4, 16),
        ("complex64", 5, 64),
        ("complex128", 5, 128),
        ("float8_e4m3fn", 10, 8),
        ("float8_e5m2", 12, 8),
    ],
)
def test_codes(memlease_client, dtype, code, bits):
    """R-DLP-10: the header's numbers."""
    with memlease_client.create("a", shape=2, dtype=dtype).write() as w:
        capsule = w.__dlpack__()
        tensor = look(capsule).tensor
        assert (tensor.code, tensor.bits, tensor.lanes) == (code, bits, 1)
        del capsule, tensor
        w.drop()


def test_no_elements_and_no_axes(memlease_client):
    """R-DLP-3, 7; R-BUG-7: strides, but no pointer."""
    with memlease_client.create("a", shape=(3, 0), dtype="f4").write() as w:
        capsule = w.__dlpack__()
        tensor = look(capsule).tensor
        assert tensor.data is None
        assert tensor.shape[:2] == [3, 0]
        assert bool(tensor.strides)
        assert np.from_dlpack(w).shape == (3, 0)
        del capsule, tensor
    with memlease_client.create("b", shape=(), dtype="f4", fill=2).read() as r:
        assert look(r.__dlpack__(max_version=(1, 0))).tensor.ndim == 0
        assert np.from_dlpack(r) == 2


def test_strides_that_no_element_count_can_say(memlease_client):
    """R-DLP-4: no such array exists."""
    with pytest.raises(memlease.InvalidArgument, match="multiple"):  # so no such array exists
        memlease_client.create("a", shape=(2, 2), dtype="i4", strides=(10, 4))


def test_alignment(memlease_client):
    """R-DLP-6: of whatever size."""
    for size in (1, 3, 100, 5000):
        with memlease_client.create(f"a{size}", shape=size, dtype="u1", fill=0).read() as r:
            assert r.array.ctypes.data % 256 == 0


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_an_unused_capsule_frees_its_tensor(single, max_version):
    """R-DLP-19, 20; R-BUG-4: and until then its slot is kept."""
    lease = single.read()
    capsule = lease.__dlpack__(max_version=max_version)
    assert not lease.release()
    assert not is_free(single)
    del capsule
    assert is_free(single)


def test_a_capsule_preserves_a_pending_exception(single):
    """R-DLP-19; R-BUG-6: its destructor runs while one is raised."""

    def fail():
        capsule = single.read().__dlpack__(max_version=(1, 0))
        raise ZeroDivisionError(str(get_name(capsule)))

    with pytest.raises(ZeroDivisionError):
        fail()
    gc.collect()
    assert is_free(single)


def test_a_used_capsule_leaves_the_tensor_to_its_consumer(single):
    """R-DLP-19; R-BUG-1: who then deletes it."""
    lease = single.read()
    capsule = lease.__dlpack__(max_version=(1, 0))
    managed = look(capsule)
    address = ctypes.addressof(managed)
    take(capsule)
    del capsule
    gc.collect()
    assert list(managed.tensor.shape[:1]) == [3]
    assert not lease.release()
    assert not is_free(single)
    delete(managed, address)
    assert is_free(single)


def test_the_deleter_runs_on_any_thread_without_the_gil(single):
    """R-DLP-21: it knows no Python."""
    lease = single.read()
    capsule = lease.__dlpack__(max_version=(1, 0))
    managed = look(capsule)
    address, deleter = ctypes.addressof(managed), deleter_of(managed)
    take(capsule)
    assert not lease.release()
    thread = threading.Thread(target=deleter, args=(address,))  # ctypes gives the GIL up
    thread.start()
    thread.join()
    assert is_free(single)


def test_repeated_calls_are_independent(single):
    """R-DLP-23: and one with -1 takes nothing away."""
    with single.read() as r:
        first = np.from_dlpack(r)
        r.__dlpack__(stream=-1, max_version=(1, 0))
        second = np.from_dlpack(r)
        assert np.shares_memory(first, second)
        del first
        assert second.tolist() == [1, 1, 1]
        del second
        assert r.release()


def test_numpy_honours_the_flag(field):
    """R-DLP-12: so that nobody writes by mistake."""
    with field.read() as r:
        assert not np.from_dlpack(r).flags.writeable
    with field.write() as w:
        view = np.from_dlpack(w)
        assert view.flags.writeable
        view[...] = 5
        del view
    assert (field.get() == 5).all()


def test_no_exchange_table():
    """R-DLP-24: neither the old one nor the new one."""
    for kind in (memlease.ReadLease, memlease.WriteLease):
        assert not hasattr(kind, "__dlpack_c_exchange_api__")
        assert not hasattr(kind, "__c_dlpack_exchange_api__")


class Allocated(ctypes.Structure):
    """What mallinfo2() returns: ten numbers, the eighth of which counts the bytes in use."""

    _fields_ = (
        ("others", ctypes.c_size_t * 7),
        ("bytes", ctypes.c_size_t),
        ("rest", ctypes.c_size_t * 2),
    )


@pytest.mark.no_asan  # counts what glibc's own malloc has given out
@pytest.mark.parametrize("max_version", [None, (1, 0)])
@pytest.mark.parametrize("used", [False, True])
def test_exports_leave_nothing_allocated(single, max_version, used):
    """R-DLP-21; R-BUG-3: neither the struct, nor its axes, nor its context."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Allocated
    count = 1000

    def export(lease):
        capsule = lease.__dlpack__(max_version=max_version)
        if used:
            managed = look(capsule)
            take(capsule)
            delete(managed, ctypes.addressof(managed))

    with single.write() as lease:
        export(lease)
        gc.collect()
        before = mallinfo().bytes
        for _ in range(count):
            export(lease)
        gc.collect()
        assert mallinfo().bytes - before < count * 8
        lease.drop()


def test_a_lease_is_not_leaked_by_its_exports(single):
    """R-BUG-3: nor does an export keep the lease itself."""
    with single.read() as r:
        before = sys.getrefcount(r)
        for _ in range(100):
            r.__dlpack__(max_version=(1, 0))
            np.from_dlpack(r)
            memoryview(r).release()
            dict(r.__array_interface__)
        assert sys.getrefcount(r) == before
        assert r.release()
