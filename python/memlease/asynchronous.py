"""Waiting in asyncio's event loop: a descriptor for each wait; a thread for a first read alone."""

from __future__ import annotations

import itertools
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never

from memlease import _core
from memlease.errors import Timeout, TooManyHeld

if TYPE_CHECKING:
    import asyncio


_TRIES_AT_ONCE = 3  # behind a descriptor that may be readable for nothing
_FOREVER_S = 1e9


class Reading(Coroutine[Any, Any, _core.ReadLease]):
    """What `Array.read_async` returns: a coroutine, and what ``async with`` takes. Serves once."""

    __slots__ = ("_lease", "_name", "_read")

    def __init__(self, name: str, read: Coroutine[Any, Any, _core.ReadLease]) -> None:
        self._name = name
        self._read = read
        self._lease: _core.ReadLease | None = None

    def __await__(self) -> Generator[Any, Any, _core.ReadLease]:
        """Return the lease."""
        return self._read.__await__()

    def send(self, value: Any) -> Any:
        """Go on, as a task does."""
        return self._read.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an error, as a task does that is cancelled."""
        return self._read.throw(*error)

    def close(self) -> None:
        """End it where it waits, if it does."""
        self._read.close()

    def __enter__(self) -> Never:
        """Raise: it takes ``async with``."""
        self._read.close()
        raise TypeError("read_async() takes `async with` or `await`; `with` takes array.read()")

    def __exit__(self, *error: object) -> Never:
        """Nothing comes here."""
        raise AssertionError

    def __aiter__(self) -> Never:
        """Raise: it gives one lease."""
        self._read.close()
        raise TypeError(
            "read_async() gives one lease, by `await`; for one after the other: async for lease in "
            "array.follow()"
        )

    if not TYPE_CHECKING:  # which would believe that every attribute is there

        def __getattr__(self, name: str) -> Never:
            """Say of what the lease has that it has to be awaited first."""
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if not name.startswith("_") and hasattr(_core.ReadLease, name):
                text += "; await it: lease = await array.read_async(...)"
            raise AttributeError(text, name=name, obj=self)

    def __repr__(self) -> str:
        """Name the array, and say how far the read is."""
        import inspect

        states = {
            inspect.CORO_CREATED: "not awaited yet",
            inspect.CORO_RUNNING: "runs",
            inspect.CORO_SUSPENDED: "waits",
            inspect.CORO_CLOSED: "has ended",
        }
        return f"<read_async() of '{self._name}' {states[inspect.getcoroutinestate(self._read)]}>"

    async def __aenter__(self) -> _core.ReadLease:
        """Return the lease."""
        self._lease = await self._read
        return self._lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release it."""
        assert self._lease is not None
        self._lease.__exit__(kind, value, traceback)


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
    for tries in itertools.count():
        try:
            lease = follower._try_next(keep)
        except TooManyHeld:  # by other threads' leases, which end, or not
            if late:
                raise
            break
        if lease is not None or follower.closed:
            return lease
        if late:
            raise _timed_out(follower, timeout)
        if tries == _TRIES_AT_ONCE:
            break
        late = not await _readable(loop, follower.fileno(), end)
    # A version that has to be copied from another device is told of, and cannot be had at once
    # while others write without a pause, or hold the slots.
    return await _wait_in_thread(loop, follower, keep, end)


async def _wait_in_thread(
    loop: asyncio.AbstractEventLoop, follower: _core.Follower, keep: bool, end: float | None
) -> _core.ReadLease | None:
    """Return the next lease, or None at the end; by a thread, which waits as `__next__` does."""
    import threading

    done: asyncio.Future[_core.ReadLease | None] = loop.create_future()
    left = _FOREVER_S if end is None else max(end - loop.time(), 0.0)

    def note(lease: _core.ReadLease | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(lease)
        else:
            done.set_exception(error)

    def wait() -> None:
        lease, error = None, None
        try:
            lease = follower._next_within(keep, left)
        except BaseException as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(note, lease, error)

    thread = threading.Thread(target=wait, name="memlease-read", daemon=True)
    thread.start()
    try:
        return await done
    except BaseException:
        # A task that is cancelled, or a loop that ends: nobody may use the follower behind it.
        follower._stop_waiting()
        thread.join()
        raise


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
