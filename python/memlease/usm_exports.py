"""Leases for consumers of ``__sycl_usm_array_interface__``: what `ReadLease.sycl_usm` returns."""

import os
from typing import Any

from memlease import _core, usm_runtime
from memlease.dtypes import require_numpy
from memlease.errors import Unsupported

_CUDA = 2  # DLPack's word for a GPU


class UsmExport:
    """Elements of a lease in memory that a SYCL context knows.

    Attributes
    ----------
    copied : bool
        They are a copy, which lives as long as this object and belongs to whoever has it.
        Otherwise they are the lease's own: this object keeps the slot, and waits for the queue when
        it dies.
    usm_type : {"shared", "host", "device"}
        Of the memory.
    sycl_queue : dpctl.SyclQueue
        That the interface names.
    """

    __slots__ = ("__weakref__", "_interface", "_keeps", "_pid", "copied", "sycl_queue", "usm_type")

    def __init__(
        self,
        interface: dict[str, Any],
        *,
        queue: Any,
        usm_type: str,
        copied: bool,
        keeps: Any,
    ) -> None:
        self._interface = {"version": usm_runtime.VERSION, "syclobj": queue, **interface}
        self._keeps = keeps
        self._pid = os.getpid()
        self.copied = copied
        self.sycl_queue = queue
        self.usm_type = usm_type

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        """SYCL USM array interface, version 1. A new dict at each access; it keeps nothing."""
        return dict(self._interface)

    def __del__(self) -> None:
        """Wait for the queue, so that it is done with the slot before a writer gets that.

        A forked child has no queue.
        """
        if not getattr(self, "copied", True) and self._pid == os.getpid():
            self.sycl_queue.wait()


def export(
    lease: Any, strides: tuple[int, ...], syclobj: Any, usm_type: str, copy: bool | None
) -> UsmExport:
    """Carry `ReadLease.sycl_usm` out; `strides` are the array's, in bytes."""
    if copy is not None and not isinstance(copy, bool):
        raise TypeError(f"copy={copy!r}: give None, True or False")
    typestr, in_elements = _core.describe_usm(
        dtype=lease.dtype_name, shape=lease.shape, strides_bytes=strides
    )
    size_bytes = _core.locate_usm(
        typestr=typestr, shape=lease.shape, strides=in_elements, offset=0
    )[-1]
    queue = usm_runtime.queue_of(syclobj)
    if size_bytes == 0 and copy is False:
        raise Unsupported(
            "the lease has no elements, and so no memory that the SYCL context could know",
            "leave copy=False out; for an array on a GPU: array.on('host').read().sycl_usm(queue)",
        )
    if lease.__dlpack_device__()[0] == _CUDA:
        fields = {"typestr": typestr, "shape": lease.shape, "strides": in_elements, "offset": 0}
        return _export_of_gpu(lease, fields, size_bytes, queue)
    elements = require_numpy().asarray(lease.memoryview())
    fields = {"typestr": typestr, "shape": lease.shape, "strides": in_elements, "offset": 0}
    if copy is not True and size_bytes > 0:
        address = elements.__array_interface__["data"][0]
        known = usm_runtime.find_memory(address, size_bytes, queue, None)
        if known is not None:
            return UsmExport(
                {**fields, "data": (address, not elements.flags.writeable)},
                queue=queue,
                usm_type=known.get_usm_type(),
                copied=False,
                keeps=elements,
            )
    _require_copy(copy, elements.flags.writeable)
    memory = usm_runtime.allocate(usm_type, max(size_bytes, 1), queue)
    _fill(memory, elements, strides, size_bytes, on_device=usm_type == "device")
    return UsmExport(
        {**fields, "data": (getattr(memory, usm_runtime.INTERFACE)["data"][0], False)},
        queue=queue,
        usm_type=usm_type,
        copied=True,
        keeps=memory,
    )


def _export_of_gpu(lease: Any, fields: dict[str, Any], size_bytes: int, queue: Any) -> UsmExport:
    """Give a read lease's memory on a GPU to a context that knows it.

    The unused capsule keeps the slot; the address is asked for when the version is complete.
    """
    keeps = lease.__dlpack__(stream=-1, max_version=(1, 0))
    interface = lease.cuda_array(host_wait=True).__cuda_array_interface__
    address = interface["data"][0]
    known = usm_runtime.find_memory(address, size_bytes, queue, None)
    if known is None:
        raise Unsupported(
            "the SYCL context does not know the lease's memory, which CUDA shares between "
            "processes, as USM",
            "give a queue of SYCL's CUDA backend on that GPU; or read it on the host: "
            "array.on('host').read().sycl_usm(queue)",
        )
    return UsmExport(
        {**fields, "data": (address, True)},
        queue=queue,
        usm_type=known.get_usm_type(),
        copied=False,
        keeps=keeps,
    )


def _require_copy(copy: bool | None, writes: bool) -> None:
    if copy or (copy is None and not writes):
        return
    what = "the lease's memory is shared between processes, and the SYCL context does not know it"
    if writes:
        raise Unsupported(
            f"{what} as USM; a copy would not change the version",
            "fill the lease by lease[...] = x, or array.put(x), with an x in USM",
        )
    raise Unsupported(f"{what} as USM", "leave copy=False out, or array.get(out=x), x in USM")


def _fill(
    memory: Any, elements: Any, strides: tuple[int, ...], size_bytes: int, on_device: bool
) -> None:
    """Copy into memory of that size, at the elements' strides; complete when it returns."""
    if size_bytes == 0:
        return
    numpy = require_numpy()
    staging = numpy.zeros(size_bytes, "u1") if on_device else memory
    target = numpy.ndarray(elements.shape, elements.dtype, buffer=staging, strides=strides)
    numpy.copyto(target, elements)
    if on_device:
        memory.copy_from_host(staging)
