"""The first version of an array that is being made."""

import contextlib
from collections.abc import Iterator
from typing import Any

from memlease import _core, host_sources
from memlease.array import Array
from memlease.dtypes import numpy_dtype, require_numpy
from memlease.errors import Error, InvalidArgument
from memlease.layouts import can_be_broadcast
from memlease.sources import gpu_source_of


@contextlib.contextmanager
def withdrawn_after_error(array: Array) -> Iterator[None]:
    """Leave no array behind that this process made and that has no version."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Error):
            if array.created and not _has_version(array):
                array.withdraw()
        raise


def _has_version(array: Array) -> bool:
    try:
        return array.version != 0
    except Error:
        return False


def elements_to_fill(name: str, fill: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    """Return what is to be version 1: of a GPU, or of NumPy and of the dtype; None for None."""
    if fill is None:
        return None
    on_gpu = gpu_source_of(fill, name, dtype, shape)
    if on_gpu is not None:
        return on_gpu
    numpy, wanted = require_numpy(), numpy_dtype(dtype)
    elements = host_sources.elements_of(fill, dtype)
    if elements.dtype != wanted:
        elements = host_sources.become(fill, elements, dtype)
    if wanted.kind == "b" and numpy.isin(elements, (0, 1)).all():
        elements = elements.astype(wanted)
    if elements.dtype != wanted:
        raise InvalidArgument(
            f"fill is {elements.dtype}, which {dtype} cannot keep",
            f"convert it first, as by np.asarray(fill).astype({dtype!r})",
        )
    if not can_be_broadcast(elements.shape, shape):
        raise InvalidArgument(
            f"fill has shape {elements.shape}, which cannot be broadcast to {shape}",
            "give a number, or an array of the array's shape",
        )
    return elements


def fill_array(array: Array, elements: Any) -> None:
    """Publish them as a version of the array, broadcast to its shape."""
    if isinstance(elements, _core.GpuSource):
        array._put_elements(array.dtype_name, elements, "no", None, None)
        return
    every = require_numpy().broadcast_to(elements, array.shape)
    if array.device != "host":
        array.put(every)
        return
    with array.write() as lease:  # put would copy what was broadcast first
        lease[...] = every
