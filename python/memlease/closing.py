"""`Closing`: what makes a class with `close` a context manager."""

from types import TracebackType
from typing import Protocol, Self


class _Closes(Protocol):
    def close(self) -> None: ...


class Closing:
    """Closes at the end of a ``with``."""

    __slots__ = ()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self: _Closes,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
