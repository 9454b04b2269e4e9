"""Runs the prebuilt C++ tests, many in a process, and notes their results.

What a process has made of a GPU, and the processes that it has started, serve one test after the
other. A test that hangs or takes its process down has failed, and the rest run in another.
"""

from __future__ import annotations

import concurrent.futures
import re
import time
from pathlib import Path

import limited
import place
from place import BUILD
from run_state import Run

_LIST_S = 30
_IN_A_PROCESS = 90  # tests
_AT_ONCE = 3  # programs: each test waits for contexts, which the driver makes one after the other
_SLOW_S = 5.0
# Many processes of their own, each with a context: they come when all else has been seen.
_CROWDS = re.compile(r"Storm|DeviceThreads|DeviceRaces")
_SAID = re.compile(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] ([^\s,]+)(?:.*\((\d+) ms\))?")
_RESULTS = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
_MOST_LINES = 60  # of what a test wrote


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


class _Tests:
    """Some tests of a program: those that are left, and what the running one has written."""

    def __init__(self, run: Run, program: Path, names: list[str]) -> None:
        self._run, self._program = run, program
        self.left = names
        self.seconds: dict[str, float] = {}
        self._running = ""
        self._failed = False
        self._written: list[str] = []

    def run_all(self, end: float, environment: dict[str, str]) -> None:
        """Run them, until all are done or there is no time left."""
        goes_on = True
        while self.left and goes_on and not self._run.stopped:
            left_s = end - time.monotonic()
            if left_s <= 0:
                return
            command: list[str | Path] = [self._program, f"--gtest_filter={':'.join(self.left)}"]
            self._running, self._failed = "", False
            ended = limited.run(command, left_s, environment, self._take, self._run.one_test_s)
            if self._run.stopped or (ended.status is None and time.monotonic() >= end):
                return
            goes_on = self._judge(ended)

    def _take(self, line: str) -> None:
        said = _SAID.search(line)
        if said and said[1] == "RUN":
            self._running, self._written = said[2], []
        elif said and said[2] == self._running:
            self._note(_RESULTS[said[1]])
            self.seconds[said[2]] = int(said[3] or 0) / 1000
        else:
            self._written.append(line.rstrip())

    def _note(self, result: str) -> None:
        told = self._written
        if result == "skipped":
            told = [line.strip() for line in told if "only" in line or "GPU" in line][:1]
        self._run.report.note(
            self._running, result, "" if result == "passed" else "\n".join(told[:_MOST_LINES])
        )
        self._failed = self._failed or result == "failed"
        self.left.remove(self._running)
        self._running = ""

    def _judge(self, ended: limited.Ended) -> bool:
        """Note what the end of a process says; false if those left would not run in another."""
        if self._running:
            self._written.insert(0, ended.how or ended.why().partition("\n")[0])
            self._note("failed")
            return True
        if not ended.ok and not self._failed:
            self._run.report.note(self._program.name, "failed", ended.why())
        elif self.left:
            self._run.report.note(self._program.name, "failed", f"left out: {self.left}")
        return False


def run_all(run: Run, limit_s: float, folder: Path = BUILD / "tests") -> None:
    """Run those of all programs, some at once."""
    end = time.monotonic() + limit_s
    groups, crowds, are_any, done = [], [], False, set(run.done())
    for program in sorted(folder.glob("test_*")):
        listed = _names(run, program)
        are_any = are_any or bool(listed)
        names = [name for name in run.chosen(listed) if name not in done]
        alone = [name for name in names if not _CROWDS.search(name)]
        parts = -(-len(alone) // _IN_A_PROCESS)
        groups += [_Tests(run, program, alone[nth::parts]) for nth in range(parts)]
        crowds += [_Tests(run, program, [name]) for name in names if name not in alone]
    groups.sort(key=lambda it: -len(it.left))
    groups += crowds
    count = sum(len(it.left) for it in groups)
    with (
        place.world(run.environment, run.as_hardware, run.knobs) as given,
        concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        for running in [pool.submit(it.run_all, end, given) for it in groups]:
            running.result()
    seconds = {name: s for it in groups for name, s in it.seconds.items() if s >= _SLOW_S}
    for name in sorted(seconds, key=lambda name: -seconds[name]):
        run.report.say(f"{name} took {seconds[name]:.0f} s")
    if not are_any:
        raise RuntimeError(f"there are no tests in {folder}")
    left_out = sum(len(it.left) for it in groups)
    if left_out and not run.stopped:
        raise RuntimeError(f"no time was left for {left_out} of {count} tests")
