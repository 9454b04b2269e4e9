"""Measurements of figures.py: kernels on a leased array, beside what they should be as fast as."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from fakecuda_build import IS_STAND_IN
from gpu_process import Cells, Cuda, Here, Process
from measuring import COPIES, compared, read_stamps, stamps_of

# uint64 of 3 dimensions: 256 MiB, which no GPU's cache has room for.
SHAPE = (64, 128, 128) if IS_STAND_IN else (256, 256, 512)
COUNT = SHAPE[0] * SHAPE[1] * SHAPE[2]
SIZE = 8 * COUNT
IN_A_ROW = 10  # between two looks at the GPU's clock
_DEVICE_TO_DEVICE = 3


def _gb_per_s(here: Cuda, once: Callable[[int], None]) -> float:
    """Do what reads and writes SIZE bytes some times on a stream; return how fast that went."""
    stream, stamps = here.stream(), stamps_of(here)
    here.stamp(stamps, stream)
    for _ in range(IN_A_ROW):
        once(stream)
    here.stamp(stamps + 8, stream)
    begin, end = read_stamps(here)[:2]
    return 2 * SIZE * IN_A_ROW / (end - begin)


def _bandwidths(
    here: Here, on_lease: Callable[[int, int], None], beside: Callable[[int], None]
) -> tuple[list[float], list[float]]:
    """Return how fast a kernel is on a leased array, and what is done beside it on the same GPU."""
    array = here.client.create("big", shape=SHAPE, dtype="u8", device="cuda", slots=1, fill=0)
    here.kept["big"] = array
    leased, plain = [], []
    for _ in range(COPIES + 1):  # the first is to warm up
        plain.append(_gb_per_s(here, beside))
        with array.write(stream=here.stream()) as lease:
            address = lease.__cuda_array_interface__["data"][0]
            leased.append(_gb_per_s(here, lambda stream, at=address: on_lease(at, stream)))
    return leased[1:], plain[1:]


def _kernel_beside_itself(here: Here) -> tuple[list[float], list[float]]:
    own = here.pointer("cudaMalloc", SIZE).value or 0

    def kernel(address: int, stream: int) -> None:
        here.add(address, COUNT, 1, stream)

    return _bandwidths(here, kernel, lambda stream: kernel(own, stream))


def bandwidth_of_a_kernel() -> dict[str, Any]:
    """Measure a kernel on a leased array and on memory of its process's own."""
    return compared("GB/s", *Process().run(_kernel_beside_itself), "its own cudaMalloc")


def _kernel_beside_a_copy(here: Here) -> tuple[list[float], list[float]]:
    one, other = (here.pointer("cudaMalloc", SIZE) for _ in range(2))

    def kernel(address: int, stream: int) -> None:
        here.add_index_tuple(Cells.compact(SHAPE, address), stream)

    def copy(stream: int) -> None:
        handle, size = ctypes.c_void_p(stream), ctypes.c_size_t(SIZE)
        here.call("cudaMemcpyAsync", one, other, size, _DEVICE_TO_DEVICE, handle)

    return _bandwidths(here, kernel, copy)


def add_index_tuple_beside_a_copy() -> dict[str, Any]:
    """Measure the kernel of memlease/kernels.h on a leased array, and a copy on the GPU.

    Both read and write each byte once.
    """
    return compared("GB/s", *Process().run(_kernel_beside_a_copy), "cudaMemcpyAsync")


def _add_index_tuple_beside_itself(here: Here) -> tuple[list[float], list[float]]:
    own = here.pointer("cudaMalloc", SIZE).value or 0

    def kernel(address: int, stream: int) -> None:
        here.add_index_tuple(Cells.compact(SHAPE, address), stream)

    return _bandwidths(here, kernel, lambda stream: kernel(own, stream))


def add_index_tuple_beside_itself() -> dict[str, Any]:
    """Measure the kernel of memlease/kernels.h on a leased array and on other memory."""
    return compared("GB/s", *Process().run(_add_index_tuple_beside_itself), "its own cudaMalloc")
