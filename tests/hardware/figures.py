"""Times, each beside that of the same thing done with CUDA alone: `figures.py` prints JSON lines.

Absolute times are this machine's; the ratios are what memlease adds.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memlease
import numpy as np
from gpu_process import Cuda, Here, Process
from memlease.testing import Daemon

ROUNDS = 50
SPIN_US = 5000
SIZE = 64 << 20
_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2


def _stamps(here: Cuda) -> int:
    if "stamps" not in here.kept:
        here.kept["stamps"] = here.pointer("cudaMalloc", 8 * ROUNDS)
    return here.kept["stamps"].value or 0


def _read_stamps(here: Cuda) -> list[int]:
    read = (ctypes.c_uint64 * ROUNDS)()
    here.synchronize()
    here.call("cudaMemcpy", read, ctypes.c_void_p(_stamps(here)), ctypes.c_size_t(8 * ROUNDS), 2)
    return list(read)


# ---- From the end of one kernel to the start of the next.


def _create(here: Here) -> None:
    _stamps(here)
    here.kept["a"] = here.client.create("a", shape=1000, dtype="u8", device="cuda", slots=4)


def _begin(here: Here) -> None:
    _stamps(here)
    stream = here.stream()
    here.kept["a"] = here.client.open("a")
    here.kept["follower"] = here.kept["a"].follow(timeout=20, stream=stream)


def _consume(here: Here) -> list[int]:
    stream, stamps = here.stream(), _stamps(here)
    for nth in range(ROUNDS):
        lease = next(here.kept["follower"])
        here.stamp(stamps + 8 * nth, stream)
        lease.release(stream)
    return _read_stamps(here)


def _produce(here: Here, spin_us: int) -> list[int]:
    stream, stamps = here.stream(), _stamps(here)
    for nth in range(ROUNDS):
        with here.kept["a"].write(stream=stream):
            if spin_us:
                here.spin(stream, spin_us)
            here.stamp(stamps + 8 * nth, stream)
        here.synchronize(stream)
        time.sleep(0.005)  # the follower is to see each version
    return _read_stamps(here)


def _in_one_process(here: Cuda, spin_us: int) -> list[float]:
    """Two streams and an event, as one would write it without memlease."""
    one, other = here.stream("one"), here.stream("other")
    event = ctypes.c_void_p()
    here.call("cudaEventCreateWithFlags", ctypes.byref(event), 2)
    pair = here.pointer("cudaMalloc", 16)
    times = []
    for _ in range(ROUNDS):
        if spin_us:
            here.spin(one, spin_us)
        here.stamp(pair.value or 0, one)
        here.call("cudaEventRecord", event, ctypes.c_void_p(one))
        here.call("cudaStreamWaitEvent", ctypes.c_void_p(other), event, 0)
        here.stamp((pair.value or 0) + 8, other)
        here.synchronize()
        read = (ctypes.c_uint64 * 2)()
        here.call("cudaMemcpy", read, pair, ctypes.c_size_t(16), 2)
        times.append((read[1] - read[0]) / 1000)
    return times


def _handed_over(spin_us: int) -> dict[str, Any]:
    writer, reader = Process(), Process()
    writer.run(_create)
    reader.run(_begin)
    reader.start(_consume)
    before = writer.run(_produce, spin_us)
    times = [(late - early) / 1000 for early, late in zip(before, reader.result(), strict=True)]
    return _compared("us", times, Process(Cuda).run(_in_one_process, spin_us))


def handed_over_at_once() -> dict[str, Any]:
    """Measure from a kernel's end to the start of one in another process, which is told then."""
    return _handed_over(0)


def handed_over_behind_work() -> dict[str, Any]:
    """Measure it where the other process's stream waits already, as kernels take their time."""
    return _handed_over(SPIN_US)


# ---- Opening.


def _make_many(here: Here) -> None:
    for nth in range(ROUNDS):
        name = f"many/{nth}"
        here.kept[name] = here.client.create(name, shape=1000, dtype="u8", device="cuda", fill=1)


def _open_many(here: Here) -> list[float]:
    times = []
    for nth in range(ROUNDS):
        start = time.perf_counter()
        here.kept[f"many/{nth}"] = here.client.open(f"many/{nth}")
        times.append((time.perf_counter() - start) * 1e6)
    return times


def opened() -> dict[str, Any]:
    """Measure the opening of an array: the first, which opens memory and events, and later ones."""
    writer, reader = Process(), Process()
    writer.run(_make_many)
    times = reader.run(_open_many)
    return _compared("us", times[1:], times[:1], ("cached segment", "first"))


# ---- Copying.


def _timed(function: Callable[[], Any]) -> list[float]:
    function()
    times = []
    for _ in range(10):
        start = time.perf_counter()
        function()
        times.append((time.perf_counter() - start) * 1000)
    return times


def _copies(here: Here) -> dict[str, Any]:
    host = np.ones(SIZE, "u1")
    array = here.client.create("big", shape=SIZE, dtype="u1", device="cuda", slots=2)
    here.kept["big"] = array
    device = here.pointer("cudaMalloc", SIZE)
    stream = here.stream()

    def copy(to: Any, of: Any, kind: int) -> None:
        handle = ctypes.c_void_p(stream)
        here.call("cudaMemcpyAsync", to, of, ctypes.c_size_t(SIZE), kind, handle)
        here.synchronize(stream)

    address = ctypes.c_void_p(host.ctypes.data)
    put = _timed(lambda: array.put(host))
    plain_put = _timed(lambda: copy(device, address, _HOST_TO_DEVICE))
    get = _timed(lambda: array.get(host))
    plain_get = _timed(lambda: copy(address, device, _DEVICE_TO_HOST))
    here.call("cudaFree", device)
    return {"put": _compared("ms", put, plain_put), "get": _compared("ms", get, plain_get)}


def copied_64_mib() -> dict[str, Any]:
    """Measure put() and get() beside cudaMemcpyAsync, of pageable memory."""
    return Process().run(_copies)


def _compared(
    unit: str,
    ours: list[float],
    plain: list[float],
    names: tuple[str, str] = ("memlease", "CUDA alone"),
) -> dict[str, Any]:
    one, other = statistics.median(ours), statistics.median(plain)
    return {
        f"{names[0]}, {unit}": round(one, 2),
        f"{names[1]}, {unit}": round(other, 2),
        "ratio": round(one / other, 2) if other else None,
    }


FIGURES = [handed_over_at_once, handed_over_behind_work, opened, copied_64_mib]


def main() -> None:
    """Measure one after the other, each with a daemon of its own."""
    for figure in FIGURES:
        with tempfile.TemporaryDirectory(prefix="memlease-") as folder:
            directory = f"{folder}/run"
            daemon = Daemon(directory, Path(folder, "log"))
            os.environ["MEMLEASE_DIR"] = directory
            try:
                found: Any = figure()
            except BaseException as error:  # the others are measured still
                found = f"failed: {(str(error).strip().splitlines() or [repr(error)])[-1]}"
            finally:
                daemon.kill()
        print(json.dumps({figure.__name__: found}), flush=True)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    assert memlease.__version__
    main()
