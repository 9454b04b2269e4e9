"""Questions about what a process that is killed leaves behind on the GPU."""

from __future__ import annotations

import ctypes
import os
import select
import time
from typing import Any

from asking import (
    close_event,
    export_memory,
    make_event,
    open_event,
    open_memory,
    process,
    question,
    record,
    record_behind_a_gate,
    state_within,
    verdict,
    wait,
)
from gpu_process import Cuda, Process

_LOOKS = 20
_LOOK_EVERY_S = 0.01
_DEATH_S = 10.0
_COUNTING_S = 10
_MARK = 77
_LOST_S = 1.0  # what goes on goes on within it


@question(25)
def later_record_frees() -> dict[str, str]:
    """Tell whether a later record frees who waits for one whose process was killed."""
    owner, writer, reader = process(), process(), process()
    raw = owner.run(make_event)
    writer.run(open_event, raw)
    reader.run(open_event, raw)
    owner.run(Cuda.stream)
    writer.run(record_behind_a_gate)
    before = reader.run(wait)
    writer.kill()
    by_death = reader.run(state_within)
    owner.run(record)
    by_record = reader.run(state_within)
    return {
        "answer": verdict(before, by_record),
        "before the death": before,
        "2 s after the death": by_death,
        "after the later record": by_record,
    }


def _is_pending(here: Cuda) -> bool:
    return bool(here.cuda.cudaEventQuery(here.kept["event"]) == 600)


def _prepare(here: Cuda) -> None:
    for name in ("s", "waits", "new"):
        here.stream(name)


def _destroyed_in(here: Cuda) -> str:
    start = time.monotonic()
    error = close_event(here)
    return f"{error}, {(time.monotonic() - start) * 1000:.1f} ms"


def _keep_stuck(here: Cuda) -> None:
    here.kept["stuck"] = here.kept["event"]


def _take_stuck(here: Cuda) -> None:
    here.kept["event"] = here.kept["stuck"]


@question(30)
def event_after_a_lost_record() -> dict[str, str]:
    """Tell what of an event still works when a process was killed while its record was pending."""
    owner, victim, late = process(), process(), process()
    raw = owner.run(make_event)
    victim.run(open_event, raw)
    for one in (owner, late):
        one.run(_prepare)
    victim.run(record_behind_a_gate)
    assert owner.run(_is_pending), "the record is complete at once"
    victim.kill()
    owner.run(wait, "waits")
    found = {"a new wait": owner.run(state_within, _LOST_S, "waits")}
    owner.run(record)
    found["a later record"] = owner.run(state_within, _LOST_S)
    late.run(open_event, raw)
    late.run(wait)
    found["a wait of who opens it then"] = late.run(state_within, _LOST_S)
    owner.run(_keep_stuck)
    late.run(open_event, owner.run(make_event))
    owner.run(record, "new")
    late.run(wait, "new")
    found["a new event"] = late.run(state_within, _LOST_S, "new")
    owner.run(_take_stuck)
    found["destroying the old one"] = owner.run(_destroyed_in)
    again = found["a later record"].startswith("0 ")
    fresh = found["a new event"].startswith("0 ")
    told = "later records complete" if again else "it is stuck for good"
    return {"answer": f"{told}; a new event {'works' if fresh else 'is stuck, too'}", **found}


def count_up(here: Cuda, raw: bytes) -> int:
    """Write into the memory without end, and behind that a mark; return the process's number."""
    address = ctypes.c_void_p(open_memory(here, raw))
    mark = ctypes.c_void_p((address.value or 0) + 8)
    stream = ctypes.c_void_p(here.stream())
    us = ctypes.c_uint64(_COUNTING_S * 1_000_000)
    assert here.kernels.tk_count(address, us, stream) == 0
    here.fill(mark.value or 0, 1, _MARK, here.stream())
    return os.getpid()


def _read(here: Cuda) -> tuple[int, int]:
    """Return the count and the mark that are in the memory now."""
    words = (ctypes.c_uint64 * 2)()
    stream, size = ctypes.c_void_p(here.stream()), ctypes.c_size_t(16)
    memory = ctypes.c_void_p(here.kept["memory"])
    here.call("cudaMemcpyAsync", words, memory, size, 2, stream)
    here.synchronize(here.stream())
    return words[0], words[1]


def _changes(here: Cuda) -> int:
    """Look some times; return how often the count was another one."""
    before, changes = _read(here)[0], 0
    for _ in range(_LOOKS):
        time.sleep(_LOOK_EVERY_S)
        now = _read(here)[0]
        changes += now != before
        before = now
    return changes


def seen_after_death(watcher: Process, pid: int) -> dict[str, Any]:
    """Kill the process; tell what its kernel does once the pidfd says that it has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        return {"answer": f"not asked: pidfd_open: {error.strerror}"}
    alive = watcher.run(_changes)
    start = time.monotonic()
    os.kill(pid, 9)
    fired = bool(select.select([pidfd], [], [], _DEATH_S)[0])
    ms = (time.monotonic() - start) * 1000
    changes, mark = watcher.run(_changes), watcher.run(_read)[1]
    os.close(pidfd)
    if not alive:
        answer = "unknown: its kernel was not seen at work before"
    elif not fired:
        answer = f"unknown: the pidfd has not fired within {_DEATH_S:.0f} s"
    else:
        answer = "yes" if changes == 0 and mark != _MARK else "no"
    return {
        "answer": answer,
        "ms from the signal to the pidfd": round(ms, 1),
        f"changes seen in {_LOOKS} looks before": alive,
        "changes seen after": changes,
        "work that was queued was done": "yes" if mark == _MARK else "no",
    }


@question(30)
def kernel_of_the_dead_has_stopped() -> dict[str, Any]:
    """Tell whether nothing of a killed process runs on the GPU once its pidfd fires."""
    watcher, victim = process(), process()
    pid = victim.run(count_up, watcher.run(export_memory, 0))
    return seen_after_death(watcher, pid)
