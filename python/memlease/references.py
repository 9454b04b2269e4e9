"""Arrays pickle as references: directory, name, identity and device, never a handle."""

import functools
import os
from typing import Any, Never

from memlease import _core
from memlease.array import Array
from memlease.client import Client, connect
from memlease.errors import DaemonLost, Error, Withdrawn

# Connections of unpickled arrays, by process and directory.
_clients: dict[tuple[int, str], Client] = {}


def open_reference(directory: str, name: str, array_id: int, device: str) -> Array:
    """Open the array that was pickled.

    An exception here would end pools of processes, which unpickle where nobody catches it: the
    first use of the handle tries again, and raises.
    """
    try:
        return _find(directory, name, array_id, device)
    except Error:
        later = Array.__new__(Array)
        find = functools.partial(_find, directory, name, array_id, device)
        _core.Array.__init__(
            later, directory=directory, name=name, id=array_id, device=device, open=find
        )
        return later


def _find(directory: str, name: str, array_id: int, device: str) -> Array:
    """Open it; `Withdrawn` if another array has its name by now."""
    key = (os.getpid(), directory)
    client = _clients.get(key)
    if client is not None:
        try:
            return _open(client, name, array_id, device)
        except DaemonLost:  # another one may serve there by now
            _clients.pop(key, None)
    client = _clients.setdefault(key, connect(directory, start=False))
    return _open(client, name, array_id, device)


def _open(client: Client, name: str, array_id: int, device: str) -> Array:
    array = client.open(name)
    if array.id != array_id:
        array.close()
        raise Withdrawn(
            f"the array '{name}' that was pickled has been withdrawn; another one of that name "
            "exists now",
            f"open it by client.open({name!r}) if that one is meant",
        )
    return array.on(device)


def forget_clients(directory: str) -> None:
    """Close the connection that unpickled arrays of a directory use."""
    client = _clients.pop((os.getpid(), directory), None)
    if client is not None:
        client.close()


def refuse_follower(_follower: _core.Follower) -> Never:
    """Say what to pickle in place of a follower."""
    raise TypeError(
        "a follower belongs to its process and cannot be pickled or copied: pickle the array "
        "handle and call follow() on it there, with after=follower.last to go on from here"
    )


def reduce_array(array: Array) -> tuple[Any, ...]:
    """Pickle an array so that `open_reference` opens it."""
    return open_reference, (array.directory, array.name, array.id, array.device)
