"""The sea's levels at a few cells, read with NumPy from the ranks' own memory.

What is on a GPU is copied to the host for that; `torch_levels` reads it where it is.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import memlease
import numpy as np
from surface import on_host

Place = tuple[int, int, int]  # rank, row, column


class NumpyLevels:
    """One row for each step, one column for each place."""

    library = "NumPy"

    def __init__(self) -> None:
        self._rows: list[list[float]] = []

    def stream_on(self, gpu: int) -> Any:
        """Return the stream that leases of arrays on this GPU take; None: the host waits."""
        return None

    def within(self, streams: list[Any]) -> AbstractContextManager[Any]:
        """Return the block that `look` is called in, given what `stream_on` made."""
        return nullcontext()

    def look(self, parts: list[memlease.ReadLease], places: list[Place]) -> None:
        surfaces = [on_host(part) for part in parts]
        self._rows.append([surfaces[rank][row, column] for rank, row, column in places])

    def table(self) -> np.ndarray:
        return np.array(self._rows)
