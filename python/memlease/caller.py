"""What users are told besides errors: warnings, at the line of theirs that called; a log line."""

import contextlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

from memlease.errors import AlreadyExists, ViewAlive

_logger = logging.getLogger("memlease")
_PACKAGE = os.path.dirname(__file__) + os.sep


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the innermost line of the stack that is not the package's."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


@contextlib.contextmanager
def child_explained() -> Iterator[None]:
    """Say of a name that is taken where multiprocessing runs the main module again, in a child."""
    try:
        yield
    except AlreadyExists as error:
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_globals.get("__name__") != "__mp_main__":
            frame = frame.f_back
        if frame is None or frame.f_code.co_name != "<module>":
            raise
        raise AlreadyExists(
            f"{error.message}; this is a child of multiprocessing, which runs the main module "
            "again",
            'create arrays under `if __name__ == "__main__":`, and open them in functions; or '
            "create with exist_ok",
        ) from None


def warn_of_views(text: str) -> None:
    """Warn of views that keep a writer waiting; for the bindings."""
    warn(text, ViewAlive)


def log_empty_write(name: str) -> None:
    """Log, for debugging, that a write of the array `name` wrote nothing; for the bindings."""
    _logger.debug("a write of '%s' has ended, and nobody has asked for its bytes", name)


def log_wait(text: str) -> None:
    """Log that a call waits, and for what; for the bindings."""
    _logger.warning("%s", text)


class LongWaits:
    """Says once of waits in asyncio's threads that such a wait does not end with its task."""

    after_s = 5.0

    def __init__(self) -> None:
        self._said = False

    def note(self, name: str) -> None:
        """Look in which thread a wait for the array `name` goes on; for the bindings."""
        if self._said or not threading.current_thread().name.startswith("asyncio_"):
            return
        self._said = True
        _logger.warning(
            "a wait for '%s' has gone on for %g s in a thread of asyncio: it does not end with its "
            "task, and asyncio.run() waits for it; use `await array.read_async()`, give a timeout, "
            "or close the array or its client, which ends it",
            name,
            self.after_s,
        )


long_waits = LongWaits()


@contextlib.contextmanager
def numpy_warnings(numpy: Any) -> Iterator[None]:
    """Warn so of what NumPy would warn of in conversions; what the user ignores stays ignored."""
    if numpy.geterrcall() is not None:  # the user's own, for some of it
        yield
        return
    warned = {kind: "call" for kind, how in numpy.geterr().items() if how == "warn"}
    with numpy.errstate(call=_warn_of_cast, **warned):
        yield


def _warn_of_cast(kind: str, _flag: int) -> None:
    warn(f"{kind} encountered in cast", RuntimeWarning)
