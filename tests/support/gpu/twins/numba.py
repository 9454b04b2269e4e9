"""Numba's twin, whose kernels run one thread after the other, on copies of what is on the GPU."""

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, ClassVar

import consumers
import numpy as np
from twin import fetch, here, new_stream, store


class config:  # noqa: N801, its name in Numba
    CUDA_LOW_OCCUPANCY_WARNINGS = 1


class _Kernel:
    def __init__(self, body: Callable[..., None]) -> None:
        self._body = body

    def __getitem__(self, launch: tuple[Any, ...]) -> Callable[..., None]:
        blocks, threads, stream = launch

        def run(*arguments: Any) -> None:
            views = [it for it in arguments if isinstance(it, consumers.View)]
            for view in views:
                assert view.stream == stream.handle
            copies = [fetch(view) for view in views]
            unchanged = [values.copy() for values in copies]
            here_arguments = [copies[views.index(it)] if it in views else it.values
                              for it in arguments]  # fmt: skip
            sizes = [range(b * t) for b, t in zip(blocks, threads, strict=True)]
            for cuda.thread in itertools.product(*sizes):
                self._body(*here_arguments)
            for view, values, before in zip(views, copies, unchanged, strict=True):
                if (values != before).any():
                    store(view, values)

        return run


class _Stream:
    def __init__(self) -> None:
        self.handle = new_stream(0)

    def synchronize(self) -> None:
        here.synchronize(self.handle)


class _DeviceArray:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values.copy()

    def copy_to_host(self, *, stream: _Stream) -> np.ndarray:
        return self.values.copy()


class _Atomic:
    @staticmethod
    def add(array: np.ndarray, index: int, value: float) -> None:
        array[index] += value

    @staticmethod
    def min(array: np.ndarray, index: int, value: float) -> None:
        array[index] = min(array[index], value)

    @staticmethod
    def max(array: np.ndarray, index: int, value: float) -> None:
        array[index] = max(array[index], value)


class cuda:  # noqa: N801
    thread: ClassVar[tuple[int, ...]] = ()
    gpus: ClassVar[defaultdict[int, Any]] = defaultdict(contextlib.nullcontext)
    jit, stream, atomic = _Kernel, _Stream, _Atomic

    @staticmethod
    def grid(dimensions: int) -> tuple[int, ...]:
        assert dimensions == len(cuda.thread)
        return cuda.thread

    @staticmethod
    def to_device(values: np.ndarray, *, stream: _Stream) -> _DeviceArray:
        return _DeviceArray(values)

    @staticmethod
    def as_cuda_array(producer: Any) -> consumers.View:
        return consumers.numba_as_cuda_array(here, producer, 0)
