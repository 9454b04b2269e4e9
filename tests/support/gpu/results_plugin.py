"""For pytest: says each test's result in a line of JSON at once, so that none is lost.

The lines go to the standard output that pytest was started with: load this with `-p`. A test that
takes longer than MEMLEASE_TEST_S ends the process, after a traceback of all threads. Those that
MEMLEASE_TESTS_DONE lists are left out.
"""

from __future__ import annotations

import faulthandler
import json
import os
from typing import Any

import pytest

_OUTPUT = os.dup(1)
_RANKS = ("passed", "skipped", "failed")
_MOST_CHARACTERS = 3000
_found: dict[str, tuple[str, str]] = {}


def _say(**what: Any) -> None:
    # A line of its own, whatever pytest has begun.
    os.write(_OUTPUT, f"\n{json.dumps(what)}\n".encode())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is done."""
    done = set(json.loads(os.environ["MEMLEASE_TESTS_DONE"]))
    items[:] = [item for item in items if item.nodeid not in done]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Say that a file cannot be imported."""
    if report.failed:
        _say(check=report.nodeid, result="failed", why=report.longreprtext[-_MOST_CHARACTERS:])


def pytest_runtest_logstart(nodeid: str) -> None:
    """Say who runs, and begin its time."""
    _found[nodeid] = ("passed", "")
    _say(began=nodeid)
    limit_s = float(os.environ["MEMLEASE_TEST_S"])
    faulthandler.dump_traceback_later(limit_s, exit=True, file=_OUTPUT)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst of set-up, call and end."""
    if _RANKS.index(report.outcome) <= _RANKS.index(_found[report.nodeid][0]):
        return
    why = report.longreprtext[-_MOST_CHARACTERS:]
    if report.skipped and isinstance(report.longrepr, tuple):
        why = report.longrepr[2].removeprefix("Skipped: ")
    _found[report.nodeid] = (report.outcome, why)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Say how it went."""
    faulthandler.cancel_dump_traceback_later()
    result, why = _found.pop(nodeid)
    _say(check=nodeid, result=result, why=why)
