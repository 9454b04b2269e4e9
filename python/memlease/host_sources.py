"""Sources on the host, as NumPy takes them; plain numbers become what the array wants."""

import sys
from typing import Any

from memlease.dtypes import numpy_dtype, require_numpy
from memlease.errors import InvalidArgument

_PLAIN = (list, tuple, range, bool, int, float, complex)

# NumPy's kinds of numbers: each may become one that is not below it. V: those of ml_dtypes.
_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}


def is_plain(source: Any) -> bool:
    """Tell whether it is a Python number or sequence, which has no dtype of its own."""
    return isinstance(source, _PLAIN) and not hasattr(source, "dtype")  # NumPy's float64 has one


def elements_of(source: Any, dtype: str | None) -> Any:
    """Return the NumPy array of a source, over its own memory where that is possible.

    Plain numbers become those of `dtype`, unless that would make floats whole or complex numbers
    real: then, as without `dtype`, they have NumPy's default.

    Raises
    ------
    InvalidArgument
        These are not numbers, or one does not fit into `dtype`.
    """
    numpy = require_numpy()
    refuse_mask(source)
    if isinstance(source, bytes):
        source = memoryview(source)  # a buffer like others; NumPy would take it for text
    if not is_plain(source):
        elements = numpy.asarray(source)
    else:
        try:
            elements = numpy.asarray(source)
        except ValueError as error:
            raise _no_numbers(source, f": {error}") from None
        if dtype is not None:
            elements = become(source, elements, dtype)
    if elements.dtype.kind in "Mm":
        raise _no_dates(source, elements.dtype)
    if elements.dtype.kind in "OSTU" or elements.dtype.names is not None:
        raise _no_numbers(source, f"; NumPy gives it the dtype {elements.dtype}")
    return elements


def refuse_mask(source: Any) -> None:
    """Refuse a masked array of NumPy, whose mask would be lost: `InvalidArgument`."""
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(source, masked):
        raise InvalidArgument(
            "the source is a masked array, and memlease keeps no masks",
            "give source.filled(value), or put source.data and source.mask into two arrays",
        )


def become(source: Any, elements: Any, dtype: str) -> Any:
    """Return the numbers as those of `dtype`, or as they are where that would change their kind."""
    numpy = require_numpy()
    wanted = numpy_dtype(dtype)
    kind = elements.dtype.kind
    if kind == "O" or (kind == "f" and wanted.kind in "iu"):
        # NumPy has no one type of integers for [2**64 - 1, 0] and [2**70].
        exact = numpy.asarray(source, object)
        if all(isinstance(each, int) for each in exact.flat):
            kind, elements = "i", exact
    if elements.size and (kind not in "biufc" or _RANKS[kind] > _RANKS[wanted.kind]):
        return elements
    if elements.size and wanted.kind in "iu":
        limits = numpy.iinfo(wanted)
        for number in (elements.min(), elements.max()):
            if not limits.min <= number <= limits.max:
                hint = f"give numbers from {limits.min} to {limits.max}"
                raise _does_not_fit(number, dtype, hint)
    if elements.size and wanted.kind in "fcV":
        return _become_floats(elements, wanted, dtype)
    return elements.astype(wanted, copy=False)


def _become_floats(given: Any, wanted: Any, dtype: str) -> Any:
    numpy = require_numpy()
    hint = "give smaller numbers, or put them into an array of a dtype that has larger ones"
    numbers = given
    if given.dtype.kind == "O":  # ml_dtypes takes no integers of Python
        try:
            numbers = given.astype("f8")
        except OverflowError:
            raise _does_not_fit(max(given.flat, key=abs), dtype, hint) from None
    with numpy.errstate(all="ignore"):
        floats = numbers.astype(wanted, copy=False)
    for test in (numpy.isinf, numpy.isnan):  # some types of ml_dtypes have nan alone
        lost = test(floats) & ~test(numbers)
        if lost.any():
            raise _does_not_fit(given[lost][0], dtype, hint)
    return floats


def _does_not_fit(number: Any, dtype: str, hint: str) -> InvalidArgument:
    # Python writes out no integer of thousands of digits.
    bits = number.bit_length() if isinstance(number, int) else 0
    what = f"an integer of {bits} bits" if bits > 128 else number
    return InvalidArgument(f"the source has {what}, which does not fit into {dtype}", hint)


def _no_dates(source: Any, dtype: Any) -> InvalidArgument:
    return InvalidArgument(
        f"the source is of type {type(source).__name__}, and NumPy gives it the dtype {dtype}: "
        "memlease holds neither dates nor durations",
        "give them as integers, numpy.asarray(source).view('i8'), and keep the unit in attributes",
    )


def _no_numbers(source: Any, why: str) -> InvalidArgument:
    what = "None" if source is None else f"of type {type(source).__name__}"
    return InvalidArgument(
        f"the source is {what}, and memlease holds bool, integer, float and complex elements{why}",
        "give a NumPy array, a buffer, a tensor by DLPack or the CUDA array interface, a lease, or "
        "a sequence of numbers",
    )
