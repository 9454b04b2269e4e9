"""What the twins of GPU libraries in twins/ share: they serve programs on the CUDA stand-in.

A twin has of its library what the examples call, asks a lease for what the library asks for, as
consumers.py has it, and works on the streams that the library would use.
"""

import atexit
import contextlib
import ctypes
from collections.abc import Iterator

import numpy as np
from consumers import View
from gpu_process import Here

here = Here()
atexit.register(here.close)
current = [1]  # the stream that work goes to: the legacy one


def new_stream(gpu: int) -> int:
    """Make a stream on a GPU."""
    here.call("cudaSetDevice", gpu)
    return here.stream("twin")


@contextlib.contextmanager
def working_on(stream: int) -> Iterator[None]:
    """Send the block's work there."""
    current.append(stream)
    try:
        yield
    finally:
        current.pop()


def fetch(view: View) -> np.ndarray:
    """Copy float32 elements to the host, in the order of the view's stream."""
    values = np.empty(view.shape, "f4")
    stream = ctypes.c_void_p(view.stream)
    to, size = ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes)
    here.call("cudaMemcpyAsync", to, ctypes.c_void_p(view.address), size, 2, stream)
    here.synchronize(view.stream)
    return values


def store(view: View, values: np.ndarray) -> None:
    """Copy float32 elements to the GPU, in the order of the view's stream."""
    assert not view.readonly
    stream = ctypes.c_void_p(view.stream)
    size, source = ctypes.c_size_t(values.nbytes), ctypes.c_void_p(values.ctypes.data)
    here.call("cudaMemcpyAsync", ctypes.c_void_p(view.address), source, size, 1, stream)
    here.synchronize(view.stream)


class Array:
    """An array on the GPU, by the name that each library gives it."""

    def __init__(self, view: View) -> None:
        self.view = view

    def mean(self) -> np.float32:
        return fetch(self.view).mean()

    def min(self) -> np.float32:
        return fetch(self.view).min()

    def max(self) -> np.float32:
        return fetch(self.view).max()

    def delete(self) -> None:
        del self.view
