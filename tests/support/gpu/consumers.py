"""Libraries that take GPU arrays of others, as far as their calls and their waits go.

Each replays what the library of its name asks for, in its order, and what it checks and waits for.
The results are used by the kernels of `Here`, on the stream that such a library would use.
On hardware the libraries themselves stand in for these, where they are installed.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import dlpack_structs
from fakecuda_build import IS_FAKE
from gpu_process import Here

LEGACY = 1
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLPack's device types


@dataclasses.dataclass
class View:
    """What a library has made of a producer."""

    here: Here
    address: int
    shape: tuple[int, ...]
    stream: int  # where it works
    owner: Any  # keeps what it was made from
    readonly: bool = False  # the library knows that it is

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
        self._check_writable()
        self.here.fill(self.address, self.count, value, self.stream)

    def add(self, value: int) -> None:
        """Change each element, on its stream."""
        self._check_writable()
        self.here.add(self.address, self.count, value, self.stream)

    def _check_writable(self) -> None:
        if self.readonly:
            raise ValueError("the library's array is read-only")


def _is_compact(shape: Sequence[int], strides: Sequence[int] | None) -> bool:
    """Tell whether elements stand side by side, in whichever order of the axes; no strides: yes."""
    axes = [(stride, extent) for extent, stride in zip(shape, strides or (), strict=False)]
    expected = 1
    for stride, extent in sorted(axis for axis in axes if axis[1] != 1):
        if stride != expected and 0 not in shape:
            return False
        expected *= extent
    return True


def _is_c_order(shape: Sequence[int], strides: Sequence[int] | None) -> bool:
    ordered = list(strides or ())
    return ordered == sorted(ordered, reverse=True) and _is_compact(shape, strides)


# ---- By __cuda_array_interface__.


def _exact(interface: dict[str, Any]) -> dict[str, Any]:
    """Take no subclass, as code of Cython with types does."""
    for value, kind in (
        (interface, dict),
        (interface["shape"], tuple),
        (interface["data"], tuple),
        (interface.get("strides"), tuple),
    ):
        if value is not None and type(value) is not kind:
            raise TypeError(f"Expected {kind.__name__}, got {type(value).__name__}")
    return interface


def _element_strides(interface: dict[str, Any]) -> list[int] | None:
    strides = interface.get("strides")
    itemsize = int(interface["typestr"][2:])
    return None if strides is None else [stride // itemsize for stride in strides]


def _view(
    here: Here, interface: dict[str, Any], stream: int, owner: Any, *, readonly: bool = False
) -> View:
    return View(here, interface["data"][0], interface["shape"], stream, owner, readonly)


def cupy_asarray(here: Here, producer: Any, stream: int) -> View:
    """Synchronise the host with the producer's stream; forget that it is read-only."""
    interface = _exact(producer.__cuda_array_interface__)
    if interface.get("mask") is not None:
        raise ValueError("CuPy does not support masks")
    theirs = interface.get("stream")
    if theirs is not None:
        here.synchronize(theirs)
    return _view(here, interface, stream, producer)


def torch_as_tensor(here: Here, producer: Any, stream: int) -> View:
    """Ignore the stream, and refuse what is read-only."""
    interface = _exact(producer.__cuda_array_interface__)
    if interface["data"][1]:
        raise TypeError("the read only flag is not supported, should always be False")
    itemsize = int(interface["typestr"][2:])
    if any(stride % itemsize for stride in interface.get("strides") or ()):
        raise ValueError("given strides not a multiple of the element byte size")
    return _view(here, interface, stream, producer)


def numba_as_cuda_array(here: Here, producer: Any, stream: int) -> View:
    """Synchronise, and make the producer's stream the array's own."""
    interface = producer.__cuda_array_interface__
    if interface["version"] >= 1 and interface.get("mask") is not None:
        raise NotImplementedError("Masked arrays are not supported")
    theirs = interface.get("stream")
    if theirs is not None:
        here.synchronize(theirs)
    return _view(here, interface, theirs or stream, producer)


def cuda_core_view(here: Here, producer: Any, stream: int) -> View:
    """Make its stream wait by an event; no way back."""
    interface = producer.__cuda_array_interface__
    if interface["version"] < 3:
        raise BufferError("only CUDA Array Interface v3 or above is supported")
    if interface.get("mask") is not None:
        raise BufferError("mask is not supported")
    theirs = interface["stream"]
    if theirs is not None:
        here.order(theirs, stream)
    return _view(here, interface, stream, producer, readonly=interface["data"][1])


