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


def ask(run: Run, script: str | Path, limit_s: float, one_s: float) -> bool:
    """Do all checks, each within one_s; false if a process ended badly, which is noted."""
    end = time.monotonic() + limit_s
    fit, left_out = True, []
    for name in _names(run, script, min(_LIST_S, limit_s)):
        left_s = end - time.monotonic()
        if run.stopped:
            return False
        if left_s < _TOO_LITTLE_S:
            left_out.append(name)
        else:
            fit = _ask_one(run, script, name, min(one_s, left_s)) and fit
    if left_out:
        raise RuntimeError(f"no time was left for {', '.join(left_out)}")
    return fit


def _names(run: Run, script: str | Path, limit_s: float) -> list[str]:
    listed = limited.run(place.python(script), limit_s, run.environment)
    try:
        if listed.ok:
            return json.loads(listed.output)
    except ValueError:
        pass  # as it is told below
    raise RuntimeError(f"{script} does not list its checks: {listed.why()}")


def _ask_one(run: Run, script: str | Path, name: str, limit_s: float) -> bool:
    said: list[str] = []  # results of checks

    def on_line(line: str) -> None:
        if run.report.take(line) and '"check"' in line:
            said.append(line)

    with place.world(run.environment, run.stand_in, run.knobs) as given:
        ended = limited.run(place.python(script, name), limit_s, given, on_line)
    if not ended.ok and not run.stopped and not any('"failed"' in it for it in said):
        run.report.note(f"{Path(script).stem}::{name}", "failed", ended.why())
    return ended.ok
