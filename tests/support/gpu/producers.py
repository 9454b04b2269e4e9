"""Libraries whose GPU arrays memlease takes, as far as what they export and how they wait goes.

Each replays what arrays of the library of its name answer to ``__dlpack__`` and have as
``__cuda_array_interface__``. Their memory is the stand-in's, and their work is that of a kernel on
`stream`, the current stream of such a library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, ClassVar

from dlpack_structs import NAMES, DLTensor, Unversioned, Versioned, get_name, new_capsule
from gpu_process import Here

LEGACY, PER_THREAD = 1, 2
CUDA = 2  # DLPack's kDLCUDA

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Exported:
    """A tensor in a capsule, which lives until its deleter has run."""

    _alive: ClassVar[set[Exported]] = set()

    def __init__(
        self,
        tensor: DLTensor,
        *,
        versioned: bool,
        major: int = 1,
        with_deleter: bool = True,
        on_delete: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_delete = on_delete
        self._deleter = _Deleter(self._delete)
        kind = Versioned if versioned else Unversioned
        self.managed = kind(tensor=tensor)
        if versioned:
            self.managed.major, self.managed.minor = major, 0
        if with_deleter:
            self.managed.deleter = ctypes.cast(self._deleter, ctypes.c_void_p).value
        self._alive.add(self)
        self.capsule = new_capsule(self.managed, NAMES[versioned])

    def _delete(self, _address: int) -> None:
        self._alive.discard(self)
        self._on_delete()


class Library:
    """Memory of a library's on a GPU, and the stream that it works on."""

    code, bits, typestr, itemsize = 1, 64, "<u8", 8

    def __init__(self, here: Here, count: int, stream: int = LEGACY, device: int = 0) -> None:
        self.here, self.stream, self.device = here, stream, device
        self.shape: tuple[int, ...] = (count,)
        self.strides: tuple[int, ...] | None = None  # in bytes
        self.offset = 0
        self.asked: list[dict[str, Any]] = []  # the arguments of each __dlpack__
        self.deleted = 0
        made = ctypes.c_void_p()
        here.call("cudaSetDevice", device)
        here.call("cudaMalloc", ctypes.byref(made), ctypes.c_size_t(max(count, 1) * self.itemsize))
        here.call("cudaSetDevice", 0)
        self.address = made.value or 0

    @property
    def count(self) -> int:
        """Number of elements that the kernel works on."""
        return self.shape[0] * (1 if len(self.shape) == 1 else self.shape[1])

    def fill(self, value: int) -> None:
        """Set each element, on the library's stream."""
        self.here.fill(self.address, self.count * self.itemsize // 8, value, self.stream)

    def free(self) -> None:
        """Give the memory back, which waits for all streams."""
        self.here.call("cudaFree", ctypes.c_void_p(self.address))

    def wait_for_us(self, stream: int) -> None:
        """Make a consumer's stream wait for the library's own."""
        if stream != self.stream:
            self.here.order(self.stream, stream)

    def tensor(self) -> DLTensor:
        """Describe it as DLPack does."""
        axes = len(self.shape)
        strides = None
        if self.strides is not None:
            in_elements = [stride // self.itemsize for stride in self.strides]
            strides = (ctypes.c_int64 * axes)(*in_elements)
        shape = (ctypes.c_int64 * axes)(*self.shape)
        return DLTensor(
            self.address or None,
            CUDA,
            self.device,
            axes,
            self.code,
            self.bits,
            1,
            shape,
            strides,
            self.offset,
        )

    def exported(self, *, versioned: bool) -> Any:
        """Return a capsule, whose deleter is counted."""
        return Exported(self.tensor(), versioned=versioned, on_delete=self._count).capsule

    def _count(self) -> None:
        self.deleted += 1

    def described(self, version: int, readonly: bool = False) -> dict[str, Any]:
        """Describe it as the CUDA array interface does, without a stream."""
        return {
            "shape": self.shape,
            "typestr": self.typestr,
            "data": (self.address, readonly),
            "strides": self.strides,
            "version": version,
        }


class ByDLPack(Library):
    """Has ``__dlpack__``; what is missing here differs between libraries."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device


class TorchInterface(Library):
    """PyTorch before DLPack: version 2, which names no stream."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.described(version=2)


class Torch(TorchInterface, ByDLPack):
    """PyTorch: by default no order at all, and no order on the thread's default stream."""

    def __dlpack__(
        self,
        *,
        stream: int | None = -1,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self.asked.append({"stream": stream, "max_version": max_version})
        if stream is not None and type(stream) is not int:
            raise TypeError("stream must be int or none")
        if stream == PER_THREAD:
            raise BufferError("per-thread default stream is not supported.")
        if stream != -1:
            self.wait_for_us(stream or LEGACY)
        return self.exported(versioned=max_version is not None and max_version[0] >= 1)


class CuPyInterface(Library):
    """CuPy before DLPack: version 3, with its current stream."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.described(version=3), "stream": self.stream}


class CuPy(CuPyInterface, ByDLPack):
    """CuPy: all arguments."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self.asked.append({"stream": stream, "max_version": max_version})
        if stream != -1:
            self.wait_for_us(stream or LEGACY)
        return self.exported(versioned=max_version is not None and max_version[0] >= 1)


class Jax(ByDLPack):
    """JAX: the stream alone, and the form without a version."""

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        self.asked.append({"stream": stream})
        if stream != -1:
            self.wait_for_us(stream or LEGACY)
        return self.exported(versioned=False)


class JaxInterface(Library):
    """JAX: version 2 and read-only; who asks waits until the array is complete."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self.here.synchronize(self.stream)
        return self.described(version=2, readonly=True)


class Numba(Library):
    """Numba: version 3, whose stream is None unless the array has one of its own."""

    has_stream = True

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.described(version=3), "stream": self.stream if self.has_stream else None}


class Rmm(Library):
    """RMM's DeviceBuffer: version 0, bytes."""

    code, bits, typestr, itemsize = 1, 8, "|u1", 1

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.described(version=0)


class CudaCore(ByDLPack):
    """cuda.core's StridedMemoryView, and nanobind's arrays: take a stream, and do nothing."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self.asked.append({"stream": stream, "max_version": max_version})
        return self.exported(versioned=max_version is not None)


class Described(Library):
    """An interface of the test's choosing, over the library's memory."""

    changes: dict[str, Any]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = {**self.described(version=3), "stream": self.stream, **self.changes}
        return {key: value for key, value in interface.items() if value is not ...}


class Handed(ByDLPack):
    """A capsule of the test's choosing."""

    capsule: Any

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        return self.capsule

    def is_untouched(self) -> bool:
        """Tell whether nobody has taken the tensor over."""
        return get_name(self.capsule) in NAMES
