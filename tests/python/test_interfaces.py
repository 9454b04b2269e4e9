"""The buffer protocol, __array_interface__ and __array__ of leases."""

import ctypes
import hashlib
import sys
import zlib

import memlease
import numpy as np
import pytest

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


class Interface:
    """An object that has nothing but an array interface."""

    def __init__(self, interface):
        self.__array_interface__ = interface


@pytest.mark.parametrize("dtype", DTYPES)
def test_buffer_and_interface_tell_the_same_as_numpy(memlease_client, dtype):
    values = (np.arange(12).reshape(3, 4) % 2).astype(dtype)
    with memlease_client.put("a", values).read() as r:
        view = memoryview(r)
        assert (view.readonly, view.ndim, view.shape) == (True, 2, (3, 4))
        assert (view.itemsize, view.nbytes, view.strides) == (
            values.itemsize,
            values.nbytes,
            values.strides,
        )
        assert np.array_equal(np.asarray(view), values)
        assert np.asarray(view).dtype == values.dtype
        interface = r.__array_interface__
        assert interface["version"] == 3
        assert interface["typestr"] == values.dtype.str
        assert interface["shape"] == (3, 4)
        assert interface["strides"] is None
        again = np.asarray(Interface(interface))
        assert not again.flags.writeable
        assert np.array_equal(again, values)
        assert np.shares_memory(again, r.array)
        del view, interface, again


def test_strides_are_told(memlease_client):
    array = memlease_client.create("f", shape=(2, 3), dtype="i4", order="F", fill=1)
    with array.read() as r:
        assert r.__array_interface__["strides"] == (4, 8)
        with memoryview(r) as view:
            assert view.strides == (4, 8)
            assert view.f_contiguous
            assert not view.c_contiguous
        with pytest.raises(BufferError, match="strides"):
            (ctypes.c_char * 24).from_buffer_copy(r)


def test_buffers_of_a_write_lease_are_writable(memlease_client, tmp_path):
    array = memlease_client.create("a", shape=4, dtype="u1")
    with array.write() as w:
        with w.memoryview() as view:
            assert not view.readonly
            view[:] = b"ab.."
        np.frombuffer(w.array, dtype="u1")[2] = ord("c")
        w.array.data[3] = ord("d")
    assert bytes(array.read()) == b"abcd"
    file = tmp_path / "bytes"
    file.write_bytes(b"xbcd")
    with array.write() as w, file.open("rb") as source:
        assert source.readinto(w.array) == 4
    with array.read() as r:
        with r.memoryview() as view:
            assert view.readonly
            assert view == memoryview(r)
        assert bytes(r) == b"xbcd"
        with pytest.raises(TypeError):
            (ctypes.c_char * 4).from_buffer(r)


def test_a_write_lease_is_its_array_for_numpy(memlease_client):
    array = memlease_client.create("a", shape=4, dtype="u1")
    with array.write() as w:
        assert np.asarray(w) is w.array
        assert not hasattr(w, "__array_interface__")
        with pytest.raises(BufferError, match=r"take lease.memoryview\(\)"):
            memoryview(w)


def test_who_expects_an_address_is_told_where_it_is(memlease_client):
    with memlease_client.put("a", np.arange(4)).read() as lease:
        data = lease.__array_interface__["data"]
        assert bytes(data) == bytes(lease)
        for take in (lambda: data[0], lambda: tuple(data)):
            with pytest.raises(TypeError, match=r"is a buffer.*lease\.ctypes\.data"):
                take()
        assert lease.ctypes.data == lease.array.__array_interface__["data"][0]


def test_array_method_converts_and_copies_as_asked(memlease_client):
    with memlease_client.put("a", np.arange(4, dtype="i4")).read() as r:
        assert r.__array__() is r.array
        assert np.asarray(r, dtype="f8").tolist() == [0, 1, 2, 3]
        copy = np.array(r, copy=True)
        assert copy.flags.writeable
        assert not np.shares_memory(copy, r.array)
        with pytest.raises(ValueError, match="copy"):
            r.__array__(dtype="f8", copy=False)


def test_types_that_numpy_lacks(memlease_client):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        values = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, name))
        array = memlease_client.put(name, values)
        assert array.dtype == name
        with array.read() as r:
            assert not hasattr(r, "__array_interface__")
            with pytest.raises(AttributeError, match="DLPack"):
                _ = r.__array_interface__
            with pytest.raises(BufferError, match="DLPack"):
                memoryview(r)
            assert r.array.dtype == values.dtype
            assert np.asarray(r).dtype == values.dtype
            assert np.array_equal(r.array.astype("f4"), values.astype("f4"))


def test_types_that_numpy_lacks_need_ml_dtypes(memlease_client, monkeypatch):
    array = memlease_client.create("a", shape=3, dtype="float8_e4m3fn")
    memlease.dtypes.numpy_dtype.cache_clear()
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.setattr(
        memlease.dtypes.require_numpy(), "dtype", _dtype_without_extensions(np.dtype)
    )
    with array.write() as w, pytest.raises(memlease.Unsupported, match="ml_dtypes"):
        _ = w.array


def _dtype_without_extensions(original):
    def dtype(name):
        if name == "float8_e4m3fn":
            raise TypeError(name)
        return original(name)

    return dtype


def test_what_wants_a_row_of_bytes_takes_a_read_lease(memlease_client):
    array = memlease_client.put("a", np.arange(6, dtype="f4").reshape(2, 3))
    with array.read() as lease:
        for function in (bytes, zlib.crc32, lambda it: hashlib.sha256(it).digest()):
            assert function(lease) == function(lease.array.tobytes())
