"""Questions about calls of one thread while another one captures a stream."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from asking import (
    close_memory,
    error_of,
    export_memory,
    make_event,
    open_event,
    open_memory,
    process,
    question,
    try_open_event,
    try_open_memory,
)
from gpu_process import Cuda

_MODES = {"global": 0, "thread-local": 1, "relaxed": 2}
_RELAXED = 2
_OPEN = "cudaIpcOpenMemHandle"


def _number(answer: str) -> int:
    return int(answer.split()[0])


def _calls(here: Cuda, memory: bytes, event: bytes) -> dict[str, Callable[[], int]]:
    """Return what a thread may call that has nothing to do with the capture."""
    cuda, stream = here.cuda, ctypes.c_void_p(here.stream("other"))
    shared, made = here.kept["event"], ctypes.c_void_p()
    return {
        "cudaEventQuery": lambda: cuda.cudaEventQuery(shared),
        "cudaStreamQuery": lambda: cuda.cudaStreamQuery(stream),
        "cudaEventRecord": lambda: cuda.cudaEventRecord(shared, stream),
        "cudaStreamWaitEvent": lambda: cuda.cudaStreamWaitEvent(stream, shared, 0),
        _OPEN: lambda: _number(try_open_memory(here, memory)),
        "cudaIpcCloseMemHandle": lambda: _number(close_memory(here)),
        "cudaIpcOpenEventHandle": lambda: _number(try_open_event(here, event)),
        "cudaEventCreateWithFlags": lambda: cuda.cudaEventCreateWithFlags(ctypes.byref(made), 6),
        "cudaMalloc": lambda: cuda.cudaMalloc(ctypes.byref(made), ctypes.c_size_t(4096)),
    }


def _open_memory_once(here: Cuda, memory: bytes, once: int) -> None:
    """Have the memory open once, or not at all."""
    while len(here.kept.setdefault("opened", [])) > once:
        close_memory(here)
    while len(here.kept["opened"]) < once:
        open_memory(here, memory)


def _during_a_capture(
    here: Cuda, mode: int, call: Callable[[], int], relaxed: bool
) -> tuple[int, int]:
    """Return the errors of the call, made by another thread, and of the capture's end."""
    stream, graph = ctypes.c_void_p(here.stream("captured")), ctypes.c_void_p()
    found: list[int] = []

    def call_it() -> None:
        exchanged = ctypes.c_int(_RELAXED)
        if relaxed:
            here.call("cudaThreadExchangeStreamCaptureMode", ctypes.byref(exchanged))
        found.append(call())

    here.call("cudaStreamBeginCapture", stream, mode)
    thread = threading.Thread(target=call_it)
    thread.start()
    thread.join()
    end = here.cuda.cudaStreamEndCapture(stream, ctypes.byref(graph))
    here.cuda.cudaGetLastError()
    return (found or [-1])[0], end


def _all_captures(here: Cuda, memory: bytes, event: bytes) -> dict[str, dict[str, str]]:
    """Try each call in each mode; keep what went wrong with the call or the capture."""
    open_event(here, event)
    here.stream("captured")
    exchanges = [False] + [True] * hasattr(here.cuda, "cudaThreadExchangeStreamCaptureMode")
    wrong: dict[str, dict[str, str]] = {}
    for mode, number in _MODES.items():
        for relaxed in exchanges:
            row = wrong.setdefault(f"{mode}{', exchanged' * relaxed}", {})
            for name, call in _calls(here, memory, event).items():
                _open_memory_once(here, memory, 0 if name == _OPEN else 1)
                here.synchronize(here.stream("other"))
                errors = _during_a_capture(here, number, call, relaxed)
                if any(errors):
                    called, ended = (error_of(here, it) for it in errors)
                    row[name] = f"{called}; the capture ends with {ended}"
    return wrong


@question(30)
def capture_and_other_threads() -> dict[str, Any]:
    """Name the calls of another thread that spoil a capture, with its mode exchanged or not."""
    owner, user = process(), process()
    handles = owner.run(export_memory, 7), owner.run(make_event)
    found = user.run(_all_captures, *handles)
    spoiled = {row: [call for call, it in calls.items() if "ends with 0 " not in it]
               for row, calls in found.items()}  # fmt: skip
    told = "; ".join(f"{row}: {', '.join(calls) or 'none'}" for row, calls in spoiled.items())
    if not any(row.endswith("exchanged") for row in found):
        told += "; this CUDA cannot exchange a thread's capture mode"
    return {"answer": told, **{row: it for row, it in found.items() if it}}
