"""Measurements of figures.py: an array's next version on another device, beside a copy by CUDA."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from gpu_process import Here, Process
from measuring import COPIES, DEVICE_TO_HOST, HOST_TO_DEVICE, SIZE, compared, in_ms

SLOTS = 2


def _refreshed(here: Here, direction: int) -> dict[str, Any]:
    """Measure the first read of each version, and beside it a copy of what was written likewise."""
    home, there = ("host", "cuda:0") if direction == HOST_TO_DEVICE else ("cuda:0", "host")
    array = here.client.create("big", shape=SIZE, dtype="u1", device=home, slots=SLOTS)
    here.kept["big"] = array
    here.kept["replica"] = replica = array.on(there)
    device, pinned = here.pointer("cudaMalloc", SIZE), here.pointer("cudaHostAlloc", SIZE, 0)
    ends = (device, pinned) if direction == HOST_TO_DEVICE else (pinned, device)
    stream = here.stream()

    def read() -> None:
        with replica.read(stream=None if there == "host" else stream) as lease:
            assert lease.version == version
        here.synchronize(stream)

    def copy() -> None:
        size, handle = ctypes.c_size_t(SIZE), ctypes.c_void_p(stream)
        here.call("cudaMemcpyAsync", *ends, size, direction, handle)
        here.synchronize(stream)

    ours, plain = [], []
    # The first makes the replica, and each slot on the host is registered at its first copy.
    for nth in range(SLOTS + 1 + COPIES):
        values = np.full(SIZE, nth, "u1")
        version = array.put(values)
        ours.append(in_ms(read))
        ctypes.memmove(pinned, values.ctypes.data, SIZE)
        plain.append(in_ms(copy))
    assert here.client.refused_registrations == 0
    here.call("cudaFreeHost", pinned)
    return compared("ms", ours[-COPIES:], plain[-COPIES:], "cudaMemcpyAsync, pinned")


def refresh_to_a_gpu_64_mib() -> dict[str, Any]:
    """Measure how a GPU gets the next version of an array on the host."""
    return Process().run(_refreshed, HOST_TO_DEVICE)


def refresh_to_the_host_64_mib() -> dict[str, Any]:
    """Measure how the host gets the next version of an array on a GPU."""
    return Process().run(_refreshed, DEVICE_TO_HOST)
