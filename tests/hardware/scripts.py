"""Runs a part's script, check by check, each in a process and, without a GPU, a world of its own.

`SCRIPT` lists the names of its checks as JSON, `SCRIPT NAME` does one, and says what it finds in
lines of JSON (say.py), which are in the report at once.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import limited
import place
from run_state import Run

_LIST_S = 30
_TOO_LITTLE_S = 1
# A check has as much of what is left as three of those behind it, so that one that hangs leaves
# time for them.
_SHARES, _AT_LEAST_S = 3, 8


def ask(run: Run, script: str | Path, limit_s: float, one_s: float) -> bool:
    """Do all checks, each within one_s; false if a process ended badly, which is noted.

    A check that ran out of less time has not failed: it is tried again after the others.
    """
    end = time.monotonic() + limit_s
    names = run.chosen(_names(run, script, min(_LIST_S, limit_s)))
    fit, first = _ask_all(run, script, names, end, one_s)
    fit_now, then = _ask_all(run, script, list(first), end, one_s)
    if then and not run.stopped:
        had = {name: max(first[name], then[name]) for name in then}
        told = [f"{name} (it had {s:.0f} s)" if s else name for name, s in had.items()]
        raise RuntimeError(f"no time was left for {', '.join(told)}")
    return fit and fit_now and not run.stopped


def _ask_all(
    run: Run, script: str | Path, names: list[str], end: float, one_s: float
) -> tuple[bool, dict[str, float]]:
    """Do them; tell whether they ended well, and how long those had that ran out of time."""
    fit, not_done = True, {}
    for nth, name in enumerate(names):
        left_s = end - time.monotonic()
        if run.stopped:
            break
        if left_s < _TOO_LITTLE_S:
            not_done[name] = 0.0
            continue
        share = _SHARES / (_SHARES + len(names) - nth - 1)
        limit_s = min(one_s, left_s, max(_AT_LEAST_S, share * left_s))
        ended_well = _ask_one(run, script, name, limit_s, one_s)
        if ended_well is None:
            not_done[name] = limit_s
        else:
            fit = fit and ended_well
    return fit, not_done


def _names(run: Run, script: str | Path, limit_s: float) -> list[str]:
    listed = limited.run(place.python(script), limit_s, run.environment)
    try:
        if listed.ok:
            return json.loads(listed.output)
    except ValueError:
        pass  # as it is told below
    raise RuntimeError(f"{script} does not list its checks: {listed.why()}")


def _ask_one(run: Run, script: str | Path, name: str, limit_s: float, one_s: float) -> bool | None:
    """Do one; None if it was not done within a limit below one_s."""
    said: list[str] = []  # results of checks

    def on_line(line: str) -> None:
        if run.report.take(line) and '"check"' in line:
            said.append(line)

    with place.world(run.environment, run.stand_in, run.knobs) as given:
        ended = limited.run(place.python(script, name), limit_s, given, on_line)
    if ended.status is None and limit_s < one_s:
        return None
    if not ended.ok and not run.stopped and not any('"failed"' in it for it in said):
        run.report.note(f"{Path(script).stem}::{name}", "failed", ended.why())
    return ended.ok
