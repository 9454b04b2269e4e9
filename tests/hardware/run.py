"""Runs a bundle: see run.sh. Each part has a time limit and is in the report at once."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import facts
import parts
import place
import prepare
from report import Report, tell
from run_state import Run

_PREPARING_S = 150
_ONE_TEST_STAND_IN_S = 180  # its machine may be slow, and have two cores


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.sh")
    add = parser.add_argument
    names = [part.name for part in parts.PARTS]
    add("report", nargs="?", type=Path, default=place.ROOT / "report", help="folder for the report")
    add("--only", action="append", choices=names, default=[], help="this part; may be repeated")
    add("--from", dest="first", choices=names, help="this part and all that follow")
    help_of_check = "of questions, figures and C++ tests such as have this in their names; likewise"
    add("--check", action="append", default=[], metavar="NAME", help=help_of_check)
    add("--rest", action="store_true", help="go on: no test again that has not failed")
    add("--seconds", type=float, default=570, help="for all of it (570)")
    add("--stand-in", action="store_true", help="no GPU: prove the bundle itself")
    add("--as-hardware", action="store_true", help="the tests take the stand-in for hardware")
    add("--set", action="append", default=[], metavar="KNOB=VALUE", help="of the stand-in's worlds")
    return parser.parse_args()


def _manifest(report: Report) -> dict[str, Any]:
    """Return what the bundle is, and note what it lacks."""
    manifest = json.loads(place.MANIFEST.read_text()) if place.MANIFEST.exists() else {}
    for line in manifest.pop("missing", []):
        report.say(f"the bundle lacks something: {line}")
    return manifest


def main() -> int:
    """Return 1 if a part or a test failed, 128 and a signal's number if that has ended the run."""
    given = _arguments()
    end = time.monotonic() + given.seconds
    report = Report(
        given.report, goes_on=bool(given.only or given.first or given.check or given.rest)
    )
    knobs = {name: int(value) for name, _, value in (it.partition("=") for it in given.set)}
    run = Run(report, given.stand_in or given.as_hardware, {}, knobs, end)
    run.as_hardware, run.checks = given.as_hardware, given.check
    run.rest = given.rest
    run.environment = place.environment(run.stand_in, run.as_hardware)
    if run.stand_in:
        run.one_test_s = _ONE_TEST_STAND_IN_S
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _: parts.stop(run, signal.Signals(got).name))
    report.facts = {**facts.gather(run.stand_in), "bundle": _manifest(report)}
    prepare.prepare(run, min(_PREPARING_S, given.seconds / 2))
    parts.go(run, parts.selected(given.only, given.first))
    tell((report.folder / "report.md").read_text())
    if run.stopped:
        return 128 + signal.Signals[run.stopped].value
    failed = [name for name, part in report.parts.items() if part["state"] != "done"]
    return 1 if failed or "failed" in report.results.values() else 0


if __name__ == "__main__":
    sys.exit(main())
