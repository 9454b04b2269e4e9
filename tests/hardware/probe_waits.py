"""Questions about calls that may wait for what runs on the GPU."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from asking import (
    close_event,
    close_memory,
    error_of,
    export_memory,
    is_busy,
    make_event,
    open_event,
    open_memory,
    process,
    question,
    record,
    record_behind_a_kernel,
    state,
    state_within,
)
from gpu_process import Cuda

_BUSY_MS = 400
_WAITED_MS = 0.75 * _BUSY_MS
_PREPARED = {"close_memory": "open_memory", "close_event": "open_event"}


def _open_memory(here: Cuda) -> None:
    open_memory(here, here.kept["handles"][0])


def _close_memory(here: Cuda) -> None:
    assert close_memory(here).startswith("0 ")


def _open_event(here: Cuda) -> None:
    open_event(here, here.kept["handles"][1])


def _close_event(here: Cuda) -> None:
    assert close_event(here).startswith("0 ")


_CALLS = {
    "open_memory": _open_memory,
    "close_memory": _close_memory,
    "open_event": _open_event,
    "close_event": _close_event,
}


def _make_one(here: Cuda) -> tuple[bytes, bytes]:
    """Return handles of memory and of an event which nobody has opened before."""
    here.kept[f"keep {len(here.kept)}"] = here.kept.get("event")
    return export_memory(here, 7), make_event(here)


def _prepare(here: Cuda, call: str, handles: tuple[bytes, bytes], others: bytes) -> None:
    """Do what comes before the call, while nothing is busy."""
    open_event(here, others)
    here.kept["of another"] = here.kept["event"]
    here.kept["handles"] = handles
    if call in _PREPARED:
        _CALLS[_PREPARED[call]](here)


def _is_busy_itself(here: Cuda, call: str) -> None:
    here.spin(here.stream(), _BUSY_MS * 1000)
    if call == "close_event":
        record(here)  # one that is pending then


def _waits_for_another(here: Cuda, _: str) -> None:
    handle = ctypes.c_void_p(here.stream())
    here.call("cudaStreamWaitEvent", handle, here.kept["of another"], 0)


def _timed(here: Cuda, call: str) -> tuple[float, bool]:
    """Return the ms that the call took, and whether this process's stream was busy after it."""
    start = time.monotonic()
    _CALLS[call](here)
    ms = (time.monotonic() - start) * 1000
    return round(ms, 2), is_busy(state(here))


def _what_waits(call: str) -> dict[str, Any]:
    """Measure the call alone, and while something is busy that it may wait for."""
    owner, user, other = process(), process(), process()
    others = other.run(make_event)
    found: dict[str, float] = {}
    waited = []
    for busy, of_another, itself in (
        ("nothing", False, None),
        ("kernels of its own process", False, _is_busy_itself),
        ("kernels of another process", True, None),
        ("streams of its own that wait for another process", True, _waits_for_another),
    ):
        user.run(_prepare, call, owner.run(_make_one), others)
        if of_another:
            other.run(record_behind_a_kernel, _BUSY_MS)
        if itself:
            user.run(itself, call)
        found[busy], still = user.run(_timed, call)
        if not itself:
            still = is_busy(other.run(state))
        if found[busy] > _WAITED_MS and not still:
            waited.append(busy)
        for one in (other, user):
            assert one.run(state_within, 5.0).startswith("0 ")
    told = ", ".join(waited) or "nothing"
    if "nothing" in waited:
        told = "unknown: it is slow where nothing is busy"
    return {"answer": told, f"ms, of {_BUSY_MS}": found}


@question(25)
def open_memory_waits_for() -> dict[str, Any]:
    """Tell what cudaIpcOpenMemHandle waits for."""
    return _what_waits("open_memory")


@question(25)
def close_memory_waits_for() -> dict[str, Any]:
    """Tell what cudaIpcCloseMemHandle waits for."""
    return _what_waits("close_memory")


@question(25)
def open_event_waits_for() -> dict[str, Any]:
    """Tell what cudaIpcOpenEventHandle waits for."""
    return _what_waits("open_event")


@question(25)
def close_event_waits_for() -> dict[str, Any]:
    """Tell what cudaEventDestroy of an opened event waits for."""
    return _what_waits("close_event")


# ---- Asking, and waiting not.


def _errors_of_queries(here: Cuda) -> dict[str, str]:
    """Ask while a kernel runs, and look what CUDA remembers of it."""
    here.stream()
    make_event(here)
    record_behind_a_kernel(here, _BUSY_MS)
    stream, event = ctypes.c_void_p(here.stream()), here.kept["event"]
    found = {}
    for call, what in (("cudaStreamQuery", stream), ("cudaEventQuery", event)):
        here.cuda.cudaGetLastError()
        found[call] = error_of(here, getattr(here.cuda, call)(what))
        found[f"cudaPeekAtLastError after {call}"] = error_of(here, here.cuda.cudaPeekAtLastError())
        found[f"cudaGetLastError after {call}"] = error_of(here, here.cuda.cudaGetLastError())
        found["the next"] = error_of(here, here.cuda.cudaGetLastError())
    assert is_busy(state(here)), "the kernel ended too early"
    return found


@question(20)
def not_ready_is_an_error() -> dict[str, str]:
    """Tell whether "not ready", the answer of a query, is the last error then."""
    found = process().run(_errors_of_queries)
    assert is_busy(found["cudaStreamQuery"]), f"cudaStreamQuery: {found['cudaStreamQuery']}"
    assert is_busy(found["cudaEventQuery"]), f"cudaEventQuery: {found['cudaEventQuery']}"
    kept = [name for name, it in found.items() if " after " in name and not it.startswith("0 ")]
    return {"answer": "yes" if kept else "no", **found}
