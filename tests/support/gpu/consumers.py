"""Libraries that take GPU arrays of others, as far as their calls and their waits go.

Each replays what the library of its name asks for, in its order, and what it checks and waits for.
The results are used by the kernels of `Here`, on the stream that such a library would use.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import dlpack_structs
from gpu_process import Here

LEGACY = 1
CUDA = 2  # DLPack's kDLCUDA


@dataclasses.dataclass
class View:
    """What a library has made of a producer."""

    here: Here
    address: int
    shape: tuple[int, ...]
    stream: int  # where it works
    owner: Any  # keeps what it was made from

    @property
    def count(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def look(self, expected: int) -> None:
        """Compare each element, on its stream."""
        self.here.look(self.address, self.count, expected, self.stream)

    def fill(self, value: int) -> None:
        """Set each element, on its stream."""
        self.here.fill(self.address, self.count, value, self.stream)

    def add(self, value: int) -> None:
        """Change each element, on its stream."""
        self.here.add(self.address, self.count, value, self.stream)


# ---- By __cuda_array_interface__.


def _described(producer: Any) -> dict[str, Any]:
    interface = producer.__cuda_array_interface__
    assert type(interface) is dict
    assert type(interface["shape"]) is tuple
    assert type(interface["data"]) is tuple
    return interface


def cupy_asarray(here: Here, producer: Any, stream: int) -> View:
    """Synchronise the host with the producer's stream; forget that it is read-only."""
    interface = _described(producer)
    if interface.get("mask") is not None:
        raise ValueError("CuPy does not support masks")
    theirs = interface.get("stream")
    if theirs is not None:
        here.synchronize(theirs)
    return View(here, interface["data"][0], interface["shape"], stream, producer)


def torch_as_tensor(here: Here, producer: Any, stream: int) -> View:
    """Ignore the stream, and refuse what is read-only."""
    interface = _described(producer)
    address, readonly = interface["data"]
    if readonly:
        raise TypeError("the read only flag is not supported, should always be False")
    itemsize = int(interface["typestr"][2:])
    if any(stride % itemsize for stride in interface.get("strides") or ()):
        raise ValueError("given strides not a multiple of the element byte size")
    return View(here, address, interface["shape"], stream, producer)


def numba_as_cuda_array(here: Here, producer: Any, stream: int) -> View:
    """Synchronise, and make the producer's stream the array's own."""
    interface = _described(producer)
    if interface["version"] >= 1 and interface.get("mask") is not None:
        raise NotImplementedError("Masked arrays are not supported")
    theirs = interface.get("stream")
    if theirs is not None:
        here.synchronize(theirs)
    return View(here, interface["data"][0], interface["shape"], theirs or stream, producer)


def cuda_core_view(here: Here, producer: Any, stream: int) -> View:
    """Make its stream wait by an event; no way back."""
    interface = _described(producer)
    if interface["version"] < 3:
        raise BufferError("only CUDA Array Interface v3 or above is supported")
    if interface.get("mask") is not None:
        raise BufferError("mask is not supported")
    theirs = interface["stream"]
    if theirs is not None:
        here.order(theirs, stream)
    return View(here, interface["data"][0], interface["shape"], stream, producer)


def jax_array_of_interface(here: Here, producer: Any, stream: int) -> View:
    """Wait only for streams above 2; keep no reference to the producer."""
    interface = _described(producer)
    assert interface["strides"] is None
    theirs = interface["stream"] if interface["version"] < 2 else interface.get("stream")
    if theirs == 0:
        raise ValueError("stream must not be zero")
    if theirs is not None and theirs > 2:
        here.order(theirs, stream)
    return View(here, interface["data"][0], interface["shape"], stream, None)


# ---- By DLPack.


def _taken(here: Here, capsule: Any, stream: int, owner: Any = None) -> View:
    tensor = dlpack_structs.look(capsule).tensor
    assert tensor.device_type == CUDA
    shape = tuple(tensor.shape[: tensor.ndim])
    return View(here, tensor.data or 0, shape, stream, (owner, dlpack_structs.Used(capsule)))


def torch_from_dlpack(here: Here, producer: Any, stream: int) -> View:
    """Pass the current stream, 1 if that is the default one; after a TypeError drop the version."""
    device, _ = producer.__dlpack_device__()
    assert device == CUDA
    given = LEGACY if stream == 0 else stream
    try:
        capsule = producer.__dlpack__(stream=given, max_version=(1, 0))
    except TypeError:
        capsule = producer.__dlpack__(stream=given)
    return _taken(here, capsule, stream)


def cupy_from_dlpack(here: Here, producer: Any, stream: int) -> View:
    """Refuse what is on the host."""
    device, _ = producer.__dlpack_device__()
    if device not in (2, 13):
        raise TypeError("device is not supported")
    try:
        capsule = producer.__dlpack__(stream=stream, max_version=(1, 0), copy=None)
    except TypeError:
        capsule = producer.__dlpack__(stream=stream)
    return _taken(here, capsule, stream)


def jax_from_dlpack(here: Here, producer: Any, stream: int) -> View:
    """Pass the stream alone, and so take only the form without a version."""
    device, _ = producer.__dlpack_device__()
    assert device == CUDA
    capsule = producer.__dlpack__(stream=stream)
    assert dlpack_structs.get_name(capsule) == b"dltensor"
    return _taken(here, capsule, stream)


def numba_kernel_argument(here: Here, producer: Any, stream: int) -> View:
    """Ask twice: for the type, without an order, and for the launch."""
    typing = producer.__dlpack__(stream=-1, max_version=(1, 0))
    del typing
    capsule = producer.__dlpack__(stream=stream or None, max_version=(1, 0))
    return _taken(here, capsule, stream)


def cuda_core_dlpack(here: Here, producer: Any, stream: int) -> View:
    """As StridedMemoryView.from_dlpack."""
    capsule = producer.__dlpack__(stream=stream, max_version=(1, 0))
    return _taken(here, capsule, stream)
