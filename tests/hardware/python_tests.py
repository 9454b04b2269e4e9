"""Runs the Python tests in a few processes, each with some of the files, and notes their results.

A test that hangs or takes its process down has failed, and the rest runs in another.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import sys
import time
from pathlib import Path

import limited
import place
from place import ROOT
from report import parsed
from run_state import AT_ONCE, Run

_TOO_LITTLE_S = 2
_MOST_CHARACTERS = 3000
_ALL_WELL, _SOME_FAILED, _NO_TESTS = 0, 1, 5  # pytest's exit status
FOLDERS = (ROOT / "tests/conformance", ROOT / "tests/examples")
# Where time is short, as on a GPU that is lent, the most telling come first.
_FIRST = ("test_arrays", "test_imports", "test_cai", "test_dlpack", "test_replicas", "test_stream")
_OF_THE_TREE = ("test_page.py",)  # about documents that a bundle has not


def _command(files: list[Path]) -> list[str | Path]:
    command: list[str | Path] = [sys.executable, "-m", "pytest", "-q"]
    # Of what is installed here, no plugin. Ours must be loaded before pytest takes the output.
    command += ["-p", "results_plugin", "-p", "memlease.testing", "-p", "no:cacheprovider"]
    # Not as the source tree's own run: another Python, and other plugins.
    command += ["-c", ROOT / "pytest.ini", "-o", "addopts=-ra", "-o", "filterwarnings="]
    command += ["--continue-on-collection-errors"]
    return [*command, "--rootdir", ROOT, *files]


def _run_files(run: Run, files: list[Path], end: float, environment: dict[str, str]) -> bool:
    """Run all their tests; false if there was no time left for some."""
    done = run.done()
    running = ""

    def on_line(line: str) -> None:
        nonlocal running
        said = parsed(line)
        if "began" in said:
            running = said["began"]
        elif run.report.take(line):
            done.append(said["check"])
            running = ""

    while True:
        left_s = end - time.monotonic()
        if left_s < _TOO_LITTLE_S or run.stopped:
            return False
        here = {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "MEMLEASE_TEST_S": str(run.one_test_s),
            "MEMLEASE_TESTS_DONE": json.dumps(done),
        }
        ended = limited.run(_command(files), left_s, {**environment, **here}, on_line)
        if run.stopped or (ended.status is None and end - time.monotonic() < _TOO_LITTLE_S):
            return False
        if not running:
            if ended.status not in (_ALL_WELL, _SOME_FAILED, _NO_TESTS):
                run.report.note(" ".join(map(_name, files)), "failed", ended.why())
            return True
        # What it wrote, from its beginning: of a traceback the innermost calls come first.
        written = ended.output.rpartition('{"began"')[2].partition("\n")[2][:_MOST_CHARACTERS]
        why = dataclasses.replace(ended, output=written).why()
        run.report.note(running, "failed", f"it took its process down: {why}")
        done.append(running)
        running = ""


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else file.name


def run_all(run: Run, limit_s: float, folders: tuple[Path, ...] = FOLDERS) -> None:
    """Run the tests of all files."""
    end = time.monotonic() + limit_s
    tried = limited.run([sys.executable, "-c", "import pytest"], 30, run.environment)
    if not tried.ok:
        raise RuntimeError(f"pytest: {tried.output.strip().splitlines()[-1:]}")
    files = [file for folder in folders for file in folder.glob("test_*.py")]
    files = [file for file in files if file.name not in _OF_THE_TREE]
    files.sort(key=lambda file: (file.stem not in _FIRST, -file.stat().st_size))
    groups = [files[nth::AT_ONCE] for nth in range(min(AT_ONCE, len(files)))]
    with (
        place.world(run.environment, run.as_hardware, run.knobs) as given,
        concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        whole = list(pool.map(lambda group: _run_files(run, group, end, given), groups))
    left_out = [
        _name(file) for group, it in zip(groups, whole, strict=True) if not it for file in group
    ]
    if left_out and not run.stopped:
        raise RuntimeError(f"no time was left for all of {', '.join(left_out)}")
