"""Arrays pickle as references: directory, name and identity, never a handle."""

import os
from typing import Any

from memlease.array import Array
from memlease.client import Client, connect
from memlease.errors import DaemonLost, Withdrawn

# Connections of unpickled arrays, by process and directory.
_clients: dict[tuple[int, str], Client] = {}


def open_reference(directory: str, name: str, array_id: int) -> Array:
    """Open the array that was pickled; `Withdrawn` if another one has its name by now."""
    key = (os.getpid(), directory)
    client = _clients.get(key)
    if client is not None:
        try:
            return _open(client, name, array_id)
        except DaemonLost:  # another one may serve there by now
            _clients.pop(key, None)
    return _open(_clients.setdefault(key, connect(directory, start=False)), name, array_id)


def _open(client: Client, name: str, array_id: int) -> Array:
    array = client.open(name)
    if array.id != array_id:
        array.close()
        raise Withdrawn(
            f"the array '{name}' that was pickled has been withdrawn; another one of that name "
            "stands now",
            f"open it by client.open({name!r}) if that one is meant",
        )
    return array


def forget_clients(directory: str) -> None:
    """Close the connection that unpickled arrays of a directory use."""
    client = _clients.pop((os.getpid(), directory), None)
    if client is not None:
        client.close()


def reduce_array(array: Array) -> tuple[Any, ...]:
    """Pickle an array so that `open_reference` opens it."""
    return open_reference, (array.directory, array.name, array.id)
