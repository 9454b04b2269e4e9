"""Measurements of figures.py: memlease, and beside it the same thing done with CUDA alone.

Absolute times are this machine's; the ratios are what memlease adds.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from asking import export_memory, make_event, open_event, open_memory, record
from gpu_process import Cuda, Here, Process

ROUNDS = 50
SPIN_US = 5000
COPIES = 10
PROCESSES = 5
SIZE = 64 << 20
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2  # of cudaMemcpyAsync

Numbers = dict[str, float]


def spread(values: list[float]) -> Numbers:
    """Return count, smallest, median, and what one in ten exceeds."""
    ordered = sorted(values)
    p90 = ordered[min(len(ordered) - 1, round(0.9 * len(ordered)))]
    numbers = {"min": ordered[0], "median": statistics.median(ordered), "p90": p90}
    return {"n": len(ordered), **{name: round(it, 2) for name, it in numbers.items()}}


def compared(
    unit: str, ours: list[float], plain: list[float], plain_name: str = "CUDA alone"
) -> dict[str, Any]:
    """Return both, and how the medians relate."""
    one, other = spread(ours), spread(plain)
    ratio = round(one["median"] / other["median"], 2) if other["median"] else None
    return {f"memlease, {unit}": one, f"{plain_name}, {unit}": other, "ratio": ratio}


def stamps_of(here: Cuda) -> int:
    if "stamps" not in here.kept:
        here.kept["stamps"] = here.pointer("cudaMalloc", 8 * ROUNDS)
    return here.kept["stamps"].value or 0


def read_stamps(here: Cuda) -> list[int]:
    read = (ctypes.c_uint64 * ROUNDS)()
    here.synchronize()
    here.call("cudaMemcpy", read, ctypes.c_void_p(stamps_of(here)), ctypes.c_size_t(8 * ROUNDS), 2)
    return list(read)


# ---- From the end of one kernel to the start of the next.


def _create(here: Here) -> None:
    stamps_of(here)
    here.stream()
    here.kept["a"] = here.client.create("a", shape=1000, dtype="u8", device="cuda", slots=4)


def _begin(here: Here) -> None:
    stamps_of(here)
    stream = here.stream()
    here.kept["a"] = here.client.open("a")
    here.kept["follower"] = here.kept["a"].follow(timeout=20, stream=stream)


def _consume(here: Here) -> dict[int, int]:
    """Return when the kernel for each version that was seen has run."""
    stream, stamps, seen = here.stream(), stamps_of(here), []
    while not seen or seen[-1] < ROUNDS:
        lease = next(here.kept["follower"])
        seen.append(lease.version)
        here.stamp(stamps + 8 * (lease.version - 1), stream)
        lease.release(stream)
    all_stamps = read_stamps(here)
    return {version: all_stamps[version - 1] for version in seen}


def _produce(here: Here, spin_us: int) -> dict[int, int]:
    stream, stamps = here.stream(), stamps_of(here)
    for nth in range(ROUNDS):
        with here.kept["a"].write(stream=stream):
            if spin_us:
                here.spin(stream, spin_us)
            here.stamp(stamps + 8 * nth, stream)
        here.synchronize(stream)
        time.sleep(0.005)  # so that the follower skips few
    return {nth + 1: stamp for nth, stamp in enumerate(read_stamps(here))}


# The same by CUDA alone, in two processes: GPUs go from one process's kernels to another's slowly.


def _record_plainly(here: Cuda, nth: int, spin_us: int) -> None:
    if spin_us:
        here.spin(here.stream(), spin_us)
    here.stamp(stamps_of(here) + 8 * nth, here.stream())
    record(here)


def _wait_plainly(here: Cuda, nth: int) -> None:
    stream = here.stream()
    here.call("cudaStreamWaitEvent", ctypes.c_void_p(stream), here.kept["event"], 0)
    here.stamp(stamps_of(here) + 8 * nth, stream)


def _handed_over_plainly(one: Process, other: Process, spin_us: int) -> list[float]:
    other.run(open_event, one.run(make_event))
    for nth in range(ROUNDS):
        one.run(_record_plainly, nth, spin_us)
        other.run(_wait_plainly, nth)
        other.run(Cuda.synchronize)
    before, after = one.run(read_stamps), other.run(read_stamps)
    return [(end - begin) / 1000 for begin, end in zip(before, after, strict=True)]


def _in_one_process(here: Cuda, spin_us: int) -> list[float]:
    """Two streams and an event: what no two processes can do."""
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
    before, after = writer.run(_produce, spin_us), reader.result()
    times = [(after[version] - before[version]) / 1000 for version in after]
    plain = _handed_over_plainly(writer, reader, spin_us)  # a process costs a second on a GPU
    return {
        **compared("us", times, plain, "CUDA alone, two processes"),
        "two streams of one process, us": spread(writer.run(_in_one_process, spin_us)),
    }


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


def _open_many(here: Here, count: int) -> list[float]:
    here.client.list()  # the first call of a process takes longer than any other
    here.stream()
    times = []
    for nth in range(count):
        start = time.perf_counter()
        here.kept[f"many/{nth}"] = here.client.open(f"many/{nth}")
        times.append((time.perf_counter() - start) * 1e6)
    return times


def _open_plainly(here: Cuda, memory: bytes, event: bytes) -> float:
    here.stream()
    start = time.perf_counter()
    open_memory(here, memory)
    open_event(here, event)
    return (time.perf_counter() - start) * 1e6


def _opened_plainly() -> list[float]:
    """Open memory and an event for the first time, in some processes."""
    owner = Process(Cuda)
    handles = owner.run(export_memory, 7), owner.run(make_event)
    return [Process(Cuda).run(_open_plainly, *handles) for _ in range(PROCESSES)]


def first_opening() -> dict[str, Any]:
    """Measure a process's first opening of an array, which opens memory and events."""
    writer = Process()
    writer.run(_make_many)
    times = [Process().run(_open_many, 1)[0] for _ in range(PROCESSES)]
    return compared("us", times, _opened_plainly(), "memory and an event by CUDA alone")


