"""Waiting in asyncio's event loop: a descriptor for each wait; a thread for a first read alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlease import _core
from memlease.errors import Timeout

if TYPE_CHECKING:
    import asyncio


async def next_lease(follower: _core.Follower) -> _core.ReadLease:
    """Make a step of ``async for``, as `Follower.__next__`."""
    if follower.closed:
        raise StopAsyncIteration
    follower._begin_step()
    try:
        lease = await _take(follower, keep=True)
    finally:
        follower._end_step()
    if lease is None:
        raise StopAsyncIteration
    return lease


async def read(follower: _core.Follower) -> _core.ReadLease:
    """Return the lease of one step, and close the follower, of which nothing stays behind."""
    try:
        lease = await _take(follower, keep=False)
        assert lease is not None  # nobody else can close it
        return lease
    finally:
        follower._dispose()


async def _take(follower: _core.Follower, *, keep: bool) -> _core.ReadLease | None:
    """Return the next lease, or None where the follower is closed."""
    # Programs without a loop do not need it.
    import asyncio

    loop = asyncio.get_running_loop()
    timeout = follower._timeout
    end = None if timeout is None else loop.time() + timeout
    late = timeout == 0
    if not follower.array._is_subscribed:
        # The daemon is asked, and may be slow. The follower may be disposed of meanwhile.
        await loop.run_in_executor(None, follower.array._subscribe, timeout)
    while True:
        lease = follower._try_next(keep)
        if lease is not None or follower.closed:
            return lease
        if late:
            raise _timed_out(follower, timeout)
        late = not await _readable(loop, follower.fileno(), end)


async def _readable(loop: asyncio.AbstractEventLoop, descriptor: int, end: float | None) -> bool:
    """Wait until the descriptor is readable; False: `end` has come first."""
    ready: asyncio.Future[bool] = loop.create_future()

    def note(readable: bool) -> None:
        if not ready.done():
            ready.set_result(readable)

    loop.add_reader(descriptor, note, True)
    timer = None if end is None else loop.call_at(end, note, False)
    try:
        return await ready
    finally:
        if timer is not None:
            timer.cancel()
        if not loop.is_closed():
            loop.remove_reader(descriptor)


def _timed_out(follower: _core.Follower, timeout: float | None) -> Timeout:
    array, last = follower.array, follower.last
    wanted = f"a version above {last}" if last else "a first version"
    current = f"current is {array.version}" if array.version else "none has been published"
    return Timeout(
        f"{wanted} of '{array.name}' did not come within {timeout:.3g} s; {current}",
        f"Is its writer running? memleasectl holders {array.name}",
    )