def jax_array_of_interface(here: Here, producer: Any, stream: int) -> View:
    """Wait only for streams above 2, from version 3 on; keep no reference to the producer."""
    interface = producer.__cuda_array_interface__
    if not 2 <= interface["version"] <= 3:
        warnings.warn("CUDA Array Interface versions other than 2 and 3 are untested", stacklevel=2)
    if not _is_compact(interface["shape"], _element_strides(interface)):
        raise ValueError("only compact arrays are supported")
    theirs = interface["stream"] if interface["version"] < 2 else interface.get("stream")
    if theirs == 0:
        raise ValueError("stream must not be zero")
    if theirs is not None and theirs > 2:
        here.order(theirs, stream)
    return _view(here, interface, stream, None)


def rmm_copy_from_device(here: Here, producer: Any, stream: int) -> View:
    """Ignore version and stream; take one axis of elements that stand side by side."""
    interface = producer.__cuda_array_interface__
    if len(interface["shape"]) > 1 or not _is_c_order(
        interface["shape"], _element_strides(interface)
    ):
        raise ValueError("only 1-D contiguous arrays are supported")
    return _view(here, interface, stream, producer)


def arrow_buffer_from_object(here: Here, producer: Any, stream: int) -> View:
    """Ignore version and stream; take what stands side by side."""
    interface = producer.__cuda_array_interface__
    if not _is_c_order(interface["shape"], _element_strides(interface)):
        raise ValueError("only contiguous arrays are supported")
    return _view(here, interface, stream, producer)


def mpi4py_buffer_of_interface(here: Here, producer: Any, stream: int) -> View:
    """Ignore version and stream; warn of what describes the elements twice."""
    interface = _exact(producer.__cuda_array_interface__)
    if interface.get("mask") is not None:
        raise BufferError("cannot handle masked arrays")
    if interface.get("descr", [("", interface["typestr"])]) != [("", interface["typestr"])]:
        warnings.warn("ignoring 'descr'", RuntimeWarning, stacklevel=2)
    if not _is_c_order(interface["shape"], _element_strides(interface)):
        raise BufferError("buffer is not contiguous")
    return _view(here, interface, stream, producer, readonly=interface["data"][1])


# ---- By DLPack.


def _taken(capsule: Any, names: tuple[bytes, ...] = dlpack_structs.NAMES) -> Any:
    """Return the struct in the capsule, if it has one of the names and is not too new."""
    if dlpack_structs.get_name(capsule) not in names:
        raise ValueError(f"the capsule is no {' or '.join(map(bytes.decode, names))}")
    managed = dlpack_structs.look(capsule)
    if getattr(managed, "major", 1) > 1:
        raise BufferError("DLPack's major version is too new")
    return managed


def _made_of(
    here: Here, managed: Any, capsule: Any, stream: int, *, ignore_offset: bool = False
) -> View:
    """Take the tensor over."""
    tensor = managed.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    address = (tensor.data or 0) + (0 if ignore_offset else tensor.byte_offset)
    return View(here, address, shape, stream, dlpack_structs.Used(capsule))


def _flagged(view: View, managed: Any) -> View:
    """Make it read-only if it says so."""
    readonly = bool(getattr(managed, "flags", 0) & dlpack_structs.READ_ONLY)
    return dataclasses.replace(view, readonly=readonly)


def torch_from_dlpack(here: Here, producer: Any, stream: int) -> View:
    """Pass the current stream, 1 if that is the default one; after a TypeError drop the version.

    The read-only flag is ignored.
    """
    device, _ = producer.__dlpack_device__()
    if device not in (CPU, CUDA):
        raise BufferError(f"unsupported device_type: {device}")
    given = {"stream": LEGACY if stream == 0 else stream} if device == CUDA else {}
    try:
        capsule = producer.__dlpack__(**given, max_version=(1, 0))
    except TypeError:
        capsule = producer.__dlpack__(**given)
    return _made_of(here, _taken(capsule), capsule, stream)


