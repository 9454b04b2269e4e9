"""Shapes and strides, and which of them fit together."""

import math

from memlease.errors import InvalidArgument


def strides_of(shape: tuple[int, ...], itemsize_bytes: int, order: str) -> tuple[int, ...]:
    """Byte strides of compact elements in order "C" (last axis fastest) or "F" (first)."""
    strides = [0] * len(shape)
    stride = itemsize_bytes
    axes = range(len(shape))
    for axis in reversed(axes) if order == "C" else axes:
        strides[axis] = stride
        stride *= shape[axis]
    return tuple(strides)


def require_same(
    dtype: str,
    shape: tuple[int, ...],
    name: str,
    wanted: str,
    wanted_shape: tuple[int, ...],
    *,
    on_gpu: bool = False,
) -> None:
    """Refuse a source of another dtype or shape than the array `name` has."""
    if dtype != wanted:
        raise InvalidArgument(
            _difference(dtype, shape, name, wanted, wanted_shape),
            "no copy on a GPU converts: convert it there first, as by tensor.to(dtype) or cupy's "
            "astype(dtype), or bring a lease to the host, by its get()"
            if on_gpu
            else "give casting='unsafe', or convert it first, as by "
            f"np.asarray(source, {wanted!r})",
        )
    require_shape(dtype, shape, name, wanted, wanted_shape)


def require_shape(
    dtype: str, shape: tuple[int, ...], name: str, wanted: str, wanted_shape: tuple[int, ...]
) -> None:
    """Refuse a source of another shape than the array `name` has."""
    if shape != wanted_shape:
        raise InvalidArgument(
            _difference(dtype, shape, name, wanted, wanted_shape),
            f"give one of shape {wanted_shape}{_way_to_shape(shape, wanted_shape)}",
        )


def _difference(
    dtype: str, shape: tuple[int, ...], name: str, wanted: str, wanted_shape: tuple[int, ...]
) -> str:
    return f"the source is {dtype}{list(shape)}, and '{name}' is {wanted}{list(wanted_shape)}"


def _way_to_shape(shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    if shape[::-1] == wanted:
        return ", as by source.T"
    if math.prod(shape) == math.prod(wanted):
        return ", as by np.reshape"
    if can_be_broadcast(shape, wanted):
        return ", as by np.broadcast_to"
    return ""


def can_be_broadcast(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Tell whether elements of one shape can be repeated to make another one."""
    pairs = zip(shape[::-1], wanted[::-1], strict=False)
    return len(shape) <= len(wanted) and all(have in (1, want) for have, want in pairs)
