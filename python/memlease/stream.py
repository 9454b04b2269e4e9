"""CUDA streams of other libraries, as the handles that GPU arrays are ordered by.

Wherever memlease has an argument `stream` it takes: an int of Python or NumPy, as the array
protocols have it (1 the legacy default stream, 2 the calling thread's, else a ``cudaStream_t``); a
``ctypes.c_void_p``; an object with ``__cuda_stream__``, as those of cuda.core; and the streams of
CuPy, PyTorch and Numba. JAX shows its streams to nobody: leave `stream` out, and let JAX take the
lease by DLPack.
"""

import ctypes
import operator
from typing import Any

from memlease.errors import InvalidArgument

_TAKEN = (
    "give an int (1: the legacy default stream, 2: the thread's, else a cudaStream_t), a "
    "ctypes.c_void_p, an object with __cuda_stream__, or a stream of CuPy, PyTorch or Numba; JAX "
    "has none to give"
)

# Where CuPy, PyTorch and Numba keep the handle.
_ATTRIBUTES = ("ptr", "cuda_stream", "handle")

# Their stream 0 is the legacy one, however the program was compiled.
_ZERO_IS_LEGACY = ("cupy", "torch")
_LEGACY = 1


def handle_of(stream: Any) -> int:
    """Return the handle of a stream.

    Blocks on nothing and does not ask CUDA whether there is such a stream.

    Parameters
    ----------
    stream : int or stream
        As the module says.

    Returns
    -------
    int
        0 stays 0, which the library refuses: it means one stream or another, depending on how a
        program was compiled. Only PyTorch's and CuPy's default stream, which are known to be the
        legacy one, become 1.

    Raises
    ------
    TypeError
        It is not a stream.
    InvalidArgument
        A number that no handle can be.
    """
    value = _value_of(stream)
    if value is None:
        raise TypeError(f"memlease: stream={stream!r} is not a CUDA stream: {_TAKEN}")
    if not 0 <= value < 2**64:
        raise InvalidArgument(f"stream={value} is not the handle of a CUDA stream", _TAKEN)
    if value == 0 and type(stream).__module__.partition(".")[0] in _ZERO_IS_LEGACY:
        return _LEGACY
    return value


def _value_of(stream: Any) -> int | None:
    if type(stream) is int:
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # A method by the protocol; the first implementations had a property.
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise InvalidArgument(
                f"{stream!r} speaks version {version} of __cuda_stream__, and memlease version 0",
                "give its handle as an int",
            )
        return _whole(handle)
    for attribute in _ATTRIBUTES:
        handle = getattr(stream, attribute, None)
        if handle is not None:
            return _whole(handle)
    return _whole(stream)


def _whole(handle: Any) -> int | None:
    """Take a number, also out of a ctypes.c_void_p, whose null is None; else None."""
    if isinstance(handle, ctypes.c_void_p):
        return handle.value or 0
    if isinstance(handle, bool):
        return None
    try:
        return operator.index(handle)
    except TypeError:
        return None
