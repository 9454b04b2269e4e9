"""Sources and destinations in USM, described by ``__sycl_usm_array_interface__``, version 1."""

import operator
from typing import Any, NamedTuple

from memlease import _core, usm_runtime
from memlease.dtypes import numpy_dtype, require_numpy
from memlease.errors import InvalidArgument, Unsupported
from memlease.interface_fields import InterfaceFields, is_whole
from memlease.layouts import strides_of
from memlease.usm_runtime import INTERFACE


class UsmArray(NamedTuple):
    """What an interface says, in bytes."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    address: int  # of the lowest byte
    first: int  # of the first element, from there
    size_bytes: int  # from the lowest byte to the end of the highest; 0: no elements
    readonly: bool
    syclobj: Any


def described(interface: Any, whose: str = "the source") -> UsmArray:
    """Read an interface, and check what can be checked without SYCL.

    Parameters
    ----------
    interface : dict
        A producer's ``__sycl_usm_array_interface__``.
    whose : str
        Whom errors are about.

    Raises
    ------
    InvalidArgument
        It contradicts its own rules.
    Unsupported
        Its version is not 1, or its type is none of memlease's or has the other byte order.
    """
    fields = InterfaceFields(interface, INTERFACE, whose)
    version = fields.whole("version")
    if version != usm_runtime.VERSION:
        raise Unsupported(
            f"{whose} speaks version {version} of the SYCL USM array interface, and memlease "
            f"version {usm_runtime.VERSION}",
            "copy it to the host first, as by dpnp.asnumpy(source)",
        )
    if fields.required("syclobj") is None:
        raise fields.wrong("syclobj", None, "what names the memory's SYCL context")
    shape = fields.numbers("shape", lowest=0)
    dtype, strides, begin, first, size_bytes = _core.locate_usm(
        typestr=fields.text("typestr", "a text such as '<f4'"),
        shape=shape,
        strides=None if fields.get("strides") is None else fields.numbers("strides"),
        offset=0 if fields.get("offset") is None else fields.whole("offset", -(2**63)),
    )
    data = fields.required("data")
    if not isinstance(data, tuple | list) or len(data) != 2 or not is_whole(data[0]):
        raise fields.wrong("data", data, "(address, read-only)")
    address = operator.index(data[0]) + begin
    if size_bytes and not 0 < address <= 2**64 - size_bytes:
        raise fields.wrong("data", data, "(address, read-only), with an address of all elements")
    return UsmArray(
        dtype, shape, strides, address, first, size_bytes, bool(data[1]), fields.get("syclobj")
    )


def from_interface(interface: Any, producer: Any) -> tuple[str, Any]:
    """Take a source by its interface.

    Blocks until the queue that it names has done its work, and for a copy of what is in a device's
    memory. With a context alone there is nothing to wait for: the elements are ready.

    Parameters
    ----------
    interface : dict
        The producer's ``__sycl_usm_array_interface__``, which may be another one at each access.
    producer : object
        Kept as long as the elements.

    Returns
    -------
    dtype : str
    elements : numpy.ndarray
        Of dtype ``V<itemsize>``; over shared and host memory itself.

    Raises
    ------
    InvalidArgument
        The interface contradicts its own rules, or its context does not know its memory.
    Unsupported
        As `described`; there is no dpctl.
    """
    found = described(interface)
    if found.size_bytes == 0:
        itemsize = _core.itemsize(found.dtype)
        return found.dtype, require_numpy().empty(found.shape, f"V{itemsize}")
    memory = _memory_of(found, producer, "the source")
    memory.sycl_queue.wait()
    if memory.get_usm_type() == "device":
        return found.dtype, _elements_in(memory.copy_to_host(), found)
    return found.dtype, _elements_in(memory, found)


def elements_of(source: Any) -> Any:
    """Return a source in USM as a NumPy array of its own dtype, as `from_interface` does."""
    dtype, elements = from_interface(getattr(source, INTERFACE), source)
    return elements.view(numpy_dtype(dtype))


class Destination:
    """Something in USM that is to be filled.

    Blocks, once it is made, until the queue that `out` names has done its work.

    Attributes
    ----------
    elements : numpy.ndarray
        To be filled, of the dtype and shape of `out`; then `finish`.

    Raises
    ------
    InvalidArgument
        The interface contradicts its own rules, its context does not know its memory, or it is
        read-only.
    Unsupported
        As `described`; there is no dpctl; or device memory that is not in C order.
    """

    __slots__ = ("_device_memory", "elements")

    def __init__(self, out: Any) -> None:
        numpy = require_numpy()
        found = described(getattr(out, INTERFACE), "out")
        dtype = numpy_dtype(found.dtype)
        self._device_memory: Any = None
        self.elements = numpy.empty(found.shape, dtype)
        if found.size_bytes == 0:
            return
        if found.readonly and not usm_runtime.is_dpctl_memory(out):
            raise InvalidArgument("out is read-only", "give memory that may be written")
        memory = _memory_of(found, out, "out")
        memory.sycl_queue.wait()
        if memory.get_usm_type() != "device":
            self.elements = _elements_in(memory, found).view(dtype)
            return
        if found.strides != strides_of(found.shape, dtype.itemsize, "C"):
            raise Unsupported(
                "out is in a device's memory, and not in C order",
                "give one in C order, or of usm_type 'shared' or 'host'",
            )
        self._device_memory = memory

    def finish(self) -> None:
        """Bring the elements to where they belong; returns when they are there."""
        if self._device_memory is not None:
            self._device_memory.copy_from_host(self.elements.reshape(-1).view("u1"))


def _memory_of(found: UsmArray, owner: Any, whose: str) -> Any:
    queue = usm_runtime.queue_of(found.syclobj)
    memory = usm_runtime.find_memory(found.address, found.size_bytes, queue, owner)
    if memory is not None:
        return memory
    raise InvalidArgument(
        f"{whose}'s syclobj names a SYCL context that does not know its {found.size_bytes} bytes "
        f"at {found.address:#x} as USM",
        "give memory that was allocated in that context, as of dpctl.memory or dpnp; or copy it to "
        "the host first",
    )


def _elements_in(memory: Any, found: UsmArray) -> Any:
    numpy = require_numpy()
    itemsize = _core.itemsize(found.dtype)
    return numpy.ndarray(
        found.shape, f"V{itemsize}", buffer=memory, offset=found.first, strides=found.strides
    )
