"""The array interfaces of leases: how NumPy and CUDA libraries see their elements."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from memlease import _core
from memlease.errors import Unsupported
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


def jax_array(lease: Any) -> Callable[[], Any]:
    """Return the ``__jax_array__`` of a lease on a GPU, which takes it by DLPack."""
    return functools.partial(_take_by_jax, lease)


def _take_by_jax(lease: Any) -> Any:
    jax = importlib.import_module("jax")
    try:
        jax.devices("cuda")
    except RuntimeError as error:
        raise Unsupported(
            f"JAX cannot take an array that is on a GPU: {error}",
            "install JAX with CUDA, such as jax[cuda13]; or give it a copy in host memory, "
            "array.get()",
        ) from error
    return jax.numpy.from_dlpack(lease.dlpack(readonly_ok=True))  # JAX writes nothing in place
