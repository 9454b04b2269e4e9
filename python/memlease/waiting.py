"""`wait`: for a newer version of any of several arrays."""

import math
import time
from collections.abc import Iterable, Sequence
from typing import TypeVar

from memlease import _core
from memlease.array import Array
from memlease.errors import InvalidArgument

LOOK_S = 0.1  # between two looks whether a follower has been closed

Source = TypeVar("Source", Array, _core.Follower, Array | _core.Follower)


def wait(
    sources: Iterable[Source],
    timeout: float | None = None,
    *,
    newer_than: Sequence[int] | None = None,
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
        For each source, the version that is known already. Default: what a follower has handed out
        last, and for an array the version that is current now.

    Returns
    -------
    list
        The sources that are ready, in their order: a version above the known one can be read, or a
        read would raise, as `Withdrawn` does; closed followers, too. Empty once `timeout` has
        passed.

    Raises
    ------
    InvalidArgument
        `newer_than` is not as long as `sources`, or there are no sources.
    Closed, Withdrawn, DaemonLost
    """
    if isinstance(sources, (Array, _core.Follower)):
        raise TypeError("wait() takes a list of arrays and followers: give [it]")
    sources = list(sources)
    if not sources:
        raise InvalidArgument("there is nothing to wait for", "give arrays or followers")
    arrays: list[Array] = []
    known: list[int] = []
    for source in sources:
        if isinstance(source, _core.Follower):
            arrays.append(source.array)
            known.append(source.last)
        elif isinstance(source, Array):
            arrays.append(source)
            known.append(source.version if newer_than is None else 0)
        else:
            raise TypeError(f"wait() takes arrays and followers, not {type(source).__name__}")
    if newer_than is not None:
        if len(newer_than) != len(sources):
            raise InvalidArgument(
                f"newer_than has {len(newer_than)} numbers for {len(sources)} sources",
                "give one for each",
            )
        known = list(newer_than)
    followers = [it for it in sources if isinstance(it, _core.Follower)]
    if not followers or not (timeout is None or hasattr(timeout, "__float__")):
        return [sources[place] for place in _core.wait(arrays, known, timeout)]
    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        # A follower may be closed by another thread, which its array does not tell.
        if any(it.closed for it in followers):
            return [it for it in sources if it in followers and it.closed]
        left = end - time.monotonic()
        ready = [sources[place] for place in _core.wait(arrays, known, max(0, min(LOOK_S, left)))]
        if ready or left <= 0:
            return ready
