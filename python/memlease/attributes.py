"""Attributes of arrays as the bindings take them: str, bool, int, float, or lists of one kind."""

import numbers
from collections.abc import Mapping
from typing import Any

from memlease.errors import InvalidArgument

_HINT = "give a str, bool, int or float, or a list of str, int or float"


def plain_attributes(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Take a mapping of names to values, scalars and arrays of NumPy among them."""
    if attributes is None:
        return {}
    if not isinstance(attributes, Mapping):
        raise InvalidArgument(
            f"attributes={attributes!r} is not a mapping", "give a dict of names and values"
        )
    return {_name(name): _value(name, value) for name, value in attributes.items()}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise InvalidArgument(f"the name of an attribute is {name!r}, not a string", "give a str")
    return _text(name, name)


def _value(name: str, value: Any) -> Any:
    if type(value).__module__ == "numpy":
        value = value.tolist()  # Python's scalars, or a list
    if not isinstance(value, list | tuple):
        return _scalar(name, value)
    elements = [_scalar(name, element) for element in value]
    kinds = {type(element) for element in elements}
    if kinds == {int, float}:  # as NumPy does
        return [float(element) for element in elements]
    if bool in kinds or len(kinds) > 1:
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidArgument(f"the attribute {name!r} is a list of {names}", _HINT)
    return elements


def _scalar(name: str, value: Any) -> str | bool | int | float:
    if isinstance(value, str):
        return _text(name, value)
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        if not -(2**63) <= int(value) < 2**63:
            raise InvalidArgument(
                f"the attribute {name!r} is {value}, which is beyond 64 bits", "give a float"
            )
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise InvalidArgument(f"the attribute {name!r} has a {type(value).__name__}", _HINT)


def _text(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"the attribute {name!r} is not text in UTF-8", "give text without surrogates"
        ) from None
    return str(text)
