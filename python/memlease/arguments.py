"""What users give as arguments, checked: the binding would list its C++ signatures instead."""

import operator
import pwd
from collections.abc import Callable, Mapping
from typing import Any, Never

from memlease.errors import InvalidArgument


def require_text(argument: str, value: Any) -> None:
    """Require a str that is text: `InvalidArgument`."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{argument}={value!r} is not a string", "give a str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{argument}={value!r} is not text in UTF-8", "give one") from None


def refuse_unknown(call: Callable[..., Any], unknown: Mapping[str, Any]) -> Never:
    """Say which arguments a call has, which was given one of another name."""
    code = call.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    known = ", ".join(name for name in names if name != "self")
    raise TypeError(f"{call.__name__}() has no argument {next(iter(unknown))!r}; it has {known}")


def small_number(argument: str, value: Any, hint: str) -> int:
    """Return a number of 32 bits; `InvalidArgument`, with the hint, for others."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgument(f"{argument}={value!r} is not a whole number", hint) from None
    if not 0 <= number < 2**32:
        raise InvalidArgument(f"{argument}={value!r} is out of range", hint)
    return number


def mode_of(value: Any) -> int:
    """Return the mode of an array; `InvalidArgument` for a decimal that was meant as octal."""
    number = small_number("mode", value, "give one such as 0o660")
    # No decimal that looks like a mode is one: 600 is 0o1130.
    looks = int(str(number), 8) if set(str(number)) <= set("01234567") else 0
    if number & ~0o666 and looks & 0o600 == 0o600 and not looks & ~0o666:
        raise InvalidArgument(f"mode={number} is {oct(number)}", f"did you mean {oct(looks)}?")
    return number


def max_slots_of(value: Any) -> int:
    """Return the number; 0, which is the default, for None."""
    if value is None:
        return 0
    hint = "give one from slots to 64, or None"
    number = small_number("max_slots", value, hint)
    if number == 0:
        raise InvalidArgument(f"max_slots={value!r} is out of range", hint)
    return number


def uid_of(owner: Any) -> int | None:
    """Return a user's uid, by that or by name; None for None. `InvalidArgument` for nobody's."""
    if owner is None:
        return None
    if not isinstance(owner, str):
        return small_number("owner", owner, "give a uid or the name of a user")
    require_text("owner", owner)
    try:
        return pwd.getpwnam(owner).pw_uid
    except (KeyError, ValueError):
        hint = "give one that getent passwd has, or a uid"
        raise InvalidArgument(f"owner={owner!r} is not a user of this machine", hint) from None


def whole_numbers(argument: str, value: Any) -> tuple[int, ...]:
    """Return one int or several as a tuple; `InvalidArgument` for anything else."""
    hint = "give an int or a sequence of ints"
    try:
        numbers = _indices(value)
    except TypeError:
        raise InvalidArgument(f"{argument}={value!r} is not made of whole numbers", hint) from None
    if any(abs(number) >= 2**63 for number in numbers):
        raise InvalidArgument(f"{argument}={value!r} is out of range", hint)
    return numbers


def _indices(value: Any) -> tuple[int, ...]:
    try:
        return (_index(value),)
    except TypeError:
        return tuple(_index(number) for number in value)


def _index(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)
