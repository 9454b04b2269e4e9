"""Questions about which calls make a context on which GPU, and what one costs."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

from asking import Handle, error_of, process, question
from gpu_process import Cuda

_AT_ONCE = 4


class Bare(Cuda):
    """A process that has called nothing of CUDA's yet."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcudart.so.13")
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.kept: dict[str, Any] = {}

    def close(self) -> None:
        """Leave it as it is."""

    def contexts(self) -> list[int]:
        """Return the GPUs on which this process has its primary context."""
        count, made = ctypes.c_int(), []
        assert self.driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        for nth in range(count.value):
            flags, is_active = ctypes.c_uint(), ctypes.c_int()
            error = self.driver.cuDevicePrimaryCtxGetState(
                nth, ctypes.byref(flags), ctypes.byref(is_active)
            )
            assert error == 0, f"cuDevicePrimaryCtxGetState: {error}"
            if is_active.value:
                made.append(nth)
        return made


def _is_here(here: Bare) -> None:
    """Do nothing."""


def _devices(here: Bare) -> int:
    return here.devices()


def _export_on(here: Cuda, device: int) -> bytes:
    here.call("cudaSetDevice", device)
    made = here.pointer("cudaMalloc", 2 << 20)
    handle = Handle()
    here.call("cudaIpcGetMemHandle", ctypes.byref(handle), made)
    return bytes(handle)


def _steps(here: Bare, device: int, raw: bytes) -> list[tuple[str, Callable[[], int]]]:
    """Return what a process does that uses this GPU alone, each with its name."""
    cuda, number = here.cuda, ctypes.byref(ctypes.c_int())
    opened, event = ctypes.byref(ctypes.c_void_p()), ctypes.byref(ctypes.c_void_p())
    handle = Handle.from_buffer_copy(raw)
    return [
        ("cuInit", lambda: here.driver.cuInit(0)),
        ("cudaGetDeviceCount", lambda: cuda.cudaGetDeviceCount(number)),
        ("cudaDeviceGetAttribute", lambda: cuda.cudaDeviceGetAttribute(number, 125, device)),
        ("cudaGetDevice", lambda: cuda.cudaGetDevice(number)),
        (f"cudaSetDevice({device})", lambda: cuda.cudaSetDevice(device)),
        ("cudaIpcOpenMemHandle", lambda: cuda.cudaIpcOpenMemHandle(opened, handle, 1)),
        ("cudaEventCreateWithFlags", lambda: cuda.cudaEventCreateWithFlags(event, 6)),
        ("cudaGetDevice again", lambda: cuda.cudaGetDevice(number)),
        ("cudaSetDevice(0)", lambda: cuda.cudaSetDevice(0)),
    ]


def _contexts_after(here: Bare, device: int, raw: bytes) -> dict[str, str]:
    found = {}
    for name, step in _steps(here, device, raw):
        error = step()
        made = ", ".join(map(str, here.contexts())) or "none"
        found[name] = made if error == 0 else f"{made} ({error_of(here, error)})"
    return found


@question(30)
def contexts_made() -> dict[str, Any]:
    """Name the step of a process with the last GPU alone that makes a context, and on which."""
    owner, user = process(), process(Bare)
    device = process(Bare).run(_devices) - 1
    found = user.run(_contexts_after, device, owner.run(_export_on, device))
    first = {nth: next((step for step, it in found.items() if str(nth) in it.split(" (")[0]),
                       "no step")
             for nth in sorted({0, device})}  # fmt: skip
    told = "; ".join(f"on device {nth} by {step}" for nth, step in first.items())
    if device == 0:
        told = f"one GPU, so nothing about a second; {told}"
    return {"answer": told, "contexts on devices, after": found}


def _make_context(here: Bare) -> list[float]:
    """Make the primary context; return the ms that the driver's start took, and both."""
    start = time.perf_counter()
    assert (error := here.driver.cuInit(0)) == 0, f"cuInit: {error}"
    began = time.perf_counter()
    here.call("cudaFree", None)
    end = time.perf_counter()
    return [round((it - start) * 1000, 1) for it in (began, end)]


@question(30)
def context_time() -> dict[str, Any]:
    """Measure how long a context takes, alone, and where some processes make theirs at once."""
    alone, *others = (process(Bare) for _ in range(1 + _AT_ONCE))
    for one in others:
        one.run(_is_here)  # so that they are up
    started, total = alone.run(_make_context)
    begin = time.perf_counter()
    for one in others:
        one.start(_make_context)
    each = [one.result()[1] for one in others]
    ms = (time.perf_counter() - begin) * 1000
    return {
        "answer": f"{total:.0f} ms alone; {_AT_ONCE} at once: {ms:.0f} ms",
        "of which cuInit, ms": started,
        "each of those at once, ms": each,
    }


def _free_mib(here: Cuda) -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    here.call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    return free.value >> 20


def _is_up(here: Cuda) -> bool:
    return bool(here.stream())


@question(30)
def memory_of_a_context() -> dict[str, Any]:
    """Measure how much of a GPU's memory a process takes that does nothing with it.

    Others who use the GPU meanwhile spoil the answer.
    """
    watcher = process()
    before = watcher.run(_free_mib)
    one = process()
    one.run(_is_up)
    between = watcher.run(_free_mib)
    one.kill()
    after = watcher.run(_free_mib)
    return {
        "answer": f"{before - between} MiB",
        "free before, while, after": [before, between, after],
    }
