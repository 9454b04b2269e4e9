"""The SYCL runtime of this process, by dpctl, which memlease itself does not depend on.

Nothing of SYCL is loaded before something is in USM, or is wanted there.
"""

import importlib
from typing import Any

from memlease.errors import InvalidArgument, OutOfMemory, Unsupported

INTERFACE = "__sycl_usm_array_interface__"
VERSION = 1

_FORMS = (
    "give a dpctl.SyclQueue or dpctl.SyclContext, a capsule 'SyclQueueRef' or 'SyclContextRef' "
    "that is not used yet, an object with _get_capsule(), or a filter string that selects a "
    "device, such as 'opencl:cpu'"
)


class _Bytes:
    """Bytes at an address, described as dpctl wants them; keeps what they belong to."""

    __slots__ = (INTERFACE, "owner")

    def __init__(self, address: int, size_bytes: int, syclobj: Any, owner: Any) -> None:
        self.owner = owner
        fields = {
            "version": VERSION,
            "typestr": "|u1",
            "shape": (size_bytes,),
            "data": (address, False),
            "syclobj": syclobj,
        }
        setattr(self, INTERFACE, fields)


def require_dpctl() -> Any:
    """Import dpctl, with its memory."""
    try:
        importlib.import_module("dpctl.memory")
        return importlib.import_module("dpctl")
    except ImportError as error:
        raise Unsupported(
            f"USM needs dpctl, and it cannot be imported: {error}",
            "pip install dpctl; or copy to the host first, as by dpnp.asnumpy(source)",
        ) from error


def queue_of(syclobj: Any) -> Any:
    """Return a ``dpctl.SyclQueue`` of what the interface calls `syclobj`.

    A queue is returned itself, and a capsule's queue is the same one to SYCL. For a context it is a
    new queue, on its first device. A capsule is used up.

    Raises
    ------
    InvalidArgument
        It is none of the interface's forms, or selects no device.
    """
    dpctl = require_dpctl()
    if isinstance(syclobj, dpctl.SyclQueue):
        return syclobj
    if hasattr(syclobj, "_get_capsule") and not isinstance(syclobj, dpctl.SyclContext):
        syclobj = syclobj._get_capsule()
    creation_errors = (dpctl.SyclQueueCreationError, dpctl.SyclContextCreationError)
    try:
        if isinstance(syclobj, str) or _is_capsule(syclobj, "SyclQueueRef"):
            return dpctl.SyclQueue(syclobj)
        if _is_capsule(syclobj, "SyclContextRef"):
            syclobj = dpctl.SyclContext(syclobj)
        if isinstance(syclobj, dpctl.SyclContext):
            return dpctl.SyclQueue(syclobj, syclobj.get_devices()[0])
    except (ValueError, TypeError, *creation_errors) as error:
        raise InvalidArgument(f"syclobj={syclobj!r} gives no queue: {error}", _FORMS) from error
    raise InvalidArgument(f"syclobj={syclobj!r} names no SYCL context", _FORMS)


def _is_capsule(value: Any, name: str) -> bool:
    """Tell by what Python says of capsules: it has no other word for their names."""
    return type(value).__name__ == "PyCapsule" and repr(value).startswith(
        f'<capsule object "{name}" '
    )


def find_memory(address: int, size_bytes: int, queue: Any, owner: Any) -> Any | None:
    """Return bytes as a ``dpctl.memory`` that keeps `owner`; None if SYCL does not know them.

    Parameters
    ----------
    address : int
    size_bytes : int
        Above 0. SYCL is asked for the first byte and the last.
    queue : dpctl.SyclQueue
        Of the context that must know them.
    owner : object
    """
    dpctl = require_dpctl()
    try:
        dpctl.memory.as_usm_memory(_Bytes(address + size_bytes - 1, 1, queue, None))
        return dpctl.memory.as_usm_memory(_Bytes(address, size_bytes, queue, owner))
    except ValueError:  # how dpctl says that the context does not know them
        return None


def allocate(usm_type: str, size_bytes: int, queue: Any) -> Any:
    """Return new bytes of a kind, uninitialised, as a ``dpctl.memory``; `OutOfMemory`."""
    memory = require_dpctl().memory
    kinds = {
        "shared": memory.MemoryUSMShared,
        "host": memory.MemoryUSMHost,
        "device": memory.MemoryUSMDevice,
    }
    if usm_type not in kinds:
        raise InvalidArgument(
            f"usm_type={usm_type!r} is not known", "give 'shared', 'host' or 'device'"
        )
    try:
        return kinds[usm_type](size_bytes, queue=queue)
    except memory.USMAllocationError as error:
        raise OutOfMemory(
            f"SYCL has no {size_bytes} bytes of USM {usm_type} memory: {error}",
            "free some, or take another usm_type",
        ) from error


def is_dpctl_memory(value: Any) -> bool:
    """Tell whether it is memory of dpctl's own, which is writable whatever its interface says.

    ``dpctl.memory`` says True where the interface's document has True for what is read-only.
    """
    memory = require_dpctl().memory
    kinds = (memory.MemoryUSMShared, memory.MemoryUSMHost, memory.MemoryUSMDevice)
    return isinstance(value, kinds)
