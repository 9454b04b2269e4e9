"""Sources that a producer describes by ``__cuda_array_interface__``, versions 0 to 3."""

import operator
from typing import Any

from memlease import _core
from memlease.errors import InvalidArgument, Unsupported
from memlease.layouts import strides_of

_NEWEST = 3
_FIRST_WITH_STREAM = 3


def from_interface(
    interface: Any, producer: Any, ignore_stream: bool
) -> tuple[str, _core.GpuSource]:
    """Take a source by its interface.

    Waits for nothing. The copy will wait for the ``stream`` that version 3 may name, and that for
    the copy's end. With none, as below version 3, the elements are ready, and nobody changes them
    before the copy is done: the user sees to that.

    Parameters
    ----------
    interface : dict
        The producer's ``__cuda_array_interface__``, which may be another one at each access.
    producer : object
        Kept until the copy is done.
    ignore_stream : bool
        Take the elements as ready whatever the interface says.

    Returns
    -------
    dtype : str
    source : GpuSource

    Raises
    ------
    InvalidArgument
        The interface contradicts its own rules, or names stream 0, which is ambiguous.
    Unsupported
        Its version is above 3, or it has a mask.
    """
    if not isinstance(interface, dict):
        raise InvalidArgument(
            f"the source's __cuda_array_interface__ has type {type(interface).__name__}",
            "it must be a dict: correct its producer, or hand it over by DLPack",
        )
    version = _whole(interface, "version")
    if version > _NEWEST:
        raise Unsupported(
            f"the source speaks version {version} of the CUDA array interface, and memlease up to "
            f"{_NEWEST}",
            "hand it over by DLPack, or copy it with its own library",
        )
    if interface.get("mask") is not None:
        raise Unsupported(
            "the source has a mask, and arrays of memlease have none",
            "fill in what is masked, or put the mask into an array of its own",
        )
    typestr = _required(interface, "typestr")
    if not isinstance(typestr, str):
        raise _wrong("typestr", typestr, "a text such as '<f4'")
    dtype = _core.parse_dtype(typestr)
    shape = _numbers(interface, "shape", lowest=0)
    source = _core.GpuSource(
        dtype=dtype,
        shape=shape,
        strides=_strides(interface, shape, _core.itemsize(dtype)),
        data=_address(interface, shape),
        stream=None if ignore_stream else _stream(interface, version),
        owner=producer,
    )
    return dtype, source


def _strides(interface: Any, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    if interface.get("strides") is None:
        return strides_of(shape, itemsize, "C")
    strides = _numbers(interface, "strides")
    if len(strides) != len(shape):
        raise _wrong("strides", strides, f"one number of bytes for each of {len(shape)} axes")
    return strides


def _address(interface: Any, shape: tuple[int, ...]) -> int:
    data = _required(interface, "data")
    address = data[0] if isinstance(data, tuple | list) and len(data) == 2 else data
    if 0 in shape:
        return 0
    if isinstance(address, int) and 0 < address < 2**64:
        return address
    raise _wrong("data", data, "(address, read-only), with an address")


def _stream(interface: Any, version: int) -> int | None:
    stream = interface.get("stream") if version >= _FIRST_WITH_STREAM else None
    if stream == 0:
        raise InvalidArgument(
            "the source's stream is 0, which its protocol forbids: it may mean the legacy or the "
            "per-thread default stream",
            "correct its producer; or wait for the elements, and put(source, ignore_stream=True)",
        )
    if stream is None:
        return None
    if isinstance(stream, bool) or not isinstance(stream, int) or not 0 < stream < 2**64:
        raise _wrong("stream", stream, "None, 1, 2 or a stream's handle")
    return stream


def _required(interface: Any, key: str) -> Any:
    try:
        return interface[key]
    except KeyError:
        raise InvalidArgument(
            f"the source's __cuda_array_interface__ has no {key!r}",
            "correct its producer, or hand it over by DLPack",
        ) from None


def _whole(interface: Any, key: str) -> int:
    value = _required(interface, key)
    if not _is_whole(value) or value < 0:
        raise _wrong(key, value, "a whole number")
    return operator.index(value)


def _is_whole(value: Any) -> bool:
    """Tell whether it is a Python or NumPy integer; truth values are none here."""
    try:
        operator.index(value)
    except TypeError:  # also of a NumPy array, which has __index__ whatever it holds
        return False
    return not isinstance(value, bool)


def _numbers(interface: Any, key: str, lowest: int = -(2**63)) -> tuple[int, ...]:
    values = _required(interface, key)
    if not isinstance(values, tuple | list) or not all(
        _is_whole(value) and lowest <= value < 2**63 for value in values
    ):
        raise _wrong(key, values, "a tuple of whole numbers")
    return tuple(operator.index(value) for value in values)


def _wrong(key: str, value: Any, expected: str) -> InvalidArgument:
    return InvalidArgument(
        f"the source's __cuda_array_interface__ has {key}={value!r}", f"it must be {expected}"
    )