def cupy_from_dlpack(here: Here, producer: Any, stream: int) -> View:
    """Refuse what is on the host; ignore the read-only flag."""
    device, _ = producer.__dlpack_device__()
    if device not in (CUDA, CUDA_MANAGED):
        raise TypeError("device is not supported")
    try:
        capsule = producer.__dlpack__(stream=stream, max_version=(1, 0), copy=None)
    except TypeError:
        capsule = producer.__dlpack__(stream=stream)
    return _made_of(here, _taken(capsule), capsule, stream)


def jax_from_dlpack(here: Here, producer: Any, stream: int) -> View:
    """Pass the stream alone, and so take only the form without a version."""
    device, _ = producer.__dlpack_device__()
    if device not in (CPU, CUDA, CUDA_HOST):
        raise ValueError(f"array is on an unsupported device: {device}")
    capsule = producer.__dlpack__(stream=stream if device == CUDA else None)
    managed = _taken(capsule, (b"dltensor",))
    tensor = managed.tensor
    strides = tensor.strides[: tensor.ndim] if tensor.strides else None
    if not _is_compact(tensor.shape[: tensor.ndim], strides):
        raise ValueError("only compact arrays are supported")
    return _made_of(here, managed, capsule, stream)


def numba_kernel_argument(here: Here, producer: Any, stream: int) -> View:
    """Ask twice: for the type, without an order, and for the launch.

    Only what has no DLPack is taken by its CUDA array interface; then host and stream wait.
    """
    if not hasattr(producer, "__dlpack__"):
        view = cuda_core_view(here, producer, stream)
        here.synchronize(stream)
        return view
    typing = producer.__dlpack__(stream=-1, max_version=(1, 0))
    del typing
    return cuda_core_dlpack(here, producer, stream)


def cuda_core_dlpack(here: Here, producer: Any, stream: int) -> View:
    """As StridedMemoryView.from_dlpack: keep the flag, ignore major version and offset."""
    device, _ = producer.__dlpack_device__()
    if device not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        raise BufferError("device not supported")
    try:
        capsule = producer.__dlpack__(stream=stream or None, max_version=(1, 0))
    except TypeError:
        capsule = producer.__dlpack__(stream=stream or None)
    managed = dlpack_structs.look(capsule)
    return _flagged(_made_of(here, managed, capsule, stream, ignore_offset=True), managed)


def nanobind_reads(here: Here, producer: Any, stream: int) -> View:
    """Ask with nothing, then for a version; so work on the legacy stream."""
    method = type(producer).__dlpack__
    try:
        capsule = method(producer)
    except (BufferError, TypeError):
        capsule = method(producer, max_version=(1, 1))
    managed = _taken(capsule)
    return dataclasses.replace(_made_of(here, managed, capsule, LEGACY), readonly=True)


def nanobind_writes(here: Here, producer: Any, stream: int) -> View:
    """Ask for a version, then with nothing, and refuse what is read-only."""
    method = type(producer).__dlpack__
    try:
        capsule = method(producer, max_version=(1, 1))
    except (BufferError, TypeError):
        capsule = method(producer)
    managed = _taken(capsule)
    view = _flagged(_made_of(here, managed, capsule, LEGACY), managed)
    if view.readonly:
        raise TypeError("incompatible function arguments")
    return view


def mpi4py_buffer(here: Here, producer: Any, stream: int) -> View:
    """Ask for no order; hold the capsule, never rename it, and let it free its tensor."""
    capsule = producer.__dlpack__(stream=-1, max_version=(1, 0), copy=False)
    managed = _taken(capsule, (b"dltensor_versioned",))
    tensor = managed.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    if not _is_c_order(shape, tensor.strides[: tensor.ndim] if tensor.strides else None):
        raise BufferError("buffer is not contiguous")
    address = (tensor.data or 0) + tensor.byte_offset
    return _flagged(View(here, address, shape, stream, capsule), managed)


def tvm_ffi_from_dlpack(here: Here, producer: Any, stream: int) -> View:
    """Use the C exchange table if there is one, else ask with nothing."""
    if hasattr(type(producer), "__dlpack_c_exchange_api__"):
        raise NotImplementedError("the table comes first, and no such producer is tested")
    capsule = producer.__dlpack__()
    return _made_of(here, _taken(capsule, (b"dltensor",)), capsule, LEGACY)


if not IS_FAKE:
    import real_consumers  # which has View from here

    globals().update(real_consumers.installed())
