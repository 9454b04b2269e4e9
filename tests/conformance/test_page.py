"""Every rule has a test, every test names rules that exist, and docs/conformance.md says so."""

import json

import page
import pytest
import rules

ALL, SOURCES = rules.load()
TESTS = rules.tests()
NAMED = {name for test in TESTS for name in test.rules}
MAKE = "run ./dev conformance"


@pytest.mark.parametrize("name", ALL)
def test_each_rule_has_a_test(name):
    assert (name in NAMED) != ALL[name].open


@pytest.mark.parametrize("name", ALL)
def test_each_rule_has_a_sentence_and_its_source(name):
    assert ALL[name].text.endswith(".")
    assert ALL[name].source
    assert set(ALL[name].source) <= set(SOURCES)


def test_tests_name_rules_that_exist():
    assert sorted(NAMED - set(ALL)) == []


@pytest.mark.parametrize("file", rules.files(), ids=lambda file: file.stem)
def test_rules_are_named_where_they_are_looked_for(file):
    mentioned = set(rules.MENTION.findall(file.read_text()))
    named = {name for test in TESTS if test.file == file for name in test.rules}
    assert mentioned <= named, "name them at the beginning of the test's docstring or comment"


def test_rules_are_read_as_they_are_written():
    first, second = rules.MENTION.pattern.count("R"), ("R" + "-A-1, 2; R" + "-B-3: it works")
    assert first == 1
    assert rules.named_by(second) == ["R" + "-A-1", "R" + "-A-2", "R" + "-B-3"]
    assert rules.named_by("It works, as R" + "-A-1: says") == []


def test_the_last_run_on_the_stand_in_had_every_test():
    stand_in = json.loads(page.STAND_IN.read_text())
    passed = {page.test_of(name) for name, it in stand_in["results"].items() if it == "passed"}
    assert set(stand_in["results"].values()) == {"passed"}, MAKE
    assert passed == {test.id for test in TESTS}, MAKE


def test_the_page_is_what_rules_tests_and_results_make():
    assert page.PAGE.read_text() == page.page(), MAKE


@pytest.mark.parametrize(
    ("result", "test"),
    [
        ("tests/conformance/test_cai.py::test_a[b::c]", "tests/conformance/test_cai.py::test_a"),
        ("DeviceArrays.It", "DeviceArrays.It"),
        ("test_device_arrays.DeviceArrays.It", "DeviceArrays.It"),
        ("Steps/DeviceRaces.It/0", "DeviceRaces.It"),
        ("test_device_races.Steps/DeviceRaces.It/wait for it", "DeviceRaces.It"),
    ],
)
def test_results_are_of_tests(result, test):
    assert page.test_of(result) == test


def test_what_failed_or_did_not_run_shows(tmp_path, monkeypatch):
    rule = next(name for name in ALL if sum(name in test.rules for test in TESTS) > 1)
    tests = [test for test in TESTS if rule in test.rules]
    report = {"date": "2026-12-01", "gpu": "a GPU", "driver": "580", "cuda": "13.0"}
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    assert "On hardware: **not run yet**" in page.page()
    for results, said in (
        ({tests[0].id: "passed"}, "passed 1, rest not run: 2026-12-01, a GPU, driver 580"),
        ({test.id: "passed" for test in tests}, "| passed: 2026-12-01"),
        ({tests[0].id: "passed", tests[1].id: "failed"}, f"**failed** 1 of {len(tests)}: 2026"),
    ):
        (tmp_path / "run.json").write_text(json.dumps({**report, "results": results}))
        row = next(it for it in page.page().splitlines() if it.startswith(f"| {rule} |"))
        assert said in row


def test_a_run_of_none_of_these_tests_is_not_counted(tmp_path, monkeypatch):
    report = {"date": "2026-12-01", "gpu": "a GPU", "driver": "580", "cuda": "13.0"}
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    for results in ({}, {"smoke::kernel": "passed"}, {TESTS[0].id: "skipped"}):
        (tmp_path / "run.json").write_text(json.dumps({**report, "results": results}))
        assert "On a GPU" not in page.page()
        assert "On hardware: **not run yet**" in page.page()
    (tmp_path / "run.json").write_text(json.dumps({**report, "results": {TESTS[0].id: "passed"}}))
    assert f"2026-12-01: 1 passed, 0 failed, {len(TESTS) - 1} not run." in page.page()
