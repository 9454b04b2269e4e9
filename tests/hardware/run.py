"""Runs a bundle: facts, questions, tests, figures. Each part has a time limit; see run.sh."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import facts
import limited
import place
import suites
from report import Report

import build

_ONE_QUESTION_S = 40


@dataclasses.dataclass
class Run:
    """One run, on hardware or on the stand-in."""

    report: Report
    stand_in: bool
    end: float
    environment: dict[str, str]

    def facts(self, _: float) -> None:
        self.report.facts = facts.gather(self.stand_in)

    def build(self, limit_s: float) -> None:
        if not self.stand_in or build.nvcc():
            self.report.facts["libcudart"] = build.kernels(limit_s / 2)
        build.module(limit_s)
        for name in ("bin/memleased", "bin/memleasectl"):
            ended = limited.run([place.BUILD / name, "--version"], 10, self.environment)
            if not ended.ok:
                raise RuntimeError(f"{name}: {ended.why()}")

    def answers(self, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        listed = limited.run(place.python("probes.py"), 30, self.environment)
        if not listed.ok:
            raise RuntimeError(listed.why())
        for question in json.loads(listed.output):
            with place.world(self.environment, self.stand_in) as given:
                left = min(_ONE_QUESTION_S, end - time.monotonic())
                ended = limited.run(place.python("probes.py", question), left, given)
            answers = [line for line in ended.output.splitlines() if line.startswith(('"', "{"))]
            answer = json.loads(answers[-1]) if ended.ok and answers else f"failed: {ended.why()}"
            self.report.answers[question] = answer
            self.report.write()
        frees = self.report.answers["later_record_frees"]
        if isinstance(frees, dict):  # the tests of deaths want to know
            self.environment["MEMLEASE_HEIR_RELEASES"] = str(int(frees["answer"] == "yes"))

    def cpp(self, limit_s: float) -> None:
        suites.cpp(self.report, limit_s, self.environment)

    def python(self, limit_s: float) -> None:
        suites.python(self.report, limit_s, self.environment)

    def figures(self, limit_s: float) -> None:
        with place.world(self.environment, self.stand_in) as given:
            ended = limited.run(place.python("figures.py"), limit_s, given)
        for line in ended.output.splitlines():
            if line.startswith("{"):
                self.report.figures.update(json.loads(line))
        if not ended.ok:
            raise RuntimeError(ended.why())

    def part(self, what: Callable[[float], None], limit_s: float) -> None:
        """Run one part; whatever goes wrong in it stands in the report."""
        start = time.monotonic()
        limit_s = min(limit_s, self.end - start)
        note = self.report.parts[what.__name__] = {"state": "running"}
        self.report.write()
        if limit_s <= 0:
            note["state"] = "no time left"
        else:
            try:
                what(limit_s)
                note["state"] = "done"
            except Exception as error:
                note.update(state="failed", why=f"{type(error).__name__}: {error}")
            note["seconds"] = str(round(time.monotonic() - start, 1))
        self.report.write()
        print(f"{what.__name__}: {note['state']}, {note.get('seconds', 0)} s", flush=True)

    def all_parts(self) -> None:
        self.part(self.facts, 60)
        self.part(self.build, 300 if self.stand_in else 150)
        self.part(self.answers, 120)
        memory = self.report.answers.get("ipc_memory")
        if memory != "yes":
            print(f"CUDA IPC does not work here ({memory}): most tests will fail", flush=True)
        self.part(self.cpp, 170)
        self.part(self.python, 240)
        self.part(self.figures, 90)


def main() -> int:
    """Return 1 if a part or a test failed."""
    parser = argparse.ArgumentParser(prog="run.sh")
    parser.add_argument("report", nargs="?", type=Path, default=place.ROOT / "report")
    parser.add_argument("--stand-in", action="store_true", help="no GPU: prove the bundle itself")
    parser.add_argument("--seconds", type=float, default=570, help="for all of it")
    given = parser.parse_args()
    report = Report(given.report)
    end = time.monotonic() + given.seconds
    run = Run(report, given.stand_in, end, place.environment(given.stand_in))
    run.all_parts()
    print((given.report / "report.md").read_text())
    failed = [name for name, part in report.parts.items() if part["state"] != "done"]
    return 1 if failed or "failed" in report.results.values() else 0


if __name__ == "__main__":
    sys.exit(main())
