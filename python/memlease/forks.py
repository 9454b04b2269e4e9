"""Forked children: leases do not go into them, and some end in a way of their own."""

import functools
import itertools
import sys

from memlease import _core, caller
from memlease.errors import LeasesAtFork

_forks = itertools.count()


def before_fork() -> None:
    """Do what is due before each fork."""
    tell_of_workers_exits()
    _warn_of_leases()


def tell_of_workers_exits() -> None:
    """Have workers of multiprocessing tell the daemon that they exit by themselves.

    They end by `os._exit`, behind finalizers. To be called once before they fork, or in them.
    """
    if sys.modules.get("multiprocessing.util") is not None:
        _hook_into_multiprocessing()


@functools.cache
def _hook_into_multiprocessing() -> None:
    from multiprocessing import util

    def hook(_module: object) -> None:
        util.Finalize(None, _core.tell_of_exit, exitpriority=-1000)

    hook(_core)
    util.register_after_fork(_core, hook)


def _warn_of_leases() -> None:
    """Warn if any lives, once in a process.

    `pty.fork` is for another program on a terminal of its own, as IPython's ``!command``: the child
    touches no view.
    """
    if sys._getframe(2).f_globals.get("__name__") == "pty":
        return
    if not _core.leases_alive() or next(_forks) > 0:
        return
    caller.warn(
        "this process forks while leases or views of memlease are alive: the child does not have "
        "them, and ends by SIGSEGV where it touches a view (give it the array, and lease in the "
        "child; or copy what it needs)",
        LeasesAtFork,
    )
