"""Questions that only hardware can answer: `probes.py QUESTION` prints one answer, as JSON.

Without a question it lists them.

Each uses CUDA alone, in processes of its own, and nothing of memlease.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing.spawn
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_process import Cuda, Process

BYTES = 2 << 20
COUNT = BYTES // 8
_DISABLE_TIMING, _INTERPROCESS = 2, 4


class Handle(ctypes.Structure):
    """cudaIpcMemHandle_t and cudaIpcEventHandle_t."""

    _fields_ = (("bytes", ctypes.c_ubyte * 64),)


def _error_of(here: Cuda, error: int) -> str:
    name = here.cuda.cudaGetErrorName
    name.restype = ctypes.c_char_p
    return f"{error} {name(error).decode()}"


# ---- What the processes do.


def _export_memory(here: Cuda, value: int) -> bytes:
    made = here.pointer("cudaMalloc", BYTES)
    here.fill(made.value or 0, COUNT, value, here.stream())
    here.synchronize()
    handle = Handle()
    here.call("cudaIpcGetMemHandle", ctypes.byref(handle), made)
    here.kept["memory"] = made
    return bytes(handle)


def _try_open(here: Cuda, raw: bytes) -> str:
    opened = ctypes.c_void_p()
    handle = Handle.from_buffer_copy(raw)
    error = here.cuda.cudaIpcOpenMemHandle(ctypes.byref(opened), handle, 1)
    here.kept.setdefault("opened", []).append(opened)
    return _error_of(here, error)


def _open_memory(here: Cuda, raw: bytes) -> int:
    answer = _try_open(here, raw)
    assert answer.startswith("0 "), f"cudaIpcOpenMemHandle: {answer}"
    return here.kept["opened"][-1].value or 0


def _wrong_values(here: Cuda, expected: int) -> int:
    here.look(here.kept["opened"][-1].value or 0, COUNT, expected, here.stream())
    return here.mismatches(here.stream())


def _make_event(here: Cuda) -> bytes:
    event = ctypes.c_void_p()
    flags = _DISABLE_TIMING | _INTERPROCESS
    here.call("cudaEventCreateWithFlags", ctypes.byref(event), flags)
    handle = Handle()
    here.call("cudaIpcGetEventHandle", ctypes.byref(handle), event)
    here.kept["event"] = event
    return bytes(handle)


def _open_event(here: Cuda, raw: bytes) -> None:
    event = ctypes.c_void_p()
    here.call("cudaIpcOpenEventHandle", ctypes.byref(event), Handle.from_buffer_copy(raw))
    here.kept["event"] = event


def _record(here: Cuda) -> None:
    here.call("cudaEventRecord", here.kept["event"], ctypes.c_void_p(here.stream()))


def _gate_and_record(here: Cuda, raw: bytes) -> None:
    _open_event(here, raw)
    here.gate(here.stream())
    _record(here)


def _wait(here: Cuda, raw: bytes) -> None:
    _open_event(here, raw)
    here.call("cudaStreamWaitEvent", ctypes.c_void_p(here.stream()), here.kept["event"], 0)


def _state(here: Cuda) -> str:
    return _error_of(here, here.cuda.cudaStreamQuery(ctypes.c_void_p(here.stream())))


def _state_within(here: Cuda, seconds: float) -> str:
    """Return the stream's state once it is not "not ready" any more, or after this time."""
    end = time.monotonic() + seconds
    while (state := _state(here)).startswith("600 ") and time.monotonic() < end:
        time.sleep(0.005)
    return state


def _timed_behind_a_kernel(here: Cuda, raw: bytes, close: bool) -> str:
    """Open or close memory while a kernel spins for a second."""
    if close:
        _open_memory(here, raw)
    here.spin(here.stream(), 1_000_000)
    start = time.monotonic()
    if close:
        here.call("cudaIpcCloseMemHandle", here.kept["opened"].pop())
    else:
        _open_memory(here, raw)
    ms = (time.monotonic() - start) * 1000
    here.synchronize()
    return f"{'yes' if ms > 800 else 'no'}: {ms:.1f} ms behind a kernel of 1000 ms"


# ---- The questions.

_kept: list[Process] = []  # a process ends with its object


def _process() -> Process:
    _kept.append(Process(Cuda))
    return _kept[-1]


