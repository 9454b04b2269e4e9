"""What a part's script says to whoever runs it: JSON lines on stdout, each flushed at once.

A script without an argument lists the names of its checks, which it then does one a run.
"""

from __future__ import annotations

import json
import re
from typing import Any

_RAISED = re.compile(r"[\w.]+: ")  # a traceback's line of an exception
Found = str | dict[str, Any]


def _line(what: Any) -> None:
    print(json.dumps(what), flush=True)


def names(of_checks: list[str]) -> None:
    """Say which checks there are."""
    _line(of_checks)


def check(name: str, result: str, why: str = "") -> None:
    """Say that a check has passed, failed, or was skipped, and why; or what it has found."""
    assert result in ("passed", "failed", "skipped")
    _line({"check": name, "result": result, "why": why})


def answer(question: str, found: Found) -> None:
    """Answer a question about this machine."""
    _line({"answer": question, "is": found})


def figure(name: str, found: Found) -> None:
    """Say what was measured."""
    _line({"figure": name, "is": found})


def reason(error: BaseException) -> str:
    """Return what went wrong in one line; of a traceback in text, the last one."""
    lines = str(error).strip().splitlines() or [repr(error)]
    if lines[-1] == "KeyboardInterrupt":  # so we end examples: of one that was failing, take why
        lines = [line for line in lines if _RAISED.match(line)] or lines
    return lines[-1].removeprefix("AssertionError: ")
