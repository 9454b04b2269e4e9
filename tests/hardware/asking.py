"""What the questions about CUDA share: processes, the calls they make, and how an answer is said.

No "no" may come from a prober that waited behind a gate which itself had closed. So, in each
question:

1. A process that has closed a gate does nothing until it opens it but record, query, wait on a
   stream, destroy an event or be killed: nothing that may wait for its kernels. It makes streams,
   events and memory, and opens handles, before.
2. A call that may wait is made where no gate is closed in any process that it may wait for; what
   keeps a stream busy there is a kernel that ends by itself.
3. That something goes on only later counts only if it was seen waiting before.
4. Each wait has an end, and each question a time limit of its own.

Nothing of memlease is used, and nothing that this machine may lack but CUDA and the test kernels.
"""

from __future__ import annotations

import ctypes
import dataclasses
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import say
from gpu_process import Cuda, Process

BYTES = 2 << 20
COUNT = BYTES // 8
_DISABLE_TIMING, _INTERPROCESS = 2, 4
SOON_S = 2.0  # what goes on at all goes on within it


@dataclasses.dataclass
class Question:
    """One that `probes.py` answers."""

    ask: Callable[[], say.Found]
    limit_s: float


QUESTIONS: dict[str, Question] = {}


def question(limit_s: float) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Make a function one of the questions."""

    def add(ask: Callable[[], Any]) -> Callable[[], Any]:
        QUESTIONS[ask.__name__] = Question(ask, limit_s)
        return ask

    return add


_kept: list[Process] = []  # a process ends with its object


def process(what: type[Cuda] = Cuda) -> Process:
    """Start one that the question gives functions to."""
    _kept.append(Process(what))
    return _kept[-1]


def error_of(here: Cuda, error: int) -> str:
    """Return an error's number and name."""
    name = here.cuda.cudaGetErrorName
    name.restype = ctypes.c_char_p
    return f"{error} {name(error).decode()}"


# ---- Memory.


class Handle(ctypes.Structure):
    """cudaIpcMemHandle_t and cudaIpcEventHandle_t."""

    _fields_ = (("bytes", ctypes.c_ubyte * 64),)


def export_memory(here: Cuda, value: int) -> bytes:
    """Make memory whose elements have the value; return its handle."""
    made = here.pointer("cudaMalloc", BYTES)
    here.fill(made.value or 0, COUNT, value, here.stream())
    here.synchronize()
    handle = Handle()
    here.call("cudaIpcGetMemHandle", ctypes.byref(handle), made)
    here.kept["memory"] = made.value or 0
    return bytes(handle)


def try_open_memory(here: Cuda, raw: bytes) -> str:
    """Open it; return the error."""
    opened = ctypes.c_void_p()
    handle = Handle.from_buffer_copy(raw)
    error = here.cuda.cudaIpcOpenMemHandle(ctypes.byref(opened), handle, 1)
    if error == 0:
        here.kept.setdefault("opened", []).append(opened.value or 0)
    return error_of(here, error)


def open_memory(here: Cuda, raw: bytes) -> int:
    """Open it, which must succeed; return the address."""
    answer = try_open_memory(here, raw)
    assert answer.startswith("0 "), f"cudaIpcOpenMemHandle: {answer}"
    return int(here.kept["opened"][-1])


def close_memory(here: Cuda) -> str:
    """Close what was opened last; return the error."""
    opened = ctypes.c_void_p(here.kept["opened"].pop())
    return error_of(here, here.cuda.cudaIpcCloseMemHandle(opened))


def values(here: Cuda, expected: int) -> str:
    """Read what was opened last with a kernel: "right", or what else.

    A kernel that touches what is not there ends all of its process's work, which is an answer, too.
    """
    here.look(here.kept["opened"][-1], COUNT, expected, here.stream())
    try:
        wrong = here.mismatches(here.stream())
    except AssertionError as error:
        return say.reason(error)
    return "right" if wrong == 0 else f"{wrong} wrong values"


# ---- Events.


