"""For pytest: writes each test's result to the file MEMLEASE_RESULTS at once; none is lost."""

from __future__ import annotations

import json
import os

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write what counts: the call, and whatever of the rest did not pass."""
    if (report.when != "call" and report.passed) or "PYTEST_XDIST_WORKER" in os.environ:
        return
    why = ""
    if report.skipped and isinstance(report.longrepr, tuple):
        why = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed:
        why = report.longreprtext[-3000:]
    line = json.dumps({"test": report.nodeid, "result": report.outcome, "why": why})
    with open(os.environ["MEMLEASE_RESULTS"], "a") as file:
        file.write(line + "\n")
