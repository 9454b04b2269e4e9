"""Element types of NumPy, ml_dtypes, PyTorch and JAX by the names that memlease gives them."""

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
        raise Unsupported(
            "this needs NumPy, which is not installed",
            "pip install numpy, or use memoryview(lease) or DLPack instead",
        ) from error
    return numpy


def dtype_name(dtype: Any) -> str:
    """Name a dtype of NumPy, ml_dtypes, PyTorch or JAX, or a string, as memlease does."""
    if isinstance(dtype, str):
        return _core.parse_dtype(dtype)
    text = str(dtype)
    if text.startswith("torch."):
        return _core.parse_dtype(text.removeprefix("torch."))
    numpy = require_numpy()
    try:
        found = numpy.dtype(dtype)
    except TypeError as error:
        raise InvalidArgument(
            f"dtype={dtype!r} is not an element type",
            "give a name such as 'float32', or a NumPy dtype",
        ) from error
    if not found.isnative:
        raise InvalidArgument(
            f"dtype={dtype!r} has the other byte order than this machine",
            f"convert with array.astype({found.newbyteorder('=').str!r})",
        )
    return _core.parse_dtype(found.name)


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
