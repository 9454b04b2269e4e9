"""memleasectl doctor: what it finds is really so."""

import json
import os
import resource
import signal
import subprocess

from conftest import ctl, open_to_all, program

HOST = ["memfd", "read_only", "huge_pages", "futex_waitv", "pidfd_open", "so_peerpidfd",
        "open_files", "gpu"]  # fmt: skip
DAEMON = ["directory", "control_socket", "attach_socket", "lock", "version", "isolation",
          "daemon_files", "memory_limit"]  # fmt: skip


def checks_of(result):
    answer = json.loads(result.stdout)
    failed = [check for check in answer["checks"] if check["result"] == "failed"]
    assert answer["failed"] == len(failed)
    assert result.returncode == (1 if failed else 0)
    assert all(check["reason"] for check in answer["checks"])
    assert all(check["remedy"] for check in failed)
    return {check["name"]: check for check in answer["checks"]}


def test_a_sound_daemon_passes(daemon):
    result = daemon.ctl("doctor", "--json")
    checks = checks_of(result)
    assert list(checks) == DAEMON + HOST
    assert result.returncode == 0
    for name in ["directory", "control_socket", "attach_socket", "lock", "version"]:
        assert checks[name]["result"] == "ok", checks[name]
    assert str(daemon.process.pid) in checks["lock"]["reason"]
    assert checks["isolation"]["result"] == "note"


def test_the_daemon_verifies_its_books_where_that_is_asked_for(daemon):
    checks = checks_of(daemon.ctl("doctor", "--verify", "--json"))
    assert list(checks) == [*DAEMON, "books", *HOST]
    assert checks["books"]["result"] == "ok", checks["books"]
    assert "0 arrays, 0 sessions" in checks["books"]["reason"]


def test_text_has_a_line_for_each_check(daemon):
    lines = daemon.ctl("doctor").stdout.splitlines()
    names = [line.split()[1] for line in lines if "-> " not in line]
    assert names == DAEMON + HOST


def test_it_leaves_no_session_behind(daemon):
    daemon.ctl("doctor")
    assert daemon.json("sessions") == {"sessions": []}


def test_no_daemon_is_a_failure_and_the_host_is_checked_all_the_same(directory):
    checks = checks_of(ctl("doctor", "--json", "--directory", directory))
    assert list(checks) == ["directory", "control_socket", *HOST]
    assert checks["directory"]["result"] == "ok"
    assert checks["control_socket"]["result"] == "failed"


def test_before_the_first_daemon_its_missing_directory_is_a_note(tmp_path):
    environment = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path)}
    result = subprocess.run(
        [program("memleasectl"), "doctor", "--json"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    checks = checks_of(result)
    assert list(checks) == ["directory", *HOST]
    assert checks["directory"]["result"] == "note"
    assert "connect()" in checks["directory"]["remedy"]


def test_a_named_directory_that_is_missing_is_a_failure(tmp_path):
    checks = checks_of(ctl("doctor", "--json", "--directory", tmp_path / "none"))
    assert checks["directory"]["result"] == "failed"


def test_an_open_directory_is_a_failure(daemon, directory):
    directory.chmod(0o777)
    checks = checks_of(daemon.ctl("doctor", "--json"))
    assert checks["directory"]["result"] == "failed"


def test_a_missing_attach_socket_is_a_failure(daemon, directory):
    (directory / "attach.sock").rename(directory / "elsewhere")
    assert checks_of(daemon.ctl("doctor", "--json"))["attach_socket"]["result"] == "failed"


def test_a_lock_that_nobody_holds_is_a_failure(daemon, directory):
    (directory / "memleased.lock").unlink()
    (directory / "memleased.lock").write_text(f"{daemon.process.pid}\n")
    check = checks_of(daemon.ctl("doctor", "--json"))["lock"]
    assert (check["result"], "nobody" in check["reason"]) == ("failed", True)


def test_a_stopped_daemon_is_a_failure(daemon):
    daemon.signal(signal.SIGSTOP)
    checks = checks_of(daemon.ctl("doctor", "--json", "--timeout", 0.3))
    assert checks["control_socket"]["result"] == "failed"


def test_a_limit_above_the_machine_is_a_warning(start_daemon):
    beyond = 2 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    daemon = start_daemon("--memory-limit-bytes", str(beyond))
    result = daemon.ctl("doctor", "--json")
    assert checks_of(result)["memory_limit"]["result"] == "warning"
    assert result.returncode == 0


def test_too_few_files_are_a_failure(directory):
    result = subprocess.run(
        [program("memleasectl"), "doctor", "--json", "--directory", directory],
        capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)),
    )  # fmt: skip
    assert checks_of(result)["open_files"]["result"] == "failed"


@open_to_all
def test_another_user_gets_what_they_may_see(daemon):
    checks = checks_of(daemon.ctl("doctor", "--json", user=54321))
    assert checks["isolation"]["result"] == "ok"
    assert checks["attach_socket"]["result"] == "ok"
    assert checks["lock"]["result"] == "note"
    assert checks["read_only"]["result"] == "ok"


@open_to_all
def test_another_user_may_not_have_the_books_verified(daemon):
    check = checks_of(daemon.ctl("doctor", "--verify", "--json", user=54321))["books"]
    assert (check["result"], "54321" in check["reason"]) == ("failed", True)
