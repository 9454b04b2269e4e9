"""Runs the prebuilt C++ tests, each in a process of its own, and notes their results."""

from __future__ import annotations

import concurrent.futures
import time
from pathlib import Path

import limited
from place import BUILD
from run_state import AT_ONCE, Run

_LIST_S = 30


def _names(run: Run, program: Path) -> list[str]:
    """List the tests of a GoogleTest program; that it cannot be run is its result."""
    ended = limited.run([program, "--gtest_list_tests"], _LIST_S, run.environment)
    if not ended.ok and not run.stopped:
        run.report.note(program.name, "failed", ended.why())
    names, suite = [], ""
    for line in ended.output.splitlines() if ended.ok else ():
        name = line.split("#")[0].rstrip()
        if name.endswith(".") and not line.startswith(" "):
            suite = name
        elif line.startswith("  "):
            names.append(suite + name.strip())
    return names


def _run_one(run: Run, program: Path, name: str, end: float) -> bool:
    """Run a test; false if there was no time left for it."""
    left_s = end - time.monotonic()
    if left_s <= 0 or run.stopped:
        return False
    limit_s = min(run.one_test_s, left_s)
    ended = limited.run([program, f"--gtest_filter={name}"], limit_s, run.environment)
    if run.stopped:
        return False
    if not ended.ok and limit_s < run.one_test_s and ended.status is None:
        return False  # the part's time was over, not the test's
    run.report.note(name, *_result(name, ended))
    return True


def _result(name: str, ended: limited.Ended) -> tuple[str, str]:
    if not ended.ok:
        return "failed", ended.why()
    if f"[       OK ] {name}" in ended.output:
        return "passed", ""
    if f"[  SKIPPED ] {name}" not in ended.output:
        return "failed", "it did not run"
    words = [line for line in ended.output.splitlines() if "only" in line or "GPU" in line]
    return "skipped", words[0].strip() if words else ""


def run_all(run: Run, limit_s: float, folder: Path = BUILD / "tests") -> None:
    """Run those of all programs, some at once."""
    end = time.monotonic() + limit_s
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        running = [
            pool.submit(_run_one, run, program, name, end)
            for program in sorted(folder.glob("test_*"))
            for name in _names(run, program)
        ]
    left_out = sum(not it.result() for it in running)
    if not running:
        raise RuntimeError(f"there are no tests in {folder}")
    if left_out and not run.stopped:
        raise RuntimeError(f"no time was left for {left_out} of {len(running)} tests")
