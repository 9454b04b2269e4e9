"""`Closing`: what makes a class with `close` a context manager."""

from types import TracebackType
from typing import Never, Protocol, Self


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

    def __aenter__(self) -> Never:
        """Raise: `with` is enough."""
        raise TypeError(
            f"{type(self).__name__} takes `with`, not `async with`; to wait in asyncio's loop: "
            "async with array.read_async() as lease, or async for lease in array.follow()"
        )

    def __aexit__(self, *error: object) -> Never:
        """Nothing comes here."""
        raise AssertionError
