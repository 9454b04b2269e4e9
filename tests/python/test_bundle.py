"""What ./dev gpu bundle takes along, and how a run on hardware keeps its time and its report."""

import contextlib
import importlib
import json
import os
import re
import sys
import time
from pathlib import Path

import pytest

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
    missing = [name for name in load("bundle").PROGRAMS if not list(build.glob(name))]
    assert not missing


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
