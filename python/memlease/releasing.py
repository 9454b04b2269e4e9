"""`release_views`: what a notebook still holds."""

from memlease import _core
from memlease.array import Array


def release_views(array: Array) -> int:
    """Give back the slots of an array that leases and views of this process keep.

    For notebooks, whose ``Out`` and tracebacks keep views that no name leads to. The views stay
    valid: they see a copy of this process's own, at the same addresses, which goes with them. Read
    leases of the array end, in all threads; what was made from them lives on. Write leases go on.

    Copies the bytes of all slots that it frees; does not call the daemon. Thread-safe.

    Some views go on keeping their slots: those of arrays on a GPU, and those made by write leases
    of arrays of at most 4096 bytes. ``memleasectl holders`` shows what is still held.

    Parameters
    ----------
    array : Array
        Any handle of it; other handles' leases and views count, too.

    Returns
    -------
    int
        How many slots this process kept before and does not any more.

    Raises
    ------
    OutOfMemory
        There is no room for the copies. Some slots may have been freed.
    TypeError
        It is not an array.
    """
    return _core.release_views(array)
