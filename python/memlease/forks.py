"""Leases do not go into a forked child: it is warned of, once in a process."""

import itertools
import sys

from memlease import _core, caller
from memlease.errors import LeasesAtFork

_forks = itertools.count()


def warn_of_leases() -> None:
    """Warn if any lives; to be called before each fork.

    `pty.fork` is for another program on a terminal of its own, as IPython's ``!command``: the child
    touches no view.
    """
    if sys._getframe(1).f_globals.get("__name__") == "pty":
        return
    if not _core.leases_alive() or next(_forks) > 0:
        return
    caller.warn(
        "this process forks while leases or views of memlease are alive: the child does not have "
        "them, and ends by SIGSEGV where it touches a view (give it the array, and lease in the "
        "child; or copy what it needs)",
        LeasesAtFork,
    )
