"""The dicts by which other libraries describe arrays, whose fields may be wrong."""

import operator
from typing import Any

from memlease.errors import InvalidArgument


class InterfaceFields:
    """The fields of one; each look raises `InvalidArgument` where a field is not what it must be.

    Parameters
    ----------
    interface : dict
    name : str
        Of the attribute that it came from.
    whose : str
        Whom errors are about.
    """

    __slots__ = ("_fields", "_text")

    def __init__(self, interface: Any, name: str, whose: str = "the source") -> None:
        self._text = f"{whose}'s {name}"
        if not isinstance(interface, dict):
            raise InvalidArgument(
                f"{self._text} has type {type(interface).__name__}",
                "it must be a dict: correct its producer, or hand it over by DLPack",
            )
        self._fields = interface

    def get(self, key: str) -> Any:
        """Return a field, None if it is not there."""
        return self._fields.get(key)

    def required(self, key: str) -> Any:
        """Return a field."""
        try:
            return self._fields[key]
        except KeyError:
            raise InvalidArgument(
                f"{self._text} has no {key!r}",
                "correct its producer, or hand it over by DLPack",
            ) from None

    def text(self, key: str, expected: str) -> str:
        """Return a field that is a text."""
        value = self.required(key)
        if not isinstance(value, str):
            raise self.wrong(key, value, expected)
        return value

    def whole(self, key: str, lowest: int = 0) -> int:
        """Return a field that is a whole number, and of 63 bits."""
        value = self.required(key)
        if not is_whole(value) or not lowest <= value < 2**63:
            raise self.wrong(key, value, "a whole number")
        return operator.index(value)

    def numbers(self, key: str, lowest: int = -(2**63)) -> tuple[int, ...]:
        """Return a field that is a tuple of such."""
        values = self.required(key)
        if not isinstance(values, tuple | list) or not all(
            is_whole(value) and lowest <= value < 2**63 for value in values
        ):
            raise self.wrong(key, values, "a tuple of whole numbers")
        return tuple(operator.index(value) for value in values)

    def wrong(self, key: str, value: Any, expected: str) -> InvalidArgument:
        """Make the error that a field is not what is expected."""
        return InvalidArgument(f"{self._text} has {key}={value!r}", f"it must be {expected}")


def is_whole(value: Any) -> bool:
    """Tell whether it is a Python or NumPy integer; truth values are none here."""
    try:
        operator.index(value)
    except TypeError:  # also of a NumPy array, which has __index__ whatever it holds
        return False
    return not isinstance(value, bool)
