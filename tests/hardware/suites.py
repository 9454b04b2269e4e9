"""Runs the prebuilt C++ tests and the Python tests of a bundle, and notes their results."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path

import limited
from place import BUILD, ROOT
from report import Report

_ONE_TEST_S = 60
_AT_ONCE = 4  # each is several processes with a GPU context


def _names(program: Path, environment: dict[str, str]) -> list[str]:
    """List the tests of a GoogleTest program by their full names."""
    ended = limited.run([program, "--gtest_list_tests"], 20, environment)
    if not ended.ok:
        raise RuntimeError(f"{program.name} --gtest_list_tests: {ended.why()}")
    names, suite = [], ""
    for line in ended.output.splitlines():
        name = line.split("#")[0].rstrip()
        if name.endswith(".") and not line.startswith(" "):
            suite = name
        elif line.startswith("  "):
            names.append(suite + name.strip())
    return names


def _run_one(
    program: Path, name: str, end: float, environment: dict[str, str]
) -> tuple[str, str, str]:
    limit_s = min(_ONE_TEST_S, end - time.monotonic())
    if limit_s <= 0:
        return name, "skipped", "no time left"
    ended = limited.run([program, f"--gtest_filter={name}"], limit_s, environment)
    if not ended.ok:
        return name, "failed", ended.why()
    if f"[       OK ] {name}" in ended.output:
        return name, "passed", ""
    if f"[  SKIPPED ] {name}" not in ended.output:
        return name, "failed", "it did not run"
    words = [line for line in ended.output.splitlines() if "only" in line or "GPU" in line]
    return name, "skipped", words[0].strip() if words else ""


def cpp(report: Report, limit_s: float, environment: dict[str, str]) -> None:
    """Run each C++ test in a process of its own, some at once."""
    end = time.monotonic() + limit_s
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        running = [
            pool.submit(_run_one, program, name, end, environment)
            for program in sorted((BUILD / "tests").glob("test_*"))
            for name in _names(program, environment)
        ]
        for one in concurrent.futures.as_completed(running):
            report.note(*one.result())


def python(report: Report, limit_s: float, environment: dict[str, str]) -> None:
    """Run the Python tests that the bundle has, several at once where pytest-xdist is installed."""
    command: list[str | Path] = [sys.executable, "-m", "pytest", "-q", "-p", "results_plugin"]
    # Of what is installed there, only the plugins that are wanted.
    command += ["-p", "memlease.testing", "-p", "no:cacheprovider", "--rootdir", ROOT]
    # Not as the source tree's own run: another Python, and other plugins.
    command += ["-c", ROOT / "pytest.ini", "-o", "addopts=-ra", "-o", "filterwarnings="]
    if importlib.util.find_spec("pytest_timeout"):
        command += ["-p", "pytest_timeout", "-o", f"timeout={_ONE_TEST_S}"]
    if importlib.util.find_spec("xdist"):
        command += ["-p", "xdist.plugin", "-n", str(_AT_ONCE)]
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results")
        results.touch()
        here = {"MEMLEASE_RESULTS": str(results), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command += [ROOT / "tests/conformance", ROOT / "tests/examples"]
        ended = limited.run(command, limit_s, {**environment, **here})
        for line in results.read_text().splitlines():
            report.note(**json.loads(line))
    if ended.status not in (0, 1):  # 1: some tests failed, which is noted
        raise RuntimeError(ended.why())
