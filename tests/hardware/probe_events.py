"""Questions about events that several processes share."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import say
from asking import (
    close_event,
    error_of,
    is_busy,
    make_event,
    open_event,
    process,
    question,
    record,
    record_behind_a_gate,
    record_behind_a_kernel,
    state,
    state_within,
    try_open_event,
    verdict,
    wait,
)
from gpu_process import Cuda, Process

_LONG_MS = 700  # of a kernel that is to go on while the processes do this and that
_MOST_EVENTS = 40_000
_MOST_S = 20.0


def _sharing(count: int) -> list[Process]:
    """Start the owner of an event, and others that have opened it."""
    owner, *others = (process() for _ in range(count))
    raw = owner.run(make_event)
    for other in others:
        other.start(open_event, raw)
    for other in others:
        other.result()
    return [owner, *others]


@question(20)
def ipc_events() -> str:
    """Tell whether a stream waits for an event of another process, and then goes on."""
    _, recorder, waiter = _sharing(3)
    recorder.run(record_behind_a_gate)
    before = waiter.run(wait)
    recorder.run(Cuda.ungate)
    after = waiter.run(state_within)
    right = verdict(before, after) == "yes"
    return "yes" if right else f"no: {before} before, {after} after"


@question(25)
def wait_binds_at_its_call() -> dict[str, str]:
    """Tell whether a stream goes on by the record that it waits for, and not by a later one."""
    _, first, second, waiter = _sharing(4)
    first.run(record_behind_a_gate)
    before = waiter.run(wait)
    second.run(record_behind_a_gate)
    first.run(Cuda.ungate)
    after_first = waiter.run(state_within)
    second.run(Cuda.ungate)
    return {
        "answer": verdict(before, after_first),
        "at first": before,
        "after its record": after_first,
        "after the later record": waiter.run(state_within),
    }


@question(25)
def later_record_overtakes() -> dict[str, str]:
    """Tell whether a later record that is complete frees who waits for one that is pending."""
    _, first, second, waiter = _sharing(4)
    first.run(record_behind_a_gate)
    before = waiter.run(wait)
    second.run(record)
    later = second.run(state_within)
    after = waiter.run(state if is_busy(later) else state_within)
    first.run(Cuda.ungate)
    told = verdict(before, after)
    if told == "no" and is_busy(later):
        told = "no: a record waits for the earlier one"
    return {
        "answer": told,
        "at first": before,
        "the later record": later,
        "after the later record": after,
        "after its own": waiter.run(state_within),
        "the later record then": second.run(state_within),
    }


@question(20)
def event_opened_twice() -> dict[str, str]:
    """Tell whether a process that opened an event twice, and closed it once, still has it."""
    owner, user = process(), process()
    raw = owner.run(make_event)
    user.run(open_event, raw)
    found = {"second opening": user.run(_open_and_keep_first, raw)}
    if found["second opening"].startswith("0 "):
        found["closing"] = user.run(close_event)
        user.run(_take_first)
        owner.run(record_behind_a_kernel, _LONG_MS)
        before = user.run(wait)
        found["a wait by the other"] = verdict(before, user.run(state_within))
    return {"answer": found.get("a wait by the other", "refused"), **found}


def _open_and_keep_first(here: Cuda, raw: bytes) -> str:
    here.kept["first"] = here.kept["event"]
    return try_open_event(here, raw)


def _take_first(here: Cuda) -> None:
    here.kept["event"] = here.kept["first"]


# ---- What becomes of a record when its recorder goes.


@question(25)
def record_of_a_closed_handle() -> dict[str, str]:
    """Tell whether one can wait for a record whose recorder has destroyed its handle."""
    _, recorder, early, late = _sharing(4)
    recorder.run(record_behind_a_kernel, _LONG_MS)
    before = {"waited before": early.run(wait)}
    closed = recorder.run(close_event)
    before["waited after"] = late.run(wait)
    after = {"waited before": early.run(state_within), "waited after": late.run(state_within)}
    found = {name: verdict(before[name], after[name]) for name in before}
    told = "yes" if set(found.values()) == {"yes"} else "no"
    return {"answer": told, "closing while it is pending": closed, **found}


@question(25)
def record_of_an_ended_process() -> dict[str, str]:
    """Tell whether one can wait for a record whose recorder has ended by itself."""
    _, done, pending, waiter, late = _sharing(5)
    done.run(record)
    done.run(state_within)
    done.close()
    complete = waiter.run(wait), waiter.run(state_within)
    pending.run(record_behind_a_kernel, _LONG_MS)
    before = waiter.run(wait)
    pending.start(_leave)  # as a program that does not wait for its GPU
    after, later = waiter.run(state_within), late.run(wait)
    later = later if not is_busy(later) else late.run(state_within)
    return {
        "answer": "yes" if complete[1].startswith("0 ") else "no",
        "it had ended before": ", then ".join(dict.fromkeys(complete)),
        "it was pending": verdict(before, after),
        "it was pending, and the wait came after": later,
    }


def _leave(here: Cuda) -> None:
    os._exit(0)


@question(25)
def event_destroyed_by_its_owner() -> dict[str, str]:
    """Tell whether others can record and wait for an event that its owner has destroyed."""
    owner, recorder, waiter = _sharing(3)
    found = {"destroying": owner.run(close_event)}
    try:
        recorder.run(record_behind_a_kernel, _LONG_MS)
        before = waiter.run(wait)
    except AssertionError as error:
        return {"answer": f"no: {say.reason(error)}", **found}
    after = waiter.run(state_within)
    return {"answer": verdict(before, after), **found, "at first": before, "then": after}


@question(25)
def event_of_a_dead_owner() -> dict[str, str]:
    """Tell whether others can record and wait for an event whose owner was killed."""
    owner, recorder, waiter = _sharing(3)
    owner.kill()
    recorder.run(record_behind_a_kernel, _LONG_MS)
    before = waiter.run(wait)
    after = waiter.run(state_within)
    return {"answer": verdict(before, after), "at first": before, "then": after}


# ---- How many.


def _make_many(here: Cuda, most: int) -> tuple[int, str, float]:
    """Make them until there are that many; return how many, what stopped it, and the seconds."""
    event, start = ctypes.c_void_p(), time.monotonic()
    for nth in range(most):
        error = here.cuda.cudaEventCreateWithFlags(ctypes.byref(event), 6)
        took_s = time.monotonic() - start
        if error != 0:
            return nth, error_of(here, error), took_s
        if took_s > _MOST_S:
            return nth + 1, "no time for more", took_s
    return most, "more were not tried", took_s


@question(35)
def shared_events() -> dict[str, Any]:
    """Count the events for several processes that can be made, and tell whose limit that is."""
    one, other = process(), process()
    count, why, took_s = one.run(_make_many, _MOST_EVENTS)
    found: dict[str, Any] = {"answer": f"{count}: {why}", "count": count}
    found["us each"] = round(took_s * 1e6 / max(count, 1), 1)
    if why[0].isdigit():
        found["limit of"] = "each process" if other.run(_make_many, 1)[0] else "all processes"
    return found