def ipc_memory() -> str:
    """Tell whether another process can open memory, and read what was written."""
    raw = _process().run(_export_memory, 7)
    user = _process()
    user.run(_open_memory, raw)
    wrong = user.run(_wrong_values, 7)
    return "yes" if wrong == 0 else f"no: {wrong} wrong values"


def ipc_events() -> str:
    """Tell whether a stream waits for an event of another process, and then goes on."""
    owner, recorder, waiter = _process(), _process(), _process()
    raw = owner.run(_make_event)
    recorder.run(_gate_and_record, raw)
    waiter.run(_wait, raw)
    before = waiter.run(_state)
    recorder.run(Cuda.ungate)
    after = waiter.run(_state_within, 5.0)
    right = before.startswith("600 ") and after.startswith("0 ")
    return "yes" if right else f"no: {before} before, {after} after"


def later_record_frees() -> dict[str, str]:
    """Tell whether a later record frees who waits for one whose process was killed."""
    owner, writer, reader = _process(), _process(), _process()
    raw = owner.run(_make_event)
    writer.run(_gate_and_record, raw)
    reader.run(_wait, raw)
    before = reader.run(_state)
    writer.kill()
    by_death = reader.run(_state_within, 2.0)
    owner.run(_record)
    by_record = reader.run(_state_within, 5.0)
    freed = by_record.startswith("0 ")
    return {
        "answer": "yes" if freed else "no",
        "before the death": before,
        "2 s after the death": by_death,
        "after the later record": by_record,
    }


def close_waits() -> str:
    """Tell whether cudaIpcCloseMemHandle waits for kernels that run."""
    raw = _process().run(_export_memory, 7)
    return _process().run(_timed_behind_a_kernel, raw, True)


def open_waits() -> str:
    """Tell whether cudaIpcOpenMemHandle waits for kernels that run."""
    raw = _process().run(_export_memory, 7)
    return _process().run(_timed_behind_a_kernel, raw, False)


def import_in_the_same_process() -> str:
    """Tell what a process gets that opens its own handle."""
    owner = _process()
    return owner.run(_try_open, owner.run(_export_memory, 7))


def opening_twice() -> str:
    """Tell whether the second opening in a process gives the same address."""
    raw = _process().run(_export_memory, 7)
    user = _process()
    addresses = {user.run(_open_memory, raw) for _ in range(2)}
    return "the same address" if len(addresses) == 1 else "two addresses"


def memory_of_the_dead() -> dict[str, str]:
    """Tell whether opened memory stays readable when its owner was killed."""
    owner, user, late = _process(), _process(), _process()
    raw = owner.run(_export_memory, 7)
    user.run(_open_memory, raw)
    owner.kill()
    wrong = user.run(_wrong_values, 7)
    return {
        "readable": "yes" if wrong == 0 else f"no: {wrong} wrong values",
        "opened after the death": late.run(_try_open, raw),
    }


def other_pid_namespace() -> str:
    """Tell what a process in a PID namespace of its own gets."""
    raw = _process().run(_export_memory, 7)
    unshare = shutil.which("unshare")
    if unshare is None:
        return "not asked: there is no program unshare"
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "python")
        script.write_text(
            f'#!/bin/sh\nexec {unshare} --pid --fork --kill-child {sys.executable} "$@"\n'
        )
        script.chmod(0o755)
        multiprocessing.spawn.set_executable(str(script))
        return _process().run(_try_open, raw)


QUESTIONS: list[Callable[[], Any]] = [
    ipc_memory,
    ipc_events,
    later_record_frees,
    import_in_the_same_process,
    opening_twice,
    close_waits,
    open_waits,
    memory_of_the_dead,
    other_pid_namespace,
]


def main() -> None:
    """Answer, and end at once: a stream that is blocked for ever would not let a process go."""
    if len(sys.argv) == 1:
        print(json.dumps([it.__name__ for it in QUESTIONS]))
        return
    asked = {it.__name__: it for it in QUESTIONS}[sys.argv[1]]
    try:
        answer = asked()
    except BaseException as error:  # that is the answer
        lines = str(error).strip().splitlines() or [repr(error)]
        answer = f"failed: {lines[-1]}"
    print(json.dumps(answer), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
