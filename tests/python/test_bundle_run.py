"""A bundle's run when things go wrong: each failure is in the report, and nothing is left."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import without_calls
from fake_bundle import HARDWARE, PARTS, SCRIPTS, FakeBundle, has_ended

pytestmark = pytest.mark.no_asan  # runs scripts of Python alone

PASSED = {
    **{name: f"{script.removesuffix('.py')}::one" for name, script in SCRIPTS.items()},
    "cpp": "Suite.One",
    "python": "tests/conformance/test_fake.py::test_one",
}


@pytest.fixture
def bundle(tmp_path):
    return FakeBundle(tmp_path)


def told(bundle):
    return json.loads((bundle.report / "report.json").read_text())


def test_a_run_where_all_is_well(bundle):
    status, output = bundle.run()
    report = told(bundle)
    assert status == 0, output
    assert {name: part["state"] for name, part in report["parts"].items()} == dict.fromkeys(
        PARTS, "done"
    )
    assert list(report["parts"]) == list(PARTS)
    assert report["results"]["demo::tsunami"] == "passed"
    assert set(PASSED.values()) < set(report["results"])
    assert set(report["results"].values()) == {"passed"}
    assert report["answers"]["probes"] == "yes"


@pytest.mark.parametrize("name", PARTS)
def test_a_run_ended_by_sigterm_says_so_and_leaves_nothing(bundle, name):
    bundle.part(name, "hang()")
    process = bundle.start("--only", name)
    child = bundle.hanging()
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=60)[0]
    assert has_ended(child)
    assert process.returncode == 128 + signal.SIGTERM, output
    report = told(bundle)
    assert report["parts"][name]["state"] == "ended by SIGTERM"
    assert "failed" not in report["results"].values()
    assert name not in PASSED or report["results"][PASSED[name]] == "passed"
    assert "ended by SIGTERM" in (bundle.report / "report.md").read_text()


@pytest.mark.parametrize("name", PARTS)
def test_a_run_that_is_killed_keeps_what_it_had_and_leaves_nothing(bundle, name):
    bundle.part(name, "hang()")
    process = bundle.start("--only", name)
    child = bundle.hanging()
    os.killpg(process.pid, signal.SIGKILL)
    assert has_ended(child)
    process.communicate()
    report = told(bundle)
    assert report["parts"][name]["state"] == "running"
    assert name not in PASSED or report["results"][PASSED[name]] == "passed"


def test_without_a_keeper_a_killed_process_would_leave_something(tmp_path):
    """The negative control of the tests above."""
    told = tmp_path / "told"
    os.mkfifo(told)
    script = f"setsid sh -c \"echo \\$\\$ >>'{told}'; exec sleep 1000\"; true"
    process = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    child = os.pidfd_open(int(told.read_text()))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    try:
        signal.pidfd_send_signal(child, signal.SIGKILL)  # raises if it has ended
    finally:
        os.close(child)


# Parts with a script are alike.
@pytest.mark.parametrize("name", ["answers", "cpp", "python", "demo"])
def test_a_part_that_uses_up_the_time_says_so(bundle, name):
    bundle.part(name, "hang()")
    with bundle.listening() as children:
        output = bundle.run_part(name, limit_s=3)
    assert all(has_ended(child) for child in children)
    report = told(bundle)
    reasons = [report["parts"][name].get("why", ""), *report["why"].values()]
    assert any("time limit of" in it or "no time was left for" in it for it in reasons), output


def test_a_check_that_runs_out_of_its_parts_time_has_not_failed(bundle):
    bundle.part("answers", "hang()")
    bundle.run_part("answers", limit_s=3)
    report = told(bundle)
    assert report["parts"]["answers"]["why"].startswith("no time was left for two (it had ")
    assert report["results"] == {"probes::one": "passed"}


def test_a_check_that_hangs_leaves_time_for_those_behind_it(bundle):
    bundle.put(
        "tests/hardware/probes.py",
        "import json, sys, time\n"
        "if len(sys.argv) == 1:\n"
        "    print(json.dumps(['hangs', 'one', 'two', 'three']))\n"
        "elif sys.argv[1] == 'hangs':\n"
        "    time.sleep(1000)\n"
        "else:\n"
        "    print(json.dumps({'answer': sys.argv[1], 'is': 'yes'}))\n",
    )
    bundle.run_part("answers", limit_s=14)
    report = told(bundle)
    assert list(report["answers"]) == ["one", "two", "three"]
    assert report["parts"]["answers"]["why"] == "no time was left for hangs (it had 8 s)"


def test_smoke_checks_that_hang_end_the_run(bundle):
    bundle.put(
        "tests/hardware/smoke.py",
        "import sys, time\nprint('[\"all\"]') if len(sys.argv) == 1 else time.sleep(1000)\n",
    )
    bundle.run_part("smoke", limit_s=6)
    report = told(bundle)
    assert "ran past its time limit of 3 s" in report["parts"]["smoke"]["why"]


def test_a_failing_smoke_check_ends_the_run_and_says_why(bundle):
    bundle.part(
        "smoke",
        'print(json.dumps({"check": "smoke::driver", "result": "failed", "why": "no driver"}));'
        " sys.exit(1)",
    )
    status, output = bundle.run()
    assert status == 1
    parts = told(bundle)["parts"]
    assert parts["smoke"]["why"] == "smoke::driver: no driver"
    assert {it["state"] for name, it in parts.items() if name != "smoke"} == {"not run"}
    assert "smoke::driver: no driver" in output


def test_a_check_of_linux_alone_that_fails_does_not(bundle):
    bundle.part(
        "smoke",
        'print(json.dumps({"check": "smoke::futex_waitv", "result": "failed", "why": "ENOSYS"}))',
    )
    status, _ = bundle.run("--only", "smoke", "--only", "answers")
    assert status == 1
    report = told(bundle)
    assert {it["state"] for it in report["parts"].values()} == {"done"}
    assert report["why"]["smoke::futex_waitv"] == "ENOSYS"


def test_kernels_that_do_not_run_are_built_here_once(bundle):
    kernels = bundle.root / "build/hardware/libtest_kernels.so"
    bundle.part(
        "smoke",
        f'works = "native" in open({str(kernels)!r}).read();'
        ' print(json.dumps({"check": "smoke::kernel", "why": "209",'
        ' "result": "passed" if works else "failed"})); sys.exit(not works)',
    )
    count = bundle.root.parent / "count"
    compiler = 'for made; do :; done\n[ "$made" = --version ] || echo native >"$made"\n'
    compiler = f"#!/bin/sh\necho \"$*\" >>'{count}'\n{compiler}"
    bundle.put_program("nvcc", compiler)
    (bundle.tools / "nvcc").symlink_to(bundle.root / "nvcc")
    for _ in range(2):
        status, output = bundle.run("--only", "smoke")
        assert status == 0, output
        assert told(bundle)["results"]["smoke::kernel"] == "passed"
    (built,) = [line for line in count.read_text().splitlines() if line != "--version"]
    assert "-arch=native" in built


def test_kernels_that_run_nowhere_end_the_run(bundle):
    bundle.part(
        "smoke",
        'print(json.dumps({"check": "smoke::kernel", "result": "failed", "why": "222"}));'
        " sys.exit(1)",
    )
    bundle.put_program("nvcc", "#!/bin/sh\necho no such GPU; exit 1\n")
    (bundle.tools / "nvcc").symlink_to(bundle.root / "nvcc")
    status, output = bundle.run()
    assert status == 1
    report = told(bundle)
    assert "no such GPU" in report["why"]["bundle::kernels"]
    assert report["parts"]["smoke"]["why"] == "smoke::kernel: 222"
    assert report["parts"]["answers"]["state"] == "not run", output


def test_without_module_compiler_and_headers_the_other_parts_run(bundle):
    bundle.put("python/memlease/__init__.py", "raise ImportError('no memlease._core here')")
    status, output = bundle.run()
    assert status == 1
    report = told(bundle)
    assert report["results"]["bundle::module"] == "failed"
    assert "no memlease._core here" in report["why"]["bundle::module"]
    assert "there is no g++ in PATH" in report["why"]["bundle::module"], output
    for name in (*SCRIPTS, "cpp"):
        assert report["parts"][name]["state"] == "done"
        assert report["results"][PASSED[name]] == "passed"


def test_a_part_whose_script_cannot_start_does_not_hide_the_others(bundle):
    bundle.put("tests/hardware/journey.py", "import no_such_library")
    status, _ = bundle.run("--from", "answers")
    assert status == 1
    report = told(bundle)
    assert "no_such_library" in report["parts"]["journey"]["why"]
    assert report["parts"]["figures"]["state"] == "done"


@pytest.mark.parametrize(("part", "why"), [("cpp", "time limit of 5 s"), ("python", "in test_two")])
def test_a_test_that_hangs_fails_alone(bundle, part, why):
    bundle.part(part, "hang()")
    with bundle.listening() as children:
        bundle.run_part(part, limit_s=100, one_test_s=5)
    assert all(has_ended(child) for child in children)
    report = told(bundle)
    assert report["parts"][part]["state"] == "done"
    assert list(report["results"].values()).count("passed") == 2
    (hung,) = [test for test, result in report["results"].items() if result == "failed"]
    assert why in report["why"][hung]


@pytest.mark.parametrize(
    ("part", "tests"),
    [
        ("cpp", ["Suite.One", "Suite.Two", "Suite.Three"]),
        (
            "python",
            [f"tests/conformance/test_fake.py::test_{it}" for it in ("one", "two", "three")],
        ),
    ],
)
def test_a_test_that_crashes_fails_alone(bundle, part, tests):
    bundle.part(part, "os.abort()")
    status, _ = bundle.run("--only", part)
    assert status == 1
    report = told(bundle)
    assert [report["results"][it] for it in tests] == ["passed", "failed", "passed"]
    assert "SIGABRT" in report["why"][tests[1]]


def test_a_program_that_cannot_be_loaded_does_not_hide_the_others(bundle):
    bundle.put_program("build/tests/test_older", "#!/no/such/loader\n")
    bundle.run("--only", "cpp")
    report = told(bundle)
    assert report["results"]["test_older"] == "failed"
    assert report["results"]["Suite.Two"] == "passed"


def test_a_report_goes_elsewhere_if_its_folder_cannot_be_written_to(bundle, tmp_path):
    bundle.report = tmp_path / "told" / "report"  # which is a FIFO
    process = bundle.start("--only", "answers", TMPDIR=str(tmp_path))
    output = process.communicate(timeout=60)[0]
    (made,) = tmp_path.glob("memlease-report-*")
    assert f"the report is in {made}" in output
    report = json.loads((made / "report.json").read_text())
    assert report["results"]["probes::one"] == "passed"
    assert report["notes"][0] in output


def test_a_later_command_goes_on_in_the_same_report(bundle):
    bundle.run("--only", "cpp")
    bundle.run("--only", "answers")
    assert list(told(bundle)["parts"]) == ["cpp", "answers"]
    assert {"Suite.One", "probes::one"} <= set(told(bundle)["results"])
    bundle.run("--only", "answers", "--from", "answers")
    assert told(bundle)["parts"]["cpp"]["state"] == "done"


def test_a_run_goes_on_when_nobody_reads_what_it_prints(bundle):
    listening, told_to = os.pipe()
    os.close(listening)
    run = [sys.executable, bundle.root / "tests/hardware/run.py"]
    ended = subprocess.run(
        [*run, "--only", "answers", "--only", "figures", bundle.report],
        env={"PATH": str(bundle.tools)},
        stdout=told_to,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(told_to)
    parts = told(bundle)["parts"]
    assert {name: it["state"] for name, it in parts.items()} == dict.fromkeys(
        ("answers", "figures"), "done"
    ), ended.stderr
    assert (ended.returncode, ended.stderr) == (0, "")


RUN_COMMAND = """
import json, sys, limited
ended = limited.run(sys.argv[1:], 0.5)
print(json.dumps([len(ended.output), ended.how, ended.output[-20:]]))
"""


@pytest.mark.parametrize("flood", ["yes", "tr '\\0' y </dev/zero"])
def test_a_flood_of_output_ends_at_the_limit_and_its_end_is_kept(flood):
    command = f"exec {flood}"
    ended = subprocess.run(
        [sys.executable, "-c", RUN_COMMAND, "sh", "-c", command],
        env={**os.environ, "PYTHONPATH": str(HARDWARE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    length, how, last = json.loads(ended.stdout)
    assert how.startswith("ran past its time limit")
    assert 100_000 < length <= 3 << 20
    assert set(last) <= {"y", "\n"}


@pytest.mark.parametrize(
    "text", ['{"parts": {', "[1]", '{"results": 3}', '{"parts": {"cpp": {}}}', "\udcff"]
)
def test_what_is_no_report_is_replaced_and_that_is_said(bundle, text):
    bundle.report.mkdir()
    (bundle.report / "report.json").write_text(text, errors="surrogateescape")
    status, output = bundle.run("--only", "answers")
    assert status == 0, output
    report = told(bundle)
    assert list(report["parts"]) == ["answers"]
    assert any("is replaced, as it is no report" in note for note in report["notes"])


def hardware_folder(tmp_path):
    """Return where a bundle that cannot be written to keeps what it makes."""
    bundle = tmp_path / "bundle/tests/hardware"
    bundle.mkdir(parents=True)
    shutil.copy(HARDWARE / "place.py", bundle)
    ended = subprocess.run(
        [sys.executable, "-c", "import place; print(place.HARDWARE)"],
        env={"PYTHONPATH": str(bundle), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(ended.stdout.strip())


def test_what_is_made_for_a_bundle_that_cannot_be_written_to_is_found_again(tmp_path):
    expected = tmp_path / f"memlease-hardware-{os.getuid()}"
    assert hardware_folder(tmp_path) == expected
    assert expected.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(tmp_path / "bundle")
    assert hardware_folder(tmp_path) == expected


@pytest.mark.parametrize("others", ["may write to it", "may have made it a link"])
def test_libraries_are_not_loaded_from_a_folder_of_others(tmp_path, others):
    folder = tmp_path / f"memlease-hardware-{os.getuid()}"
    if others == "may write to it":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    found = hardware_folder(tmp_path)
    assert found != folder
    assert found.stat().st_mode & 0o777 == 0o700


def test_what_the_demo_lacks_is_said(bundle):
    (bundle.root / "build/mpi/bin/mpirun").unlink()
    status, _ = bundle.run("--only", "demo")
    assert status == 0
    report = told(bundle)
    assert report["results"]["demo::tsunami"] == "skipped"
    assert report["why"]["demo::tsunami"] == "the bundle has no mpirun"


def test_what_a_bundle_lacks_is_said(bundle):
    missing = "no module for Python 3.12"
    bundle.put("bundle.json", json.dumps({"commit": "abc", "missing": [missing]}))
    bundle.run("--only", "answers")
    report = told(bundle)
    assert report["bundle"]["commit"] == "abc"
    assert f"the bundle lacks something: {missing}" in report["notes"]


PIDFD_OPEN, FUTEX_WAITV = 434, 449


def test_a_run_needs_no_pidfds(bundle):
    bundle.part("python", "hang()")
    sandbox = [sys.executable, without_calls.__file__, f"{PIDFD_OPEN},{FUTEX_WAITV}"]
    run = [sys.executable, bundle.root / "tests/hardware/run.py"]
    process = subprocess.Popen(
        [*sandbox, *run, "--only", "answers", "--only", "python", bundle.report],
        env={"PATH": str(bundle.tools)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    child = bundle.hanging()
    process.terminate()
    output = process.communicate(timeout=60)[0]
    assert has_ended(child)
    parts = told(bundle)["parts"]
    assert parts["answers"]["state"] == "done", output
    assert parts["python"]["state"] == "ended by SIGTERM"


def test_these_scripts_are_those_of_the_bundle():
    assert all((HARDWARE / script).exists() for script in SCRIPTS.values())
