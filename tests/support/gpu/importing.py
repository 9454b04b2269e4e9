"""What tests of imports do with libraries whose memory is put into the array "a"."""

from __future__ import annotations

import ctypes

import producers
import pytest
from gpu_arrays import opened

# cuda.core is apart: it does nothing about the stream. RMM has bytes, and no stream.
BY_DLPACK = [producers.Torch, producers.CuPy, producers.Jax]
BY_INTERFACE = [producers.CuPyInterface, producers.Numba, producers.JaxInterface]


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


def refused(here, source, error, match, array=None, **options):
    """Nothing is published, the version stands, and the next write is as if nothing had been."""
    array = array or opened(here)
    before = array.version
    with pytest.raises(error, match=match):
        array.put(source, **options)
    assert array.version == before
    array.write(wait=0).drop()
