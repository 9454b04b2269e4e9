"""Make docs/conformance.md from the rules, the tests that name them, and the results of runs.

With --run, run these tests on the stand-in first, and keep what they say in
docs/gpu-results/stand-in.json. The programs and the Python package of the release build must be
the ones that are found: `./dev conformance` sees to all of that.
"""

from __future__ import annotations

import collections
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import rules
from rules import ROOT, Rule, Test

PAGE = ROOT / "docs/conformance.md"
RESULTS = ROOT / "docs/gpu-results"
STAND_IN = RESULTS / "stand-in.json"

HEAD = """\
# Rules and their tests

GPU arrays meet other libraries by the CUDA array interface and by DLPack, and other processes by
events; host arrays meet SYCL's libraries by the SYCL USM array interface. This page lists the rules
that hold there, each with its tests, and where these have passed. It is made by `./dev conformance`
from `tests/conformance/rules.toml`, from the tests that name the rules, and from
[the results of runs](gpu-results/README.md); a test fails if it does not agree with them.

What has passed on the [CUDA stand-in](fakecuda.md) shows that our calls of CUDA keep the rule, in
the order that the stand-in's checker demands, with doubles of the libraries that ask and wait as
the real ones do. That a GPU, its driver and the real libraries do as those do is what the last two
columns are about.
"""

FAMILIES = {
    "R-CAI": ("The CUDA array interface", ""),
    "R-DLP": ("DLPack", ""),
    "R-SYNC": ("Synchronisation between processes", ""),
    "R-SYCL": (
        "The SYCL USM array interface",
        "Here the column `stand-in` is about a CPU's SYCL runtime, with the real dpctl and dpnp,\n"
        "and about a stand-in of dpctl, whose contexts know memory of ours. No GPU was tried.\n",
    ),
    "R-BUG": (
        "Defects that others have had",
        "DLPack exports are known to have these; the tests show that ours has not.\n",
    ),
}


# ---- Results.


def test_of(result: str) -> str:
    """Return the id of the test that a result is of: without parameters, and CTest's program."""
    if "::" in result:
        return result.partition("[")[0]
    name = re.fullmatch(r"(?:test_\w+\.)?(?:\w+/)?(\w+\.\w+)(?:/.*)?", result)
    return name[1] if name else result


def reports() -> list[dict[str, Any]]:
    """Return what runs on hardware have left, the latest first."""
    files = [file for file in RESULTS.glob("*.json") if file != STAND_IN]
    found = [json.loads(file.read_text()) for file in files]
    return sorted(found, key=lambda report: (report["date"], report["gpu"]), reverse=True)


def outcomes(tests: Iterable[Test], report: dict[str, Any]) -> collections.Counter[str]:
    """How many of the tests passed, failed, or were skipped or not there."""
    by_test = collections.defaultdict(set)
    for result, outcome in report["results"].items():
        by_test[test_of(result)].add(outcome)
    counted: collections.Counter[str] = collections.Counter()
    for test in tests:
        found = by_test[test.id]
        counted[next((it for it in ("failed", "passed") if it in found), "skipped")] += 1
    return counted


def verdict(tests: list[Test], report: dict[str, Any]) -> str:
    """Say in a word or two how the tests of a rule went."""
    counted = outcomes(tests, report)
    if counted["failed"]:
        return f"**failed** {counted['failed']} of {len(tests)}"
    if counted["passed"] == 0:
        return "not run yet"
    return (
        "passed" if counted["passed"] == len(tests) else f"passed {counted['passed']}, rest not run"
    )


# ---- The page.


def row(name: str, rule: Rule, tests: list[Test], stand_in: dict[str, Any]) -> str:
    links = "<br>".join(f"[{test.name}](../{test.file.relative_to(ROOT)})" for test in tests)
    sources = ", ".join(f"[{source}]" for source in rule.source)
    hardware = "<br>".join(
        f"{said}: {report['date']}, {report['gpu']}, driver {report['driver']}"
        for report in reports()
        if (said := verdict(tests, report)) != "not run yet"
    )
    cells = [
        name,
        f"{rule.text} {sources}",
        links or "none yet",
        "not built yet" if rule.open else verdict(tests, stand_in),
        rule.hardware or "no GPU is concerned",
        hardware or ("not run yet" if rule.hardware else "-"),
    ]
    return f"| {' | '.join(cells)} |\n"


