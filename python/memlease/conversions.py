"""What `put` makes of sources on the host that have another dtype than the array."""

from typing import TYPE_CHECKING, Any, Literal

from memlease.caller import numpy_warnings
from memlease.dtypes import numpy_dtype, require_numpy
from memlease.errors import InvalidArgument
from memlease.layouts import require_same, require_shape

if TYPE_CHECKING:
    from memlease import _core

Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def converted(
    dtype: str, elements: Any, casting: Casting, array: "_core.Array", shape: tuple[int, ...]
) -> Any:
    """Return elements of the array's dtype and of a shape; one element is taken for all.

    Parameters
    ----------
    dtype : str
        Of the elements.
    elements : numpy.ndarray
        Of dtype ``V<itemsize>``, as `memlease.sources.source_of` gives them.
    casting : str
        As in `Array.put`.
    array : Array
    shape : tuple of int
        The array's, or that of a region of it.

    Raises
    ------
    InvalidArgument
        Another shape, or a dtype that `casting` does not let become the array's.
    Unsupported
        Nothing that is installed can convert it.
    """
    wanted = array.dtype_name
    if casting not in CASTINGS:
        raise InvalidArgument(
            f"casting={casting!r} is not known", "give one of " + ", ".join(map(repr, CASTINGS))
        )
    numpy = require_numpy()
    if elements.shape != ():
        require_shape(dtype, elements.shape, array.name, wanted, shape)
    if dtype != wanted:
        given, become = numpy_dtype(dtype), numpy_dtype(wanted)
        if not _may_become(given, become, casting):
            require_same(dtype, elements.shape, array.name, wanted, shape)
        with numpy_warnings(numpy):
            elements = elements.view(given).astype(become)
        elements = elements.view(f"V{elements.dtype.itemsize}")
    return numpy.broadcast_to(elements, shape)


def _may_become(given: Any, become: Any, casting: Casting) -> bool:
    if casting == "same_kind" and given.kind == "c" and become.kind == "V":
        return False  # ml_dtypes would let the imaginary parts go
    return bool(require_numpy().can_cast(given, become, casting))
