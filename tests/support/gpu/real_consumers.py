"""The libraries that consumers.py replays, for runs on hardware: twins of the same names.

Each gives the library the producer as a user would, and uses what the library made of it on the
stream that the library works on.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from consumers import View
from gpu_process import Here


def _address(array: Any) -> int:
    return array.__cuda_array_interface__["data"][0]


# ---- By __cuda_array_interface__.


def cupy_asarray(here: Here, producer: Any, stream: int) -> View:
    import cupy

    with cupy.cuda.ExternalStream(stream):
        array = cupy.asarray(producer)
    return View(here, array.data.ptr, array.shape, stream, array)


def torch_as_tensor(here: Here, producer: Any, stream: int) -> View:
    import torch

    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        tensor = torch.as_tensor(producer, device="cuda")
    return View(here, tensor.data_ptr(), tuple(tensor.shape), stream, tensor)


def numba_as_cuda_array(here: Here, producer: Any, stream: int) -> View:
    from numba import cuda

    theirs = producer.__cuda_array_interface__.get("stream")
    array = cuda.as_cuda_array(producer)
    return View(here, _address(array), array.shape, theirs or stream, array)


def cuda_core_view(here: Here, producer: Any, stream: int) -> View:
    view = _strided_memory_view().from_cuda_array_interface(producer, stream)
    return View(here, view.ptr, tuple(view.shape), stream, view)


class JaxView(View):
    """JAX works on a stream of its own, and its arrays do not change."""

    def look(self, expected: int) -> None:
        self.here.wrong += int((self.owner != expected).sum())


def jax_array_of_interface(here: Here, producer: Any, stream: int) -> View:
    jax = _jax()
    array = jax.numpy.asarray(producer)
    array.block_until_ready()
    return JaxView(here, array.unsafe_buffer_pointer(), array.shape, stream, array)


# ---- By DLPack.


def torch_from_dlpack(here: Here, producer: Any, stream: int) -> View:
    import torch

    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        tensor = torch.from_dlpack(producer)
    return View(here, tensor.data_ptr(), tuple(tensor.shape), stream, tensor)


def cupy_from_dlpack(here: Here, producer: Any, stream: int) -> View:
    import cupy

    with cupy.cuda.ExternalStream(stream):
        array = cupy.from_dlpack(producer)
    return View(here, array.data.ptr, array.shape, stream, array)


def jax_from_dlpack(here: Here, producer: Any, stream: int) -> View:
    jax = _jax()
    array = jax.dlpack.from_dlpack(producer)
    array.block_until_ready()
    return JaxView(here, array.unsafe_buffer_pointer(), array.shape, stream, array)


def cuda_core_dlpack(here: Here, producer: Any, stream: int) -> View:
    view = _strided_memory_view().from_dlpack(producer, stream)
    return View(here, view.ptr, tuple(view.shape), stream, view)


# ---- Which there are.


def _jax() -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)  # else uint64 would become uint32
    return jax


def _strided_memory_view() -> Any:
    try:
        from cuda.core.utils import StridedMemoryView
    except ImportError:
        from cuda.core.experimental.utils import StridedMemoryView
    return StridedMemoryView


TWINS: dict[str, list[Callable[[Here, Any, int], View]]] = {
    "cupy": [cupy_asarray, cupy_from_dlpack],
    "torch": [torch_as_tensor, torch_from_dlpack],
    "numba.cuda": [numba_as_cuda_array],
    "cuda.core": [cuda_core_view, cuda_core_dlpack],
    "jax_cuda13_plugin": [jax_array_of_interface, jax_from_dlpack],
}


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


def installed() -> dict[str, Callable[[Here, Any, int], View]]:
    """Return the twins whose libraries are there, by their names."""
    found = {
        twin.__name__: twin
        for module, twins in TWINS.items()
        if _is_installed(module)
        for twin in twins
    }
    for twin in found.values():
        twin.__module__ = "consumers"  # where other processes are to find it
    return found
