"""Measurements of figures.py: an array's next version on another device, beside a copy by CUDA."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np
from gpu_process import Here, Process
from measuring import COPIES, DEVICE_TO_HOST, HOST_TO_DEVICE, SIZE, compared, timed

SLOTS = 2


def _refreshes(here: Here, home: str, there: str) -> list[float]:
    """Return how long the first read of a version takes there, in ms, until its copy is made."""
    array = here.client.create("big", shape=SIZE, dtype="u1", device=home, slots=SLOTS)
    here.kept["big"] = array
    here.kept["replica"] = replica = array.on(there)
    stream = here.stream()
    times = []
    # The first makes the replica, and each slot on the host is registered at its first copy.
    for nth in range(SLOTS + 1 + COPIES):
        version = array.put(np.full(SIZE, nth, "u1"))
        start = time.perf_counter()
        with replica.read(stream=None if there == "host" else stream) as lease:
            assert lease.version == version
        here.synchronize(stream)
        times.append((time.perf_counter() - start) * 1000)
    assert here.client.refused_registrations == 0
    return times[-COPIES:]


def _refreshed(here: Here, direction: int) -> dict[str, Any]:
    devices = ("host", "cuda:0") if direction == HOST_TO_DEVICE else ("cuda:0", "host")
    ours = _refreshes(here, *devices)
    device, pinned = here.pointer("cudaMalloc", SIZE), here.pointer("cudaHostAlloc", SIZE, 0)
    ends = (device, pinned) if direction == HOST_TO_DEVICE else (pinned, device)
    stream = here.stream()

    def copy() -> None:
        size, handle = ctypes.c_size_t(SIZE), ctypes.c_void_p(stream)
        here.call("cudaMemcpyAsync", *ends, size, direction, handle)
        here.synchronize(stream)

    found = compared("ms", ours, timed(copy), "cudaMemcpyAsync, pinned")
    here.call("cudaFreeHost", pinned)
    return found


def refresh_to_a_gpu_64_mib() -> dict[str, Any]:
    """Measure how a GPU gets the next version of an array on the host."""
    return Process().run(_refreshed, HOST_TO_DEVICE)


def refresh_to_the_host_64_mib() -> dict[str, Any]:
    """Measure how the host gets the next version of an array on a GPU."""
    return Process().run(_refreshed, DEVICE_TO_HOST)