def make_event(here: Cuda) -> bytes:
    """Make one for several processes; return its handle."""
    event = ctypes.c_void_p()
    flags = _DISABLE_TIMING | _INTERPROCESS
    here.call("cudaEventCreateWithFlags", ctypes.byref(event), flags)
    handle = Handle()
    here.call("cudaIpcGetEventHandle", ctypes.byref(handle), event)
    here.kept["event"] = event
    return bytes(handle)


def try_open_event(here: Cuda, raw: bytes) -> str:
    """Open it; return the error."""
    event = ctypes.c_void_p()
    handle = Handle.from_buffer_copy(raw)
    error = here.cuda.cudaIpcOpenEventHandle(ctypes.byref(event), handle)
    if error == 0:
        here.kept["event"] = event
    return error_of(here, error)


def open_event(here: Cuda, raw: bytes) -> None:
    """Open it, which must succeed, and make the stream for it, too."""
    here.stream()
    answer = try_open_event(here, raw)
    assert answer.startswith("0 "), f"cudaIpcOpenEventHandle: {answer}"


def close_event(here: Cuda) -> str:
    """Destroy this process's handle of the event; return the error."""
    return error_of(here, here.cuda.cudaEventDestroy(here.kept.pop("event")))


def record(here: Cuda, stream: str = "s") -> None:
    """Record the event behind the stream's work."""
    here.call("cudaEventRecord", here.kept["event"], ctypes.c_void_p(here.stream(stream)))


def record_behind_a_gate(here: Cuda) -> None:
    """Record it behind a kernel that goes on until `Cuda.ungate`."""
    here.gate(here.stream())
    record(here)


def record_behind_a_kernel(here: Cuda, ms: int) -> None:
    """Record it behind a kernel that ends by itself."""
    here.spin(here.stream(), ms * 1000)
    record(here)


def wait(here: Cuda, stream: str = "s") -> str:
    """Make the stream wait for the event; return the stream's state."""
    handle = ctypes.c_void_p(here.stream(stream))
    here.call("cudaStreamWaitEvent", handle, here.kept["event"], 0)
    return state(here, stream)


def state(here: Cuda, stream: str = "s") -> str:
    """Return the stream's: "0 ..." has nothing to do, "600 ..." has."""
    return error_of(here, here.cuda.cudaStreamQuery(ctypes.c_void_p(here.stream(stream))))


def is_busy(answer: str) -> bool:
    """Tell whether that is the state of a stream that has something to do."""
    return answer.startswith("600 ")


def state_within(here: Cuda, seconds: float = SOON_S, stream: str = "s") -> str:
    """Return the stream's state once it is not "not ready" any more, or after this time."""
    end = time.monotonic() + seconds
    while is_busy(now := state(here, stream)) and time.monotonic() < end:
        time.sleep(0.002)
    return now


def verdict(before: str, after: str) -> str:
    """Tell whether a stream that was seen waiting has gone on."""
    if not is_busy(before):
        return f"unknown: the stream did not wait in the first place ({before})"
    return "yes" if after.startswith("0 ") else "no"


# ---- Answering.


def answered(asked: Question) -> say.Found:
    """Ask, for as long as the question's limit allows."""
    found: list[say.Found] = []

    def ask() -> None:
        try:
            found.append(asked.ask())
        except EOFError:
            found.append("failed: a process of this question's ended by itself")
        except BaseException as error:  # that is the answer
            found.append(f"failed: {say.reason(error)}")

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    asker.join(asked.limit_s)
    return found[0] if found else f"failed: no answer within {asked.limit_s:g} s"


def main(modules: list[ModuleType]) -> None:
    """Answer, and end at once: a stream that is blocked for ever would not let a process go.

    The questions are listed in the order of the modules that they are in.
    """
    if len(sys.argv) == 1:
        order = [it.__name__ for it in modules]
        say.names(sorted(QUESTIONS, key=lambda it: order.index(QUESTIONS[it].ask.__module__)))
        return
    name = sys.argv[1]
    # Else a kernel that is loaded late may wait for one that spins, as may a stream beyond a few.
    os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    say.answer(name, answered(QUESTIONS[name]))
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)
