"""DLPack, capsule by capsule; the numbers are rules of docs/conformance.md."""

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
    USED,
    DLTensor,
    Unversioned,
    Versioned,
    delete,
    deleter_of,
    get_name,
    look,
    set_name,
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


def test_methods_are_on_the_class_with_keywords_only():  # R-DLP-1
    for kind in (memlease.ReadLease, memlease.WriteLease):
        assert callable(kind.__dlpack__)
        assert callable(kind.__dlpack_device__)


def test_arguments(field):  # R-DLP-1, 16, 17
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
        for device in ((2, 0), (3, 0), (1, 1)):  # R-DLP-14
            with pytest.raises(BufferError):
                w.__dlpack__(dl_device=device)
        w.drop()


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 1), (2, 0)])
def test_the_consumer_chooses_the_form(field, max_version):  # R-DLP-2, 3, 5, 8, 12, 22
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


def test_read_only_is_flagged_or_refused(field):  # R-DLP-12
    with field.read() as r:
        assert look(r.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
        with pytest.raises(BufferError, match="readonly_ok"):
            r.__dlpack__()
        assert get_name(r.dlpack(readonly_ok=True).__dlpack__()) == b"dltensor"
        with pytest.raises(BufferError):
            r.dlpack().__dlpack__()
        assert r.dlpack(readonly_ok=True).__dlpack_device__() == (1, 0)
        assert look(r.dlpack(readonly_ok=True).__dlpack__(max_version=(1, 0))).flags == READ_ONLY


def test_copies(field):  # R-DLP-13
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
def test_codes(memlease_client, dtype, code, bits):  # R-DLP-10
    with memlease_client.create("a", shape=2, dtype=dtype).write() as w:
        capsule = w.__dlpack__()
        tensor = look(capsule).tensor
        assert (tensor.code, tensor.bits, tensor.lanes) == (code, bits, 1)
        del capsule, tensor
        w.drop()


def test_no_elements_and_no_axes(memlease_client):  # R-DLP-3, 7
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


def test_strides_that_no_element_count_can_say(memlease_client):  # R-DLP-4
    with pytest.raises(memlease.InvalidArgument, match="multiple"):  # so no such array exists
        memlease_client.create("a", shape=(2, 2), dtype="i4", strides=(10, 4))


def test_alignment(memlease_client):  # R-DLP-6
    for size in (1, 3, 100, 5000):
        with memlease_client.create(f"a{size}", shape=size, dtype="u1", fill=0).read() as r:
            assert r.array.ctypes.data % 256 == 0


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_an_unused_capsule_frees_its_tensor(single, max_version):  # R-DLP-19, 20
    lease = single.read()
    capsule = lease.dlpack(readonly_ok=True).__dlpack__(max_version=max_version)
    with pytest.warns(memlease.ViewAlive):
        lease.release()
    assert not is_free(single)
    del capsule
    assert is_free(single)


def test_a_capsule_preserves_a_pending_exception(single):  # R-DLP-19
    def fail():
        capsule = single.read().__dlpack__(max_version=(1, 0))
        raise ZeroDivisionError(str(get_name(capsule)))

    with pytest.raises(ZeroDivisionError):
        fail()
    gc.collect()
    assert is_free(single)


def test_a_used_capsule_leaves_the_tensor_to_its_consumer(single):  # R-DLP-19, AMSO (1)
    lease = single.read()
    capsule = lease.__dlpack__(max_version=(1, 0))
    managed = look(capsule)
    address = ctypes.addressof(managed)
    assert set_name(capsule, ctypes.cast(USED, ctypes.c_char_p)) == 0
    del capsule
    gc.collect()
    assert list(managed.tensor.shape[:1]) == [3]
    with pytest.warns(memlease.ViewAlive):
        lease.release()
    assert not is_free(single)
    delete(managed, address)
    assert is_free(single)


def test_the_deleter_runs_on_any_thread_without_the_gil(single):  # R-DLP-21
    lease = single.read()
    capsule = lease.__dlpack__(max_version=(1, 0))
    managed = look(capsule)
    address, deleter = ctypes.addressof(managed), deleter_of(managed)
    set_name(capsule, ctypes.cast(USED, ctypes.c_char_p))
    with pytest.warns(memlease.ViewAlive):
        lease.release()
    thread = threading.Thread(target=deleter, args=(address,))  # ctypes gives the GIL up
    thread.start()
    thread.join()
    assert is_free(single)


def test_repeated_calls_are_independent(single):  # R-DLP-23
    with single.read() as r:
        first = np.from_dlpack(r)
        r.__dlpack__(stream=-1, max_version=(1, 0))
        second = np.from_dlpack(r)
        assert np.shares_memory(first, second)
        del first
        assert second.tolist() == [1, 1, 1]
        del second
        assert r.release()


def test_numpy_honours_the_flag(field):  # R-DLP-12
    with field.read() as r:
        assert not np.from_dlpack(r).flags.writeable
    with field.write() as w:
        view = np.from_dlpack(w)
        assert view.flags.writeable
        view[...] = 5
        del view
    assert (field.get() == 5).all()


class Producer:
    """A DLPack producer of the test's choosing."""

    def __init__(self, array, accepted, device=(1, 0)):
        self.array, self.accepted, self.device, self.asked = array, accepted, device, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        if not set(keywords) <= self.accepted:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__(**keywords)


def test_put_asks_for_all_and_then_for_less(memlease_client):  # R-DLP-18
    everything = {"stream", "max_version", "dl_device", "copy"}
    for accepted, calls in ((everything, 1), (everything - {"max_version"}, 2), ({"stream"}, 3)):
        producer = Producer(np.arange(3), accepted)
        assert memlease_client.put("a", producer).get().tolist() == [0, 1, 2]
        assert len(producer.asked) == calls
        assert all("stream" in keywords for keywords in producer.asked)
    with pytest.raises(memlease.Unsupported, match="device"):
        memlease_client.put("a", Producer(np.arange(3), everything, device=(2, 0)))


def test_put_lets_buffer_errors_pass(memlease_client):  # R-DLP-18
    frozen = np.arange(3)
    frozen.flags.writeable = False
    producer = Producer(frozen, {"stream"})  # NumPy refuses read-only without a version
    with pytest.raises(BufferError):
        memlease_client.put("a", producer)


def make_capsule(name, managed):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(managed), ctypes.cast(name, ctypes.c_char_p), None)


