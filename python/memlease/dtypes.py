"""Element types of NumPy, ml_dtypes, PyTorch and JAX by the names that memlease gives them."""

import functools
import sys
from typing import TYPE_CHECKING, Any

from memlease import _core
from memlease.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    import numpy as np


def require_numpy() -> Any:
    """Import NumPy, which memlease itself does not depend on."""
    try:
        import numpy
    except ImportError as error:
        raise _no_numpy(error) from error
    return numpy


def _no_numpy(error: ImportError) -> Unsupported:
    if sys.meta_path is None:  # so from the moment on when modules are taken away
        return Unsupported(
            "this needs NumPy, which cannot be used any more: Python is likely shutting down",
            "do it before, as by atexit.register(), or in a `with` or `finally`; not in a __del__ "
            "that is left to the end of the interpreter",
        )
    if isinstance(error, ModuleNotFoundError):
        return Unsupported(
            "this needs NumPy, which is not installed",
            "pip install numpy, or use memoryview(lease) or DLPack instead",
        )
    return Unsupported(
        f"this needs NumPy, which cannot be imported: {error}",
        "look what `import numpy` alone says",
    )


# As NumPy has them, with or without it.
_OF_PYTHON = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def dtype_name(dtype: Any) -> str:
    """Name a dtype of NumPy, ml_dtypes, PyTorch or JAX, a type of Python, or a string."""
    if dtype is None:  # NumPy's float64, which is often an option that was forgotten
        raise InvalidArgument("dtype=None is not an element type", "give one such as 'float64'")
    if isinstance(dtype, type) and dtype in _OF_PYTHON:
        return _OF_PYTHON[dtype]
    text = str(dtype)
    if text.startswith("torch."):
        return _core.parse_dtype(text.removeprefix("torch."))
    if isinstance(dtype, str):
        try:
            return _core.parse_dtype(dtype)
        except InvalidArgument:
            found = _in_numpy(dtype)  # it knows "double"
            if found is None:
                raise
    else:
        require_numpy()
        found = _in_numpy(dtype)
    if found is None:
        raise InvalidArgument(
            f"dtype={dtype!r} is not an element type",
            "give a name such as 'float32', or a NumPy dtype",
        )
    if found.kind in "Mm":
        raise InvalidArgument(
            f"dtype={dtype!r} is a type of dates or durations, and memlease holds neither",
            "store them as 'int64', x.view('i8'), and keep the unit in attributes",
        )
    # ml_dtypes has types of kind V, too.
    if found.kind not in "biufcV" or issubclass(found.type, require_numpy().void):
        raise InvalidArgument(
            f"dtype={dtype!r} is not a number or bool",
            "arrays hold numbers: give each field an array of its own, or store bytes as 'uint8'",
        )
    if not found.isnative:
        raise InvalidArgument(
            f"dtype={dtype!r} has the other byte order than this machine",
            f"convert with array.astype({found.newbyteorder('=').str!r})",
        )
    return _core.parse_dtype(found.name)


def _in_numpy(dtype: Any) -> "np.dtype[Any] | None":
    try:
        return require_numpy().dtype(dtype)  # type: ignore[no-any-return]
    except (TypeError, ValueError, SyntaxError, Unsupported):
        return None


@functools.cache
def numpy_dtype(name: str) -> "np.dtype[Any]":
    """Return NumPy's dtype of a name of memlease; ml_dtypes brings those NumPy lacks."""
    numpy = require_numpy()
    try:
        return numpy.dtype(name)  # type: ignore[no-any-return]
    except TypeError:
        pass
    try:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise Unsupported(
            f"NumPy has no {name}, and ml_dtypes, which has, is not installed or too old",
            "pip install ml_dtypes, or take the lease by DLPack, as torch.from_dlpack(lease)",
        ) from error


def dtype_for_users(name: str) -> "np.dtype[Any]":
    """Return NumPy's dtype of a name, or the name itself where nothing installed has that type."""
    try:
        return numpy_dtype(name)
    except Unsupported:
        return name  # type: ignore[return-value]