def opening_in_a_cached_segment() -> dict[str, Any]:
    """Measure the opening of an array whose memory the process has opened already."""
    writer = Process()
    writer.run(_make_many)
    times = Process().run(_open_many, ROUNDS)[1:]
    return compared("us", times, _opened_plainly(), "memory and an event by CUDA alone")


# ---- Copying.


def in_ms(function: Callable[[], Any]) -> float:
    """Return how long it takes, in ms."""
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1000


def timed(*functions: Callable[[], Any]) -> list[list[float]]:
    """Return how long each takes, in ms. They take turns, and the first turn does not count."""
    times: list[list[float]] = [[] for _ in functions]
    for turn in range(COPIES + 1):
        for function, its in zip(functions, times, strict=True):
            took = in_ms(function)
            if turn:
                its.append(took)
    return times


def _copies(here: Here, direction: int) -> dict[str, Any]:
    host = np.ones(SIZE, "u1")
    array = here.client.create("big", shape=SIZE, dtype="u1", device="cuda", slots=2)
    here.kept["big"] = array
    device, stream = here.pointer("cudaMalloc", SIZE), here.stream()
    address = ctypes.c_void_p(host.ctypes.data)
    ends = (device, address) if direction == HOST_TO_DEVICE else (address, device)

    def copy() -> None:
        handle = ctypes.c_void_p(stream)
        here.call("cudaMemcpyAsync", *ends, ctypes.c_size_t(SIZE), direction, handle)
        here.synchronize(stream)

    array.put(host)
    ours = array.put if direction == HOST_TO_DEVICE else array.get
    return compared("ms", *timed(lambda: ours(host), copy), "cudaMemcpyAsync")


def put_64_mib() -> dict[str, Any]:
    """Measure put() of pageable memory."""
    return Process().run(_copies, HOST_TO_DEVICE)


def get_64_mib() -> dict[str, Any]:
    """Measure get() into pageable memory."""
    return Process().run(_copies, DEVICE_TO_HOST)
