"""Streams of other libraries, as `stream=` takes them."""

import ctypes
from types import SimpleNamespace

import memlease
import numpy as np
import pytest
from memlease.stream import handle_of


class Protocol:
    def __init__(self, *answer):
        self.answer = answer

    def __cuda_stream__(self):
        return self.answer


def of_library(name, **attributes):
    """Make a stream whose class says that it is of a library."""
    return type("Stream", (), {"__module__": f"{name}.cuda", **attributes})()


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (1, 1),
        (2, 2),
        (0x55AA, 0x55AA),
        (0, 0),
        (np.int64(76), 76),
        (ctypes.c_void_p(75), 75),
        (ctypes.c_void_p(0), 0),
        (Protocol(0, 77), 77),
        (SimpleNamespace(__cuda_stream__=(0, 78)), 78),
        (SimpleNamespace(ptr=79), 79),
        (SimpleNamespace(cuda_stream=80), 80),
        (SimpleNamespace(handle=81), 81),
        (SimpleNamespace(handle=ctypes.c_void_p(82)), 82),
        (SimpleNamespace(handle=ctypes.c_void_p(0)), 0),
        (of_library("torch", cuda_stream=0), 1),
        (of_library("cupy", ptr=0), 1),
        (of_library("numba", handle=0), 0),
    ],
)
def test_streams_of_libraries(stream, handle):
    assert handle_of(stream) == handle


def test_the_protocol_comes_first():
    stream = Protocol(0, 5)
    stream.ptr = 6
    assert handle_of(stream) == 5


@pytest.mark.parametrize(
    "stream", ["1", 1.0, True, np.True_, np.float64(1), object(), SimpleNamespace(handle="x")]
)
def test_what_is_no_stream(stream):
    with pytest.raises(TypeError, match="CuPy, PyTorch or Numba; JAX has none"):
        handle_of(stream)


@pytest.mark.parametrize("stream", [-1, 2**64, np.int64(-1)])
def test_numbers_that_are_no_handles(stream):
    with pytest.raises(memlease.InvalidArgument, match="not the handle"):
        handle_of(stream)


def test_an_unknown_version_of_the_protocol():
    with pytest.raises(memlease.InvalidArgument, match="version 1 of __cuda_stream__"):
        handle_of(Protocol(1, 5))


def test_host_arrays_have_no_use_for_streams(memlease_client):
    array = memlease_client.create("a", shape=3, dtype="i4")
    for stream in (None, 1, 12345, SimpleNamespace(ptr=9)):
        array.write(stream=stream).publish(stream)
        array.update(stream=stream).drop(stream=stream)
        assert array.read(stream=stream).release(stream)
        for lease in array.follow(stream=stream):
            assert lease.release(stream=stream)
            break


def test_what_is_no_stream_is_refused_everywhere(memlease_client):
    array = memlease_client.create("a", shape=3, dtype="i4", fill=1)
    calls = [array.read, array.write, array.update, array.follow]
    calls += [array.read().release, array.write().publish]
    for call in calls:
        with pytest.raises(TypeError, match="not a CUDA stream"):
            call(stream="s")
        with pytest.raises(memlease.InvalidArgument, match="stream 0 is ambiguous"):
            call(stream=0)
