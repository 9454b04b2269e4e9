"""What ./dev gpu bundle takes along, and how a run on hardware keeps its time and its report."""

import contextlib
import importlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_asan  # scripts of Python alone, which start others

HARDWARE = Path(__file__).parents[1] / "hardware"


@pytest.fixture
def load(monkeypatch):
    """Import modules of tests/hardware, whose names are plain words, for one test."""
    monkeypatch.syspath_prepend(str(HARDWARE))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == HARDWARE:
            del sys.modules[name]


def test_the_bundles_programs_are_built(load):
    build = Path(os.environ["MEMLEASE_BUILD_DIR"])
    programs = load("bundled_programs")
    tests = [f"tests/{name}" for name in (*programs.PEERS, *programs.TESTS)]
    tests.remove("tests/test_tsunami_on_gpu")  # where CMake found nvcc
    missing = [name for name in (*programs.NEEDED, *tests) if not (build / name).exists()]
    assert not missing


def test_a_program_that_cannot_be_built_does_not_hide_the_others(load, monkeypatch):
    programs = load("bundled_programs")
    monkeypatch.setattr(programs, "_build", lambda targets: "b.cc: wrong" if "b" in targets else "")
    assert programs.build_each(["a", "b", "c"]) == {"b": "b.cc: wrong"}
    assert programs.build_each(["a", "c"]) == {}


def test_what_cannot_be_prebuilt_is_a_line_in_the_bundle(load, monkeypatch, tmp_path):
    prebuilt = load("prebuilt")
    monkeypatch.setattr(prebuilt.build, "nvcc", lambda: None)
    monkeypatch.setattr(prebuilt.pythons, "found", list)
    missing = []
    made = prebuilt.Prebuilt(tmp_path, missing)
    made.add_kernels()
    made.add_modules(["/no/such/python"])
    assert made.has == {"kernels": [], "modules": []}
    first, second, third = missing
    assert first.startswith("no prebuilt test kernels: there is no nvcc")
    assert second.startswith("no module for /no/such/python")
    assert third.startswith("no module for Python 3.12: none with headers was found here")


def test_the_bundles_sources_need_no_others(load, tmp_path):
    load("bundle").copy_sources(tmp_path)
    folders = (tmp_path, tmp_path / "client/include", tmp_path / "third_party")
    ours = [it for it in tmp_path.rglob("*.*") if "third_party" not in it.parts]
    includes = {
        name
        for file in ours
        if file.suffix in (".h", ".cc")
        for name in re.findall(r'#include ["<](\w+/[\w/.]+)[">]', file.read_text())
        if not name.startswith(("sys/", "cuda"))
    }
    assert "pybind11/pybind11.h" in includes
    missing = {it for it in includes if not any((folder / it).exists() for folder in folders)}
    assert not missing
    modules = {it.stem for it in ours if it.suffix == ".py"}
    for module in (HARDWARE.parent / "support").rglob("*.py"):
        assert module.stem in modules


def test_a_command_past_its_time_is_killed_with_all_that_it_started(load, tmp_path):
    child = tmp_path / "child"
    script = f"sleep 1000 & echo $! >{child}.new; mv {child}.new {child}; echo begun; wait"
    ended = load("limited").run(["sh", "-c", script], 5)
    assert (ended.status, ended.output) == (None, "begun\n")
    stat = Path("/proc", child.read_text().strip(), "stat")
    end = time.monotonic() + 10
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it is gone
        while stat.read_text().split()[2] != "Z":
            assert time.monotonic() < end, "the child of a killed command runs on"


def test_a_command_that_cannot_be_started_has_failed(load):
    ended = load("limited").run(["/nowhere/to/be/found"], 1)
    assert not ended.ok
    assert "nowhere" in ended.why()


def test_the_output_of_a_command_comes_line_by_line(load):
    lines = []
    ended = load("limited").run(["printf", r"one\ntwo\n\0limit"], 5, on_line=lines.append)
    assert (ended.status, ended.output) == (0, "one\ntwo\n\0limit")
    assert lines == ["one\n", "two\n"]


def test_a_command_that_a_signal_ends_says_which(load):
    ended = load("limited").run(["sh", "-c", "kill -SEGV $$"], 5)
    assert ended.status == -signal.SIGSEGV
    assert ended.why() == "killed by SIGSEGV"


