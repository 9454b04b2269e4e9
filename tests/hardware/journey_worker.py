"""A process of the journey: follows the publisher's field with a library, and says what it sees.

journey_worker.py LIBRARY NAME      a JSON line for each version: its number, lowest, highest value
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import memlease

Seen = tuple[int, float, float]


def with_cupy(field: memlease.Array) -> Iterator[Seen]:
    import cupy

    with cupy.cuda.Device(field.device_ordinal), cupy.cuda.Stream(non_blocking=True) as stream:
        for lease in field.follow(stream=stream):
            values = cupy.from_dlpack(lease.dlpack(readonly_ok=True))
            yield lease.version, values.min().item(), values.max().item()


def with_torch(field: memlease.Array) -> Iterator[Seen]:
    import torch

    stream = torch.cuda.Stream(field.device_ordinal)
    with torch.cuda.stream(stream):
        for lease in field.follow(stream=stream):
            values = torch.from_dlpack(lease)
            yield lease.version, values.min().item(), values.max().item()


def with_jax(field: memlease.Array) -> Iterator[Seen]:
    import jax.numpy as jnp

    for lease in field.follow():
        values = jnp.from_dlpack(lease.dlpack(readonly_ok=True))
        seen = lease.version, values.min().item(), values.max().item()
        values.delete()  # before its lease ends
        yield seen


def with_numba(field: memlease.Array) -> Iterator[Seen]:
    import numpy as np
    from numba import cuda

    @cuda.jit
    def extremes(values, found):  # type: ignore[no-untyped-def]
        row, column = cuda.grid(2)
        if row < values.shape[0] and column < values.shape[1]:
            cuda.atomic.min(found, 0, values[row, column])
            cuda.atomic.max(found, 1, values[row, column])

    blocks, threads = (field.shape[0] // 16 + 1, field.shape[1] // 16 + 1), (16, 16)
    with cuda.gpus[field.device_ordinal]:
        stream = cuda.stream()
        for lease in field.follow(stream=stream):
            found = cuda.to_device(np.array([np.inf, -np.inf], "float32"), stream=stream)
            extremes[blocks, threads, stream](cuda.as_cuda_array(lease), found)
            found = found.copy_to_host(stream=stream)
            stream.synchronize()
            yield lease.version, *map(float, found)


FOLLOWERS = {"cupy": with_cupy, "torch": with_torch, "jax": with_jax, "numba": with_numba}


def _say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    """Follow until the publisher ends."""
    library, name = sys.argv[1:]
    with memlease.connect(start=False) as client:
        field = client.wait_for(name, timeout=60)
        _say("open")
        try:
            for seen in FOLLOWERS[library](field):
                _say(seen)
        except memlease.Withdrawn:
            _say("withdrawn")


if __name__ == "__main__":
    main()
