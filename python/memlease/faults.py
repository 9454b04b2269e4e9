"""A line on standard error before a write to published bytes ends the process."""

import os
from typing import IO, Any

from memlease import _core
from memlease.errors import InvalidArgument

# What explain_faults() was given last, which would close its descriptor.
_file: Any = None


def explain_faults(file: int | IO[Any] | None = None) -> None:
    """Say which array and version it was, where a write to published bytes ends this process.

    A version does not change once it is published: its pages cannot be written, and whoever does so
    by a library that knows no read-only memory gets a SIGSEGV. A line on standard error names the
    array and the version first. Importing memlease sees to that where nothing else handles the
    signal, unless ``MEMLEASE_EXPLAIN_FAULTS=0`` is in the environment.

    Call this where something else does, such as `faulthandler`, which handles it then, too; with
    ``MEMLEASE_EXPLAIN_FAULTS=1`` the import calls it. A second call does nothing, unless another
    handler has been installed since: workers of PyTorch's ``DataLoader`` have their own, so call it
    in ``worker_init_fn``, too.

    Parameters
    ----------
    file : file or int, optional
        Where the line goes from now on: a file with a descriptor, or a descriptor, which must stay
        open. For programs whose standard error nobody sees, as in a notebook. Default: where it
        went before, which is standard error at first.

    Raises
    ------
    InvalidArgument
        The file has no descriptor.
    """
    global _file
    if file is not None:
        try:
            descriptor = file if isinstance(file, int) else file.fileno()
        except (AttributeError, OSError, ValueError) as error:  # io.UnsupportedOperation, or closed
            raise InvalidArgument(
                f"file={file!r} has no descriptor", "give an open file, as open(path, 'w')"
            ) from error
        _core.explain_faults_to(descriptor)
        _file = file
    _core.explain_faults()


def tell_by_default(descriptor: int) -> int | None:
    """Let the line go there, unless `explain_faults` was told where; else where it went before."""
    return _core.explain_faults_to(descriptor) if _file is None else None


def wanted_by_default() -> bool:
    """Tell whether faults are to be explained where nobody has asked for it."""
    return os.environ.get("MEMLEASE_EXPLAIN_FAULTS") != "0"


if os.environ.get("MEMLEASE_EXPLAIN_FAULTS") == "1":
    explain_faults()
elif wanted_by_default():
    _core.explain_faults_unless_handled()
