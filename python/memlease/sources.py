"""Sources of `put`, `fill` and ``lease[...] =``: what other libraries' objects are taken by."""

import sys
from typing import Any

from memlease import _core, cuda_sources, host_sources, opt_outs, usm_sources
from memlease.dtypes import dtype_name
from memlease.errors import InvalidArgument
from memlease.layouts import require_same
from memlease.usm_runtime import INTERFACE as USM_INTERFACE

_CUDA = 2  # DLPack's kDLCUDA


def source_of(
    source: Any,
    stream: Any = None,
    ignore_stream: bool | None = None,
    dtype: str | None = None,
) -> tuple[str, Any]:
    """Find the elements of anything that `put` takes.

    DLPack is preferred to ``__cuda_array_interface__``: it knows more types, keeps its memory by
    itself, and makes the stream that copies wait whatever the producer is. Before both comes
    ``__sycl_usm_array_interface__``: what has that is in USM, which is taken by nothing else.

    Parameters
    ----------
    source : array_like
    stream : stream, optional
        The one that copies what is on a GPU. Default: one of the library's.
    ignore_stream : bool, optional
        As in `memlease.opt_outs`.
    dtype : str, optional
        What plain numbers become, which have no dtype of their own, where that keeps their values.
        Default: what NumPy makes of them.

    Returns
    -------
    dtype : str
    elements : numpy.ndarray or GpuSource
        Over the source's own memory where that is possible. NumPy's array has dtype
        ``V<itemsize>``, so that it also holds types that NumPy does not know.
    """
    # Another thread may be in the middle of importing it.
    ndarray = getattr(sys.modules.get("numpy"), "ndarray", None)
    if ndarray is None or not isinstance(source, ndarray):
        in_usm = getattr(source, USM_INTERFACE, None)
        if in_usm is not None:
            return usm_sources.from_interface(in_usm, source)
        if hasattr(source, "__dlpack__"):
            _refuse_tracer(source)
            return _core.import_dlpack(source, stream, opt_outs.ignores_stream(ignore_stream))
        described = getattr(source, "__cuda_array_interface__", None)
        if described is not None:
            ignores = opt_outs.ignores_stream(ignore_stream)
            return cuda_sources.from_interface(described, source, ignores)
    elements = host_sources.elements_of(source, dtype)
    if not elements.dtype.isnative:
        elements = elements.astype(elements.dtype.newbyteorder("="))
    return dtype_name(elements.dtype), elements.view(f"V{elements.dtype.itemsize}")


def _refuse_tracer(source: Any) -> None:
    """Refuse what stands for an array of JAX while a function is traced: `InvalidArgument`."""
    for base in type(source).__mro__:
        if base.__name__ == "Tracer" and base.__module__.partition(".")[0] == "jax":
            raise InvalidArgument(
                "the source is a tracer of JAX, which has no elements: jax.jit, grad and the like "
                "run a function once to see what it computes",
                "put what the function returns, or in it jax.debug.callback(array.put, x)",
            )


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
    require_same(found, elements.shape, name, dtype, shape, on_gpu=True)
    return elements  # type: ignore[no-any-return]
