"""Imports of host arrays by DLPack, capsule by capsule."""

import ctypes

import memlease
import numpy as np
import pytest
from dlpack_structs import DLTensor, Unversioned, Versioned, new_capsule


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


def test_put_asks_for_all_and_then_for_less(memlease_client):
    """R-DLP-18: but always for a stream."""
    everything = {"stream", "max_version", "dl_device", "copy"}
    for accepted, calls in ((everything, 1), (everything - {"max_version"}, 2), ({"stream"}, 3)):
        producer = Producer(np.arange(3), accepted)
        assert memlease_client.put("a", producer).get().tolist() == [0, 1, 2]
        assert len(producer.asked) == calls
        assert all("stream" in keywords for keywords in producer.asked)
    with pytest.raises(memlease.Unsupported, match="device"):
        memlease_client.put("a", Producer(np.arange(3), everything, device=(4, 0)))


@pytest.mark.parametrize("kind", [3, 11])
def test_put_takes_memory_of_the_host_that_a_gpu_library_has_pinned(memlease_client, kind):
    """DLPack has kinds of its own for it; memory that CUDA moves by itself is refused."""
    data = (ctypes.c_int64 * 3)(*range(3))
    shape = (ctypes.c_int64 * 1)(3)
    pinned = Unversioned(
        tensor=DLTensor(ctypes.addressof(data), kind, 0, 1, 0, 64, 1, shape, None, 0)
    )
    producer = Handmade(new_capsule(pinned, b"dltensor"), device=(kind, 0))
    assert memlease_client.put("a", producer).get().tolist() == [0, 1, 2]
    managed = Handmade(new_capsule(pinned, b"dltensor"), device=(13, 0))
    with pytest.raises(memlease.Unsupported, match="DLPack type 13"):
        memlease_client.put("a", managed)


def test_put_lets_buffer_errors_pass(memlease_client):
    """R-DLP-18: they are no unknown arguments."""
    frozen = np.arange(3)
    frozen.flags.writeable = False
    producer = Producer(frozen, {"stream"})  # NumPy refuses read-only without a version
    with pytest.raises(BufferError):
        memlease_client.put("a", producer)


class Handmade:
    def __init__(self, capsule, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        return self.capsule


def test_put_from_unusual_tensors(memlease_client):
    """R-DLP-3, 5, 22: no strides, an offset, and no deleter."""
    data = (ctypes.c_int32 * 7)(*range(7))
    shape = (ctypes.c_int64 * 2)(2, 3)
    managed = Unversioned(
        tensor=DLTensor(ctypes.addressof(data), 1, 0, 2, 0, 32, 1, shape, None, 4)
    )
    array = memlease_client.put("a", Handmade(new_capsule(managed, b"dltensor")))
    assert array.get().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_put_refuses_a_newer_major_version(memlease_client):
    """R-DLP-18: and deletes it."""
    deleted = []
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleted.append)
    managed = Versioned(major=2, deleter=ctypes.cast(deleter, ctypes.c_void_p).value)
    with pytest.raises(BufferError, match="version 2"):
        memlease_client.put("a", Handmade(new_capsule(managed, b"dltensor_versioned")))
    assert deleted == [ctypes.addressof(managed)]


@pytest.mark.parametrize(
    ("code", "bits", "lanes"),
    [(17, 4, 1), (1, 4, 2), (0, 1, 1), (2, 32, 4), (3, 64, 1), (99, 8, 1)],
)
def test_put_refuses_types_that_memlease_has_not(memlease_client, code, bits, lanes):
    """R-DLP-10, 11, 21: parts of bytes, several lanes, handles, unknown ones; and deletes them."""
    deleted = []
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleted.append)
    shape, data = (ctypes.c_int64 * 1)(2), (ctypes.c_char * 64)()
    address = ctypes.addressof(data)
    managed = Unversioned(
        tensor=DLTensor(address, 1, 0, 1, code, bits, lanes, shape, None, 0),
        deleter=ctypes.cast(deleter, ctypes.c_void_p).value,
    )
    with pytest.raises(memlease.Unsupported, match="no element type"):
        memlease_client.put("a", Handmade(new_capsule(managed, b"dltensor")))
    assert deleted == [ctypes.addressof(managed)]


@pytest.mark.parametrize("name", [b"used_dltensor", b"used_dltensor_versioned", b"tensor"])
def test_put_looks_at_the_name_first(memlease_client, name):
    """R-DLP-18; R-BUG-6: what another has taken over is nobody's, and the error is not lost."""
    managed = Unversioned(tensor=DLTensor(), deleter=1)  # whoever looks at it crashes
    with pytest.raises(ValueError, match="incorrect name"):
        memlease_client.put("a", Handmade(new_capsule(managed, name)))
    assert memlease_client.put("a", np.arange(3)).get().tolist() == [0, 1, 2]
