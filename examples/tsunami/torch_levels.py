"""The sea's levels, read with PyTorch: each tensor is the ranks' own memory, through DLPack.

On a GPU it reads in a stream that waits for the ranks', and the host for nothing; a PyTorch without
CUDA reads copies.
"""

from contextlib import ExitStack
from typing import Any

import memlease
import numpy as np
import torch
from levels import NumpyLevels, Place
from surface import is_on_gpu, on_host


class TorchLevels(NumpyLevels):
    library = "PyTorch"

    def __init__(self) -> None:
        torch.set_num_threads(1)  # six cells a step need no pool, and the ranks need the cores
        self._rows: list[torch.Tensor] = []  # a GPU's stay there until the end

    def stream_on(self, gpu: int) -> torch.cuda.Stream | None:
        return torch.cuda.Stream(gpu) if torch.cuda.is_available() else None

    def within(self, streams: list[Any]) -> ExitStack:
        with ExitStack() as entered:
            for stream in streams:
                entered.enter_context(torch.cuda.stream(stream))
            return entered.pop_all()

    def look(self, parts: list[memlease.ReadLease], places: list[Place]) -> None:
        surfaces = [_tensor_of(part) for part in parts]
        home = surfaces[0].device
        self._rows.append(
            torch.stack([surfaces[rank][row, column].to(home) for rank, row, column in places])
        )

    def table(self) -> np.ndarray:
        return torch.stack(self._rows).cpu().numpy()


def _tensor_of(part: memlease.ReadLease) -> torch.Tensor:
    if is_on_gpu(part) and not torch.cuda.is_available():
        return torch.from_numpy(on_host(part))
    return torch.from_dlpack(part)