def page() -> str:
    """Return the text of the page."""
    by_rule = collections.defaultdict(list)
    tests = rules.tests()
    for test in tests:
        for name in test.rules:
            by_rule[name].append(test)
    all_rules, sources = rules.load()
    stand_in = json.loads(STAND_IN.read_text())
    text = HEAD + "\n" + summary(all_rules, tests, stand_in)
    for family, (title, what) in FAMILIES.items():
        text += f"\n## {title}\n\n{what}{chr(10) if what else ''}"
        text += "| rule | what it says | tests | stand-in | hardware must show | hardware |\n"
        text += "|---|---|---|---|---|---|\n"
        for name, rule in all_rules.items():
            if name.rpartition("-")[0] == family:
                text += row(name, rule, by_rule[name], stand_in)
    text += "\n" + "".join(f"[{source}]: {address}\n" for source, address in sources.items())
    return text


def summary(all_rules: dict[str, Rule], tests: list[Test], stand_in: dict[str, Any]) -> str:
    """Say how far the runs have come."""
    counted = outcomes(tests, stand_in)
    runs = [f"- On the stand-in, {stand_in['date']}: {counted['passed']} passed"]
    runs[0] += f", {counted['failed']} failed." if counted["failed"] else "."
    for report in reports():
        counted = outcomes(tests, report)
        if not counted["passed"] + counted["failed"]:  # it was about other tests, or had no time
            continue
        runs.append(
            f"- On {report['gpu']}, driver {report['driver']}, CUDA {report['cuda']}, "
            f"{report['date']}: {counted['passed']} passed, {counted['failed']} failed, "
            f"{counted['skipped']} not run."
        )
    if len(runs) == 1:
        runs.append("- On hardware: **not run yet**.")
    return f"{len(all_rules)} rules, {len(tests)} tests:\n\n" + "\n".join(runs) + "\n"


# ---- A run.


def cases(file: Path) -> dict[str, str]:
    """Return the outcomes in a JUnit file of pytest's or CTest's, by the tests' ids."""
    found = {}
    for case in ElementTree.parse(file).iter("testcase"):
        name = case.get("name", "")
        module = case.get("classname", "")
        if module.startswith("tests."):
            name = f"{module.replace('.', '/')}.py::{name}"
        bad = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None or case.get("status") == "notrun"
        found[name] = "failed" if bad else "skipped" if skipped else "passed"
    return found


def run() -> bool:
    """Run all tests that name a rule, on the stand-in; false if one failed."""
    tests = rules.tests()
    suites = sorted({test.name.partition(".")[0] for test in tests if test.file.suffix == ".cc"})
    files = sorted(
        {str(test.file.relative_to(ROOT)) for test in tests if test.file.suffix == ".py"}
    )
    jobs = str(os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as folder:
        cpp, python = Path(folder, "ctest.xml"), Path(folder, "pytest.xml")
        regex = rf"[./]({'|'.join(suites)})\."
        ctest = ["ctest", "--preset", "release", "-j", jobs, "-R", regex, "--output-junit", cpp]
        pytest = [sys.executable, "-m", "pytest", "-q", *files, f"--junitxml={python}"]
        codes = [subprocess.run(it, cwd=ROOT, check=False).returncode for it in (ctest, pytest)]
        results = {**cases(cpp), **cases(python)}
    ids = {test.id for test in tests}
    report = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpu": "CUDA stand-in",
        "driver": "none",
        "cuda": "13.0",
        "results": {name: results[name] for name in sorted(results) if test_of(name) in ids},
    }
    STAND_IN.write_text(json.dumps(report, indent=2) + "\n")
    return codes == [0, 0]


def main() -> int:
    passed = run() if "--run" in sys.argv[1:] else True
    PAGE.write_text(page())
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
