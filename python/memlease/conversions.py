"""What `put` makes of sources on the host that have another dtype than the array."""

from typing import TYPE_CHECKING, Any, Literal

from memlease.caller import numpy_warnings
from memlease.dtypes import numpy_dtype, require_numpy
from memlease.errors import InvalidArgument, Unsupported
from memlease.layouts import require_same

if TYPE_CHECKING:
    from memlease import _core

Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def converted(dtype: str, elements: Any, casting: Casting, array: "_core.Array") -> Any:
    """Return elements of the array's dtype and shape; one element is taken for all.

    Parameters
    ----------
    dtype : str
        Of the elements.
    elements : numpy.ndarray
        Of dtype ``V<itemsize>``, as `memlease.sources.source_of` gives them.
    casting : str
        As in `Array.put`.
    array : Array

    Raises
    ------
    InvalidArgument
        Another shape, or a dtype that `casting` does not let become the array's.
    """
    wanted = array.dtype_name
    if casting not in _CASTINGS:
        raise InvalidArgument(
            f"casting={casting!r} is not known", "give one of " + ", ".join(map(repr, _CASTINGS))
        )
    numpy = require_numpy()
    shape = array.shape if elements.shape == () else elements.shape
    if dtype != wanted:
        if not _may_become(dtype, wanted, casting):
            require_same(dtype, shape, array.name, wanted, array.shape)
        if shape == array.shape:
            with numpy_warnings(numpy):
                elements = elements.view(numpy_dtype(dtype)).astype(numpy_dtype(wanted))
            elements = elements.view(f"V{elements.dtype.itemsize}")
    require_same(wanted, shape, array.name, wanted, array.shape)
    return numpy.broadcast_to(elements, array.shape)


def _may_become(dtype: str, wanted: str, casting: Casting) -> bool:
    try:
        given, become = numpy_dtype(dtype), numpy_dtype(wanted)
    except Unsupported:  # nothing here can convert it
        return False
    if casting == "same_kind" and given.kind == "c" and become.kind == "V":
        return False  # ml_dtypes would let the imaginary parts go
    return bool(require_numpy().can_cast(given, become, casting))