def test_a_command_gets_signals_as_from_a_shell(load):
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background
    try:
        ended = load("limited").run(["sh", "-c", "yes | head -n 1; kill -INT $$"], 5)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert (ended.status, ended.output) == (-signal.SIGINT, "y\n")


def test_a_command_may_outlive_its_output(load):
    assert load("limited").run(["sh", "-c", "exec >/dev/null 2>&1; exit 3"], 5).status == 3


def test_a_report_has_what_the_results_page_wants_and_keeps_failures(load, tmp_path):
    report = load("report").Report(tmp_path)
    report.facts = {"gpu": "NVIDIA X", "driver": "1", "cuda": "13.0"}
    report.note("a.py::b[1]", "passed")
    report.note("a.py::b[1]", "failed", "its end went wrong")
    report.note("C.d", "failed", "first")
    report.note("C.d", "passed")
    report.note("C.e", "skipped", "stand-in only")
    report.write()
    data = json.loads((tmp_path / "report.json").read_text())
    assert {"date", "gpu", "driver", "cuda", "results"} <= set(data)
    assert data["results"] == {"a.py::b[1]": "failed", "C.d": "failed", "C.e": "skipped"}
    page = (tmp_path / "report.md").read_text()
    assert "1 skipped (stand-in only)" in page
    assert "its end went wrong" in page


def test_the_page_of_the_rules_reads_a_runs_report(load, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(HARDWARE.parent / "conformance")
    page = importlib.import_module("page")
    test = page.rules.tests()[0]
    report = load("report").Report(tmp_path / "report")
    report.facts = {"gpu": "NVIDIA X", "driver": "580", "cuda": "13.0", "bundle": {"commit": "a"}}
    report.take(json.dumps({"check": "smoke::driver", "result": "passed", "why": "13.0"}))
    report.note(f"{test.id}[one]", "failed", "wrong")
    results = tmp_path / "results"
    results.mkdir()
    (tmp_path / "report/report.json").rename(results / "2026-12-01-x.json")
    monkeypatch.setattr(page, "RESULTS", results)
    text = page.page()
    assert f"On NVIDIA X, driver 580, CUDA 13.0, {report.date}: 0 passed, 1 failed" in text
    row = next(it for it in text.splitlines() if it.startswith(f"| {test.rules[0]} |"))
    assert "**failed** 1 of" in row
    assert f"{report.date}, NVIDIA X, driver 580" in row


INTERRUPTED = """the publisher ended so: Traceback (most recent call last):
  File "publisher.py", line 16, in <module>
memlease.errors.Unsupported: opening the daemon's memory: 205

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "client.py", line 298, in close
KeyboardInterrupt
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (INTERRUPTED, "memlease.errors.Unsupported: opening the daemon's memory: 205"),
        ("it ended so: Traceback:\n  import numpy\nKeyboardInterrupt\n", "KeyboardInterrupt"),
        ("Traceback:\n  File\nAssertionError: wrong values\n", "wrong values"),
        ("", "AssertionError('')"),
    ],
)
def test_the_reason_of_a_failure_is_its_last_line_but_no_interruption(load, text, reason):
    assert load("say").reason(AssertionError(text)) == reason


def test_a_world_of_a_killed_run_is_removed_by_the_next_and_no_other_one(
    load, monkeypatch, tmp_path
):
    place = load("place")
    monkeypatch.setattr(place, "SHM", tmp_path)
    monkeypatch.setattr(place, "STAND_IN", tmp_path)
    (tmp_path / "fakecuda").symlink_to("/bin/true")
    left = tmp_path / "memlease-fakecuda-run-left"
    left.mkdir()
    (left / "world").touch()
    (tmp_path / "memlease-fakecuda-other").mkdir()
    with (
        place.world({}, stand_in=True, knobs={}) as first,
        place.world({}, stand_in=True, knobs={}) as second,
    ):
        worlds = {Path(it["FAKECUDA_WORLD"]) for it in (first, second)}
        assert set(tmp_path.glob("memlease-*")) == {*worlds, tmp_path / "memlease-fakecuda-other"}
    assert [it.name for it in tmp_path.glob("memlease-*")] == ["memlease-fakecuda-other"]