class Handmade:
    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **keywords):
        return self.capsule


def test_put_from_unusual_tensors(memlease_client):  # R-DLP-3, 5, 22
    data = (ctypes.c_int32 * 7)(*range(7))
    shape = (ctypes.c_int64 * 2)(2, 3)
    managed = Unversioned(
        tensor=DLTensor(ctypes.addressof(data), 1, 0, 2, 0, 32, 1, shape, None, 4)
    )
    name = ctypes.create_string_buffer(b"dltensor")
    array = memlease_client.put("a", Handmade(make_capsule(name, managed)))
    assert array.get().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_put_refuses_a_newer_major_version(memlease_client):  # R-DLP-18
    deleted = []
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleted.append)
    managed = Versioned(major=2, deleter=ctypes.cast(deleter, ctypes.c_void_p).value)
    name = ctypes.create_string_buffer(b"dltensor_versioned")
    with pytest.raises(BufferError, match="version 2"):
        memlease_client.put("a", Handmade(make_capsule(name, managed)))
    assert deleted == [ctypes.addressof(managed)]


def test_no_exchange_table():  # R-DLP-24
    for kind in (memlease.ReadLease, memlease.WriteLease):
        assert not hasattr(kind, "__dlpack_c_exchange_api__")
        assert not hasattr(kind, "__c_dlpack_exchange_api__")


def test_a_lease_is_not_leaked_by_its_exports(single):
    with single.read() as r:
        before = sys.getrefcount(r)
        for _ in range(100):
            r.__dlpack__(max_version=(1, 0))
            np.from_dlpack(r)
            memoryview(r).release()
            dict(r.__array_interface__)
        assert sys.getrefcount(r) == before
        assert r.release()
