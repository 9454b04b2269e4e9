"""`wait`: for a newer version of any of several arrays."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from memlease import _core
from memlease.array import Array
from memlease.errors import InvalidArgument

Source = TypeVar("Source", Array, _core.Follower, Array | _core.Follower)


def wait(
    sources: Iterable[Source],
    timeout: float | None = None,
    *,
    newer_than: Sequence[int | None] | None = None,
) -> list[Source]:
    """Wait until any of several arrays has a newer version.

    Blocks, without the GIL; Ctrl-C ends the wait. Takes no lease: a follower that is ready gives
    one at its next step, without waiting. The arrays may be of several daemons. Beyond 64 of them
    they are looked at a thousand times a second.

    Parameters
    ----------
    sources : iterable of Follower or Array
        What to wait for.
    timeout : float, optional
        Seconds to wait at most; 0 does not wait. Default: no end.
    newer_than : sequence of int, optional
        For each source, the version that is known already. Default, also for one that is None: what
        a follower has handed out last, and the newest version that this handle of an array has
        read; if it has read none, the version that is current now.

    Returns
    -------
    list
        The sources that are ready, in their order: a version above the known one can be read, or a
        read would raise, as `Withdrawn` does. So is what is closed during the wait, and a follower
        that was closed before. Empty once `timeout` has passed.

    Raises
    ------
    InvalidArgument
        `newer_than` is not as long as `sources` or not of versions, or there are no sources.
    Closed
        An array, or the client of one, was closed before.
    DaemonLost
    """
    if isinstance(sources, (Array, _core.Follower)):
        raise TypeError("wait() takes a list of arrays and followers: give [it]")
    sources = list(sources)
    if not sources:
        raise InvalidArgument("there is nothing to wait for", "give arrays or followers")
    for source in sources:
        if not isinstance(source, (Array, _core.Follower)):
            raise TypeError(f"wait() takes arrays and followers, not {type(source).__name__}")
    try:
        known = [None] * len(sources) if newer_than is None else list(newer_than)
    except TypeError:
        raise InvalidArgument(
            f"newer_than={newer_than!r} is not a sequence of versions", "give one for each source"
        ) from None
    if len(known) != len(sources):
        raise InvalidArgument(
            f"newer_than has {len(known)} numbers for {len(sources)} sources", "give one for each"
        )
    return [sources[place] for place in _core.wait(sources, known, timeout)]
