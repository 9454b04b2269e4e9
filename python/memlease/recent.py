"""`RecentArrays`: the arrays that a client was last asked for by `get` and `put`, kept open."""

import contextlib
import os
import threading
from collections import OrderedDict

from memlease import _core
from memlease.array import Array
from memlease.errors import Error

MOST = 64


class RecentArrays:
    """Handles of its own, so that the next `get` or `put` of the same name opens nothing.

    Of arrays in host memory: their bytes go when they are withdrawn, whoever has a handle. What has
    been opened of a GPU's memory would stay there. Thread-safe.
    """

    __slots__ = ("_arrays", "_lock", "_pid")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._arrays: OrderedDict[str, Array] = OrderedDict()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def keep(self, core: _core.Client, array: Array) -> None:
        """Note that the client has just got or put it."""
        if self._pid != os.getpid():  # a forked child, in which the parent's handles open nothing
            self._begin()
        name = array.name
        with self._lock:
            kept = self._arrays.get(name)
            if kept is not None and kept.id == array.id and not kept.closed:
                self._arrays.move_to_end(name)
                return
        if array.device == "host":
            with contextlib.suppress(Error):  # it has been withdrawn meanwhile
                self._add(Array(core.open(name, None)))

    def _add(self, array: Array) -> None:
        with self._lock:
            gone = [self._arrays.pop(array.name, None)]
            self._arrays[array.name] = array
            if len(self._arrays) > MOST:
                gone.append(self._arrays.popitem(last=False)[1])
        del gone  # which may call the daemon, and so not with the lock

    def clear(self) -> None:
        """Close all."""
        with self._lock:
            gone, self._arrays = self._arrays, OrderedDict()
        del gone
