"""Sources that a producer describes by ``__cuda_array_interface__``, versions 0 to 3."""

import math
from typing import Any

from memlease import _core
from memlease.errors import InvalidArgument, Unsupported
from memlease.interface_fields import InterfaceFields
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
    fields = InterfaceFields(interface, "__cuda_array_interface__")
    version = fields.whole("version")
    if version > _NEWEST:
        raise Unsupported(
            f"the source speaks version {version} of the CUDA array interface, and memlease up to "
            f"{_NEWEST}",
            "hand it over by DLPack, or copy it with its own library",
        )
    if fields.get("mask") is not None:
        raise Unsupported(
            "the source has a mask, and arrays of memlease have none",
            "fill in what is masked, or put the mask into an array of its own",
        )
    dtype = _core.parse_dtype(fields.text("typestr", "a text such as '<f4'"))
    shape = fields.numbers("shape", lowest=0)
    if math.prod(filter(None, shape)) * _core.itemsize(dtype) >= 2**63:
        raise fields.wrong("shape", shape, "that of an array of less than 2^63 bytes")
    source = _core.GpuSource(
        dtype=dtype,
        shape=shape,
        strides=_strides(fields, shape, _core.itemsize(dtype)),
        data=_address(fields, shape),
        stream=None if ignore_stream else _stream(fields, version),
        owner=producer,
    )
    return dtype, source


def _strides(fields: InterfaceFields, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    if fields.get("strides") is None:
        return strides_of(shape, itemsize, "C")
    strides = fields.numbers("strides")
    if len(strides) != len(shape):
        raise fields.wrong("strides", strides, f"one number of bytes for each of {len(shape)} axes")
    return strides


def _address(fields: InterfaceFields, shape: tuple[int, ...]) -> int:
    data = fields.required("data")
    address = data[0] if isinstance(data, tuple | list) and len(data) == 2 else data
    if 0 in shape:
        return 0
    if isinstance(address, int) and 0 < address < 2**64:
        return address
    raise fields.wrong("data", data, "(address, read-only), with an address")


def _stream(fields: InterfaceFields, version: int) -> int | None:
    stream = fields.get("stream") if version >= _FIRST_WITH_STREAM else None
    if stream == 0:
        raise InvalidArgument(
            "the source's stream is 0, which its protocol forbids: it may mean the legacy or the "
            "per-thread default stream",
            "correct its producer; or wait for the elements, and put(source, ignore_stream=True)",
        )
    if stream is None:
        return None
    if isinstance(stream, bool) or not isinstance(stream, int) or not 0 < stream < 2**64:
        raise fields.wrong("stream", stream, "None, 1, 2 or a stream's handle")
    return stream
