"""A stand-in for dpctl: contexts that know the memory which a test says they know.

It takes the place of the module, so that what memlease does with a SYCL runtime can be seen where
none is installed. Its memory is the host's, of whatever kind it is called.
"""

import ctypes
from types import ModuleType
from typing import Any

import numpy as np


class SyclQueueCreationError(Exception):
    pass


class SyclContextCreationError(Exception):
    pass


class USMAllocationError(Exception):
    pass


class SyclContext:
    def __init__(self) -> None:
        self.known: list[tuple[int, int, str]] = []  # address, bytes, kind

    def know(self, array: np.ndarray, kind: str = "shared") -> None:
        """Take all of an array's memory for USM from now on."""
        base = array.ctypes.data
        axes = zip(array.shape, array.strides, strict=True)
        ends = [(extent - 1) * stride for extent, stride in axes]
        low = base + sum(end for end in ends if end < 0)
        high = base + sum(end for end in ends if end > 0) + array.itemsize
        self.known.append((low, high - low, kind))

    def kind_of(self, address: int) -> str | None:
        found = (kind for low, size, kind in self.known if low <= address < low + size)
        return next(found, None)

    def get_devices(self) -> list[str]:
        return ["a device"]


class SyclQueue:
    def __init__(self, context: SyclContext | None = None, device: str | None = None) -> None:
        self.sycl_context = context or SyclContext()
        self.log: list[str] = []
        self.when_waited: Any = None  # called by a wait, as what a kernel does meanwhile

    def wait(self) -> None:
        self.log.append("wait")
        if self.when_waited is not None:
            self.when_waited()


class Memory(np.ndarray):
    """Bytes, which have what dpctl's memory has."""

    sycl_queue: SyclQueue
    kind: str
    owner: Any

    @classmethod
    def at(cls, address: int, size: int, queue: SyclQueue, kind: str, owner: Any) -> "Memory":
        bytes_ = (ctypes.c_char * size).from_address(address)
        memory = np.ndarray.__new__(cls, size, "u1", bytes_)  # NumPy's views keep it itself
        memory.sycl_queue, memory.kind, memory.owner = queue, kind, owner
        return memory

    def __array_finalize__(self, other: Any) -> None:
        for name in ("sycl_queue", "kind", "owner"):
            if hasattr(other, name):
                setattr(self, name, getattr(other, name))

    @property
    def _pointer(self) -> int:
        return self.ctypes.data

    def get_usm_type(self) -> str:
        return self.kind

    def copy_to_host(self) -> np.ndarray:
        self.sycl_queue.log.append("copy_to_host")
        return np.array(self)

    def copy_from_host(self, source: np.ndarray) -> None:
        self.sycl_queue.log.append("copy_from_host")
        self[:] = source


def _allocating(kind: str) -> type:
    class Allocation(Memory):
        def __new__(cls, size: int, queue: SyclQueue) -> "Allocation":
            if size > 2**32:
                raise USMAllocationError("USM allocation failed")
            made = np.zeros(size, "u1")
            queue.sycl_context.know(made, kind)
            return cls.at(made.ctypes.data, size, queue, kind, made)  # type: ignore[return-value]

        @property
        def __sycl_usm_array_interface__(self) -> dict[str, Any]:
            fields = {"version": 1, "typestr": "|u1", "shape": self.shape, "strides": None}
            # True for what may be written, as dpctl's has it.
            return {**fields, "data": (self._pointer, True), "syclobj": self.sycl_queue}

    return Allocation


def as_usm_memory(described: Any) -> Memory:
    """Refuse as dpctl does what the context of `syclobj` does not know."""
    fields = described.__sycl_usm_array_interface__
    assert (fields["version"], fields["typestr"]) == (1, "|u1")
    address, (size,), queue = fields["data"][0], fields["shape"], fields["syclobj"]
    kind = queue.sycl_context.kind_of(address)
    if kind is None:
        raise ValueError(f"the pointer {address:#x} is not bound to SyclContext")
    return Memory.at(address, size, queue, kind, described)


def modules() -> dict[str, ModuleType]:
    """Return what goes into ``sys.modules``."""
    dpctl, memory = ModuleType("dpctl"), ModuleType("dpctl.memory")
    for it in (SyclQueue, SyclContext, SyclQueueCreationError, SyclContextCreationError):
        setattr(dpctl, it.__name__, it)
    for kind in ("shared", "host", "device"):
        setattr(memory, f"MemoryUSM{kind.capitalize()}", _allocating(kind))
    memory.as_usm_memory = as_usm_memory  # type: ignore[attr-defined]
    memory.USMAllocationError = USMAllocationError  # type: ignore[attr-defined]
    dpctl.memory = memory  # type: ignore[attr-defined]
    return {"dpctl": dpctl, "dpctl.memory": memory}


class Described:
    """A producer with an interface of the test's choosing; its `base` is kept by it alone."""

    def __init__(self, interface: Any, base: Any = None) -> None:
        self.__sycl_usm_array_interface__ = interface
        self.base = base


def interface(**changes: Any) -> dict[str, Any]:
    """Make one of six float32 at an address that nobody knows; ``...`` leaves a field out."""
    fields = {"version": 1, "typestr": "<f4", "shape": (2, 3), "strides": None}
    fields |= {"data": (4096, False), "offset": 0, "syclobj": "cpu"} | changes
    return {key: value for key, value in fields.items() if value is not ...}


def describe(array: np.ndarray, syclobj: Any, **changes: Any) -> Described:
    """Describe a NumPy array as memory of USM, whose `data` is its first element."""
    fields = {
        "version": 1,
        "typestr": array.dtype.str,
        "shape": array.shape,
        "strides": tuple(stride // array.itemsize for stride in array.strides),
        "data": (array.ctypes.data, not array.flags.writeable),
        "offset": 0,
        "syclobj": syclobj,
    }
    return Described({**fields, **changes}, array)
