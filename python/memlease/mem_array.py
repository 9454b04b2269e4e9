"""`MemArray`: an array of one's own that moves between the host and GPUs."""

import itertools
import math
import os
import sys
from numbers import Integral
from typing import TYPE_CHECKING, Any, Never

from memlease import _core
from memlease.arguments import small_number
from memlease.array import Array
from memlease.client import Client, connect
from memlease.closing import Closing
from memlease.conversions import Casting
from memlease.devices import TorchDevice, device_name
from memlease.dtypes import dtype_name
from memlease.errors import InvalidArgument
from memlease.filling import withdrawn_after_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

# DLPack's device types, by which others name devices.
_HOST, _CUDA = 1, 2

_made = itertools.count(1)

_SMALLEST_WITHOUT_ZERO = {"float8_e8m0fnu": 2.0**-127}  # whose bytes are 0


class MemArray(Closing):
    """An array of zeros that moves between the host and GPUs, and that other processes may open.

    Of zero bytes, rather: the number that these are of ``float8_e8m0fnu`` is 2^-127.

    A face of `Array`, with a place where it is: what is not told otherwise happens there. Closing
    it, as its ``with`` does, lets the handle go; the array goes with its creator. It pickles as a
    reference.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype_like
        Of NumPy, ml_dtypes or PyTorch, or a name.
    device : str or torch.device
        Where it is at first: ``"host"``, ``"cuda:0"``, a GPU's UUID.
    name : str, optional
        By which others open it. Default: one of its own.
    client : Client, optional
        Default: a new connection.

    Raises
    ------
    InvalidArgument, AlreadyExists, QuotaExceeded, OutOfMemory, Unsupported
        As `Client.create`.
    """

    __slots__ = ("_array",)

    def __init__(
        self,
        shape: Any,
        dtype: Any = float,
        device: str | TorchDevice = "host",
        *,
        name: str | None = None,
        client: Client | None = None,
    ) -> None:
        client = client or connect()
        name = _own_name(client) if name is None else name
        zero = _SMALLEST_WITHOUT_ZERO.get(dtype_name(dtype), 0)
        self._array = client.create(name, shape=shape, dtype=dtype, device=device, fill=zero)

    @classmethod
    def of(cls, array: Array) -> "MemArray":
        """Return a face of an array that is there; it begins where the handle is."""
        if not isinstance(array, Array):
            raise InvalidArgument(f"{array!r} is not an array's handle", "give one of client.open")
        made = cls.__new__(cls)
        made._array = array
        return made

    @property
    def array(self) -> Array:
        """Handle of the array where it is now."""
        return self._array

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self._array.shape

    @property
    def dtype(self) -> Any:
        """Element type, as `Array.dtype`."""
        return self._array.dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def device(self) -> str:
        """Where it is: ``"host"`` or a GPU's UUID."""
        return self._array.device

    @property
    def on_device(self) -> bool:
        """Whether that is a GPU."""
        return self._array.device_ordinal is not None

    def move_memory(
        self, device: str | TorchDevice | int, device_id: int | None = None, *, stream: Any = None
    ) -> None:
        """Move to a device: the newest version is copied there unless it is there.

        Others' handles and views stay where they are, and valid. With a `stream`, what that is
        given next runs behind the copy; without one the copy is waited for.

        Parameters
        ----------
        device : str, torch.device or int
            As `Array.on`; or DLPack's type of device, 1 for the host and 2 for CUDA.
        device_id : int, optional
            The GPU's number in this process, with such a type. Default: the current one.
        stream : stream, optional
        """
        there = self._array.on(_name_of(device, device_id))
        if there.version != 0:
            there.read(stream=stream).release()
        self._array = there

    def read_numpy_array(self, source: "ArrayLike", *, casting: Casting = "same_kind") -> None:
        """Copy all elements in, where it is, converting them as `Array.put` does.

        `InvalidArgument` where `casting` does not let them become the array's.
        """
        self._array.put(source, casting=casting)

    def get_dlpack(
        self,
        device: str | TorchDevice | int | None = None,
        device_id: int | None = None,
        *,
        stream: Any = None,
    ) -> _core.ReadLease:
        """Return the newest version to read, as a context manager that speaks DLPack.

        Parameters
        ----------
        device, device_id
            Where it is wanted, as in `move_memory`; the array moves there. Default: where it is.
        stream : stream, optional
            As in `Array.read`.

        Raises
        ------
        InvalidArgument
            There is no version yet: this does not wait for one.
        """
        self._published()
        if device is not None:
            self.move_memory(device, device_id, stream=stream)
        elif device_id is not None:
            raise InvalidArgument(
                f"device_id={device_id!r} is of no device", "give device=2 (CUDA) with it, or none"
            )
        return self._array.read(stream=stream)

    def lock(self, *, stream: Any = None, wait: float | None = None) -> _core.WriteLease:
        """Return the right to change it, which nobody else has meanwhile, in whatever process.

        It has the newest version's elements, where the array is. A clean end of its ``with``
        publishes what was changed; an exception changes nothing. Readers go on with the last
        version. `Timeout` after `wait` seconds, 10 by default; `Busy` where this thread itself has
        it.
        """
        return self._array.update(stream=stream, wait=wait)

    def __getitem__(self, key: Any) -> Any:
        """Elements of the newest version, on the host: a copy."""
        return self._published().on("host").get()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Change elements, on the host: a version of its own. For many changes take a `lock`."""
        with self._array.on("host").update() as lease:
            lease[key] = value

    def __len__(self) -> int:
        """Extent of the first axis."""
        return len(self._array)

    def __iter__(self) -> "Iterator[Any]":
        """Rows of the newest version, on the host: a copy of it."""
        return iter(self[...])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> "NDArray[Any]":
        """Elements of the newest version for NumPy, on the host: a copy."""
        if copy is False:
            raise ValueError(
                "a MemArray gives NumPy a copy of its newest version; for a view of one take a "
                "lease: array.read()"
            )
        elements: NDArray[Any] = self[...]
        return elements if dtype is None else elements.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """Hand the newest version out, which stays as it is while the consumer has it."""
        with self._published().read() as lease:
            return lease.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type and number of the device where it is."""
        ordinal = self._array.device_ordinal
        return (_HOST, 0) if ordinal is None else (_CUDA, ordinal)

    def __contains__(self, value: Any) -> bool:
        """Whether an element of the newest version is equal to `value`."""
        return value in self[...]

    def __bool__(self) -> bool:
        """As NumPy's: of one element, whether it is not zero; `ValueError` for more."""
        return bool(self[...])

    def __float__(self) -> float:
        """As NumPy's: of one element; `TypeError` for more."""
        return float(self[...])

    def __int__(self) -> int:
        """Likewise."""
        return int(self[...])

    if not TYPE_CHECKING:  # which would believe that every attribute is there

        def __getattr__(self, name: str) -> Never:
            """Say where to find what NumPy's arrays have."""
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            numpy = sys.modules.get("numpy")
            if numpy is not None and not name.startswith("_") and hasattr(numpy.ndarray, name):
                text += f"; a copy of its elements has: m[...].{name}"
            raise AttributeError(text, name=name, obj=self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "MemArray":
        """Copy the newest version, into an array of its own, where this one is."""
        array = self._published()
        client = connect(array.directory)
        copied = MemArray.of(
            client.create(
                _own_name(client),
                shape=array.shape,
                dtype=array.dtype_name,
                strides=array.strides if array.size else None,
                device=array.device,
            )
        )
        with withdrawn_after_error(copied.array), array.read() as lease:
            copied.array.put(lease)
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a reference."""
        return MemArray.of, (self._array,)

    def _published(self) -> Array:
        # Nobody waits here for a first version, as no call would say how long.
        if self._array.version == 0:
            raise InvalidArgument(
                f"'{self._array.name}' has no version yet",
                "copy all elements in first, by read_numpy_array, or wait for others' by "
                "array.read(timeout=SECONDS)",
            )
        return self._array

    def close(self) -> None:
        """Close the handle."""
        self._array.close()

    def __repr__(self) -> str:
        """Say what it is, and where."""
        what = f"{self._array.dtype_name}{list(self.shape)} on {self.device}"
        return f"<memlease.MemArray '{self._array.name}' {what}>"


def _own_name(client: Client) -> str:
    return f"mem_array/{os.getpid()}.{client.session_id}.{next(_made)}"


def _name_of(device: str | TorchDevice | int, device_id: int | None) -> str:
    if isinstance(device, str) or hasattr(device, "type"):
        if device_id is None:
            return device_name(device)
        raise InvalidArgument(
            f"device={device!r} names a device, and device_id={device_id} another one",
            "give a type of device with device_id, 2 for CUDA, or a name alone",
        )
    kind = device if isinstance(device, Integral) and not isinstance(device, bool) else None
    if kind == _HOST and device_id in (None, 0):
        return "host"
    if kind == _HOST:
        raise InvalidArgument(
            f"device_id={device_id!r} is not known of the host, which is one", "leave it out"
        )
    if kind == _CUDA:
        hint = "give the GPU's number in this process, or None for the current one"
        return "cuda" if device_id is None else f"cuda:{small_number('device_id', device_id, hint)}"
    raise InvalidArgument(
        f"device={device!r} is not known", "give a name such as 'cuda:0', or 1 (host) or 2 (CUDA)"
    )
