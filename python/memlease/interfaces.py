"""Element types and sources of other libraries, as memlease names and takes them."""

import math
import sys
from typing import TYPE_CHECKING, Any

from memlease import _core
from memlease.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    import numpy as np


def require_numpy() -> Any:
    """Import NumPy, which memlease itself does not depend on."""
    try:
        import numpy
    except ImportError as error:
        raise Unsupported(
            "this needs NumPy, which is not installed",
            "pip install numpy, or use memoryview(lease) or DLPack instead",
        ) from error
    return numpy


def dtype_name(dtype: Any) -> str:
    """Name a dtype of NumPy, ml_dtypes, PyTorch or JAX, or a string, as memlease does."""
    if isinstance(dtype, str):
        return _core.parse_dtype(dtype)
    text = str(dtype)
    if text.startswith("torch."):
        return _core.parse_dtype(text.removeprefix("torch."))
    numpy = require_numpy()
    try:
        found = numpy.dtype(dtype)
    except TypeError as error:
        raise InvalidArgument(
            f"dtype={dtype!r} is no element type", "give a name such as 'float32', or a NumPy dtype"
        ) from error
    if not found.isnative:
        raise InvalidArgument(
            f"dtype={dtype!r} has the other byte order than this machine",
            f"convert with array.astype({found.newbyteorder('=').str!r})",
        )
    return _core.parse_dtype(found.name)


def numpy_dtype(name: str) -> "np.dtype[Any]":
    """Return NumPy's dtype of a name of memlease; ml_dtypes brings those NumPy lacks."""
    numpy = require_numpy()
    try:
        return numpy.dtype(name)  # type: ignore[no-any-return]
    except TypeError:
        pass
    try:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise Unsupported(
            f"NumPy has no {name}, and ml_dtypes, which has, is not installed or too old",
            "pip install ml_dtypes, or take the lease by DLPack, as torch.from_dlpack(lease)",
        ) from error


_CUDA = 2  # DLPack's kDLCUDA

_KINDS = {"bool": "b", "int": "i", "uint": "u", "float": "f", "complex": "c"}


def array_interface(
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    name: str = "__array_interface__",
) -> dict[str, Any]:
    """Build ``__array_interface__`` without its data; AttributeError where it has no such type."""
    kind = _KINDS.get(dtype.rstrip("0123456789"))
    if kind is None:
        raise AttributeError(f"{name}: NumPy has no {dtype}; use DLPack")
    itemsize = _core.itemsize(dtype)
    order = "|" if itemsize == 1 else "<" if sys.byteorder == "little" else ">"
    return {
        "version": 3,
        "typestr": f"{order}{kind}{itemsize}",
        "shape": shape,
        "strides": None if strides == strides_of(shape, itemsize, "C") else strides,
    }


def cuda_array_interface(
    dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]
) -> dict[str, Any]:
    """Build ``__cuda_array_interface__`` likewise, without data, stream and version.

    R-CAI-1, 3, 4, 6, 7, 8: an exact dict with tuples, neither mask nor descr.
    """
    interface = array_interface(dtype, shape, strides, "__cuda_array_interface__")
    if 0 in shape:
        interface["strides"] = None
    return interface


def strides_of(shape: tuple[int, ...], itemsize_bytes: int, order: str) -> tuple[int, ...]:
    """Byte strides of compact elements in order "C" (last axis fastest) or "F" (first)."""
    strides = [0] * len(shape)
    stride = itemsize_bytes
    axes = range(len(shape))
    for axis in reversed(axes) if order == "C" else axes:
        strides[axis] = stride
        stride *= shape[axis]
    return tuple(strides)


def source_of(
    source: Any,
    stream: Any = None,
    ignore_stream: bool | None = None,
    dtype: str | None = None,
) -> tuple[str, Any]:
    """Find the elements of anything that `put` takes.

    DLPack is preferred to ``__cuda_array_interface__``: it knows more types, keeps its memory by
    itself, and makes the stream that copies wait whatever the producer is.

    Parameters
    ----------
    source : array_like
    stream : stream, optional
        The one that copies what is on a GPU. Default: one of the library's.
    ignore_stream : bool, optional
        As in `memlease.opt_outs`.
    dtype : str, optional
        What plain numbers become, which have no dtype of their own. Default: what NumPy makes of
        them.

    Returns
    -------
    dtype : str
    elements : numpy.ndarray or GpuSource
        Over the source's own memory where that is possible. NumPy's is of dtype ``V<itemsize>``, so
        that it also holds types that NumPy does not know.
    """
    from memlease import cuda_sources, host_sources, opt_outs

    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(source, numpy.ndarray):
        if hasattr(source, "__dlpack__"):
            return _core.import_dlpack(source, stream, opt_outs.ignores_stream(ignore_stream))
        described = getattr(source, "__cuda_array_interface__", None)
        if described is not None:
            ignores = opt_outs.ignores_stream(ignore_stream)
            return cuda_sources.from_interface(described, source, ignores)
    elements = host_sources.elements_of(source, dtype)
    if not elements.dtype.isnative:
        elements = elements.astype(elements.dtype.newbyteorder("="))
    return dtype_name(elements.dtype), elements.view(f"V{elements.dtype.itemsize}")


def gpu_source_of(
    source: Any, name: str, dtype: str, shape: tuple[int, ...]
) -> _core.GpuSource | None:
    """Find a source on a GPU for the array `name`, as `source_of` does; None if it is elsewhere."""
    if hasattr(source, "__dlpack_device__"):
        on_gpu = source.__dlpack_device__()[0] == _CUDA
    else:
        on_gpu = hasattr(source, "__cuda_array_interface__")
    if not on_gpu:
        return None
    found, elements = source_of(source)
    require_same(found, elements.shape, name, dtype, shape)
    return elements  # type: ignore[no-any-return]


def require_same(
    dtype: str, shape: tuple[int, ...], name: str, wanted: str, wanted_shape: tuple[int, ...]
) -> None:
    """Refuse a source of another dtype or shape than the array `name` has."""
    if dtype == wanted and shape == wanted_shape:
        return
    raise InvalidArgument(
        f"the source is {dtype}{list(shape)}, and '{name}' is {wanted}{list(wanted_shape)}",
        f"convert it first, as by np.asarray(source, {wanted!r})"
        if dtype != wanted
        else f"give one of shape {wanted_shape}{_way_to_shape(shape, wanted_shape)}",
    )


def _way_to_shape(shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    if math.prod(shape) == math.prod(wanted):
        return ", as by np.reshape"
    if can_be_broadcast(shape, wanted):
        return ", as by np.broadcast_to" if shape else ", as by np.full"
    return ""


def can_be_broadcast(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Tell whether elements of one shape can be repeated to make another one."""
    pairs = zip(shape[::-1], wanted[::-1], strict=False)
    return len(shape) <= len(wanted) and all(have in (1, want) for have, want in pairs)
