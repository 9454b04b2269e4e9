"""What memlease raises: each error is a `memlease.Error` and the builtin a user would catch."""

# ruff: noqa: N818 (the names are those of the C++ library and of the error catalogue)

from typing import Any, ClassVar


class Error(Exception):
    """Base of all errors of memlease.

    Parameters
    ----------
    message : str
        What happened and why.
    hint : str
        What to do about it; may be empty.

    Attributes
    ----------
    code : str
        Stable identifier such as ``"ML002"``, one for each class.
    """

    code: ClassVar[str] = "ML000"

    def __init__(self, message: str, hint: str = "") -> None:
        text = f"{message} ({hint})" if hint else message
        super().__init__(f"{text} [{self.code}]")
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Say it all in one line; KeyError's own way would quote it."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by message and hint."""
        return type(self), (self.message, self.hint)


class InvalidArgument(Error, ValueError):
    """An argument is malformed or out of range."""

    code = "ML001"


class NotFound(Error, KeyError):
    """No array has this name, or the caller may not read it."""

    code = "ML002"


class AlreadyExists(Error, FileExistsError):
    """The name is taken, with ``exist_ok`` by an array of another kind."""

    code = "ML003"


class Denied(Error, PermissionError):
    """The caller's uid may not do this."""

    code = "ML004"


class QuotaExceeded(Error, MemoryError):
    """The uid's quota is used up."""

    code = "ML005"


class OutOfMemory(Error, MemoryError):
    """The daemon's memory limit, or the machine's memory, is used up."""

    code = "ML006"


class NoFreeSlot(Error, TimeoutError):
    """Every slot is being read; the message names the readers."""

    code = "ML007"


class Timeout(Error, TimeoutError):
    """The deadline that the caller gave has passed."""

    code = "ML008"


class Withdrawn(Error, LookupError):
    """The array has been withdrawn."""

    code = "ML009"


class VersionGone(Error, LookupError):
    """The version has been overwritten."""

    code = "ML010"


class ProducerDied(Error, RuntimeError):
    """The writer died in the middle of the version."""

    code = "ML011"


class WriteAborted(Error, RuntimeError):
    """With ``slots=1``: the writer dropped its write, and there is no version."""

    code = "ML012"


class ForkedClient(Error, RuntimeError):
    """A lease of the parent process was used in a forked child."""

    code = "ML013"


class Closed(Error, ValueError):
    """The handle, lease or client has been closed."""

    code = "ML014"


class DaemonUnavailable(Error, ConnectionError):
    """No daemon answers, and none could be started."""

    code = "ML015"


class DaemonLost(Error, ConnectionError):
    """The daemon has gone away since."""

    code = "ML016"


class VersionSkew(Error, RuntimeError):
    """Client and daemon have incompatible versions."""

    code = "ML017"


class Busy(Error, RuntimeError):
    """The calling process itself prevents the call."""

    code = "ML018"


class Unsupported(Error, NotImplementedError):
    """Not possible with this array, framework or build."""

    code = "ML019"


class Interrupted(Error, InterruptedError):
    """A wait was ended from outside."""

    code = "ML020"


class Internal(Error, RuntimeError):
    """A mistake in memlease itself."""

    code = "ML021"


class TooManyHeld(Error, RuntimeError):
    """The caller's process holds its share of the array's versions; the message names them."""

    code = "ML022"


class ViewAlive(RuntimeWarning):
    """Views that are alive in this process keep slots that a writer waits for."""


class LeasesAtFork(RuntimeWarning):
    """The process forks while leases or views are alive, which the child does not have."""


# By the number of the C++ ErrorCode.
BY_NUMBER: dict[int, type[Error]] = {
    int(error.code.removeprefix("ML")): error for error in Error.__subclasses__()
}
