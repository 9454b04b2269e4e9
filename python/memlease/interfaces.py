"""The array interfaces of leases: how NumPy and CUDA libraries see their elements."""

from typing import Any

from memlease import _core
from memlease.layouts import strides_of


def array_interface(
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    name: str = "__array_interface__",
) -> dict[str, Any]:
    """Build ``__array_interface__`` without its data; AttributeError where it has no such type."""
    typestr = _core.typestr(dtype)
    if not typestr:
        raise AttributeError(f"{name}: NumPy has no {dtype}; use DLPack")
    compact = strides_of(shape, _core.itemsize(dtype), "C")
    return {
        "version": 3,
        "typestr": typestr,
        "shape": shape,
        "strides": None if strides == compact else strides,
    }


def cuda_array_interface(
    dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]
) -> dict[str, Any]:
    """Build ``__cuda_array_interface__`` likewise, without data, stream and version.

    It is an exact dict with tuples, without mask and descr.
    """
    interface = array_interface(dtype, shape, strides, "__cuda_array_interface__")
    if 0 in shape:
        interface["strides"] = None
    return interface
