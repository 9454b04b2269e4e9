"""Exit codes and errors of memleasectl, each with the real cause."""

import json
import os
import signal
import subprocess

import pytest
from conftest import ctl, open_to_all, program

STRANGER = 54321


def test_usage(daemon):
    for line in [
        "",
        "nonsense",
        "ls --nonsense",
        "info",
        "withdraw",
        "evict x",
        "evict -1",
        "evict 4294967296",
        "--timeout 0 ls",
        "--timeout nan ls",
        "--timeout=-NaN ls",
        "--timeout inf ls",
        "top --interval nan",
        "trace -o f --rate nan",
        "trace -o f --duration nan",
        "events --since -1",
    ]:
        result = daemon.ctl(*line.split())
        assert (result.returncode, result.stdout) == (2, ""), line
        assert result.stderr


def test_a_command_that_does_not_exist_is_named(daemon):
    assert "there is no command 'nonsense'" in daemon.ctl("nonsense").stderr
    error = json.loads(daemon.ctl("--json", "nonsense").stderr)["error"]
    assert (error["code"], error["message"]) == ("ML001", "there is no command 'nonsense'")
    assert "SESSION" in json.loads(daemon.ctl("evict", "x", "--json").stderr)["error"]["message"]


def test_help_and_version_are_no_errors():
    assert ctl("--help").returncode == 0
    assert "Exit status" in ctl("--help").stdout
    assert ctl("--version").stdout.startswith("memleasectl 0.")


def test_a_malformed_name_is_a_usage_error(daemon):
    for command in ["info", "withdraw", "holders"]:
        assert daemon.ctl(command, "a//b").returncode == 2


def test_a_malformed_name_does_not_drive_the_terminal(daemon):
    for line in [("info", "\x1b[2Ja"), ("ls", "\x1b[2Ja"), ("\x1b[2Ja",), ("evict", "\x9b2J")]:
        for options in [(), ("--json",)]:
            result = daemon.ctl(*line, *options)
            answer = result.stdout + result.stderr
            assert not any(c in answer for c in "\x1b\x9b"), line


def test_not_found(daemon):
    for args in [("info", "none"), ("withdraw", "none"), ("holders", "none"), ("evict", 999_999)]:
        result = daemon.ctl(*args)
        assert (result.returncode, result.stdout) == (3, ""), args
        assert "[ML002]" in result.stderr


def test_errors_in_json(daemon):
    result = daemon.ctl("info", "none", "--json")
    error = json.loads(result.stderr)["error"]
    assert (result.returncode, result.stdout) == (3, "")
    assert (error["code"], error["name"]) == ("ML002", "NotFound")
    assert "none" in error["message"]
    assert error["hint"]


def test_unreachable_where_no_daemon_has_been(directory):
    for where in [directory, directory / "missing"]:
        result = ctl("--directory", where, "ls")
        assert result.returncode == 4
        assert str(where) in result.stderr


def test_unreachable_after_a_crash(daemon):
    daemon.signal(signal.SIGKILL)
    daemon.process.wait()
    assert daemon.ctl("ls").returncode == 4


def test_denied_by_the_directory(daemon, directory):
    directory.chmod(0o700)
    assert daemon.ctl("ls", user=STRANGER).returncode == 5


def test_denied_by_the_socket(daemon):
    assert daemon.ctl("ls", user=STRANGER).returncode == 5


def test_a_directory_that_others_may_write_to_is_refused(daemon, directory):
    directory.chmod(0o777)
    result = daemon.ctl("ls")
    assert result.returncode == 5
    assert "0777" in result.stderr


def test_a_planted_directory_ends_the_search(directory):
    directory.chmod(0o1777)
    planted = directory / "memlease"
    planted.mkdir(mode=0o755)
    os.chown(planted, STRANGER, STRANGER)
    result = ctl("ls", XDG_RUNTIME_DIR=str(directory))
    assert result.returncode == 5
    assert str(STRANGER) in result.stderr


@open_to_all
def test_another_user_sees_and_ends_only_what_is_theirs(daemon, client):
    assert daemon.json("ls", user=STRANGER) == {"arrays": []}
    assert daemon.ctl("info", "sim/u", user=STRANGER).returncode == 3
    assert daemon.ctl("withdraw", "sim/u", user=STRANGER).returncode in (3, 5)
    assert daemon.ctl("evict", client.session, user=STRANGER).returncode in (3, 5)
    assert daemon.json("ls")["arrays"][0]["name"] == "sim/u"
    assert daemon.json("sessions")["sessions"][0]["connected"] is True


def test_timeout_of_a_stopped_daemon(daemon):
    daemon.signal(signal.SIGSTOP)
    assert daemon.ctl("--timeout", 0.3, "status").returncode == 6


@pytest.mark.parametrize("command", ["ls", "--help", "--version"])
def test_an_answer_that_cannot_be_written_is_a_failure(daemon, command):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [program("memleasectl"), "--directory", daemon.directory, command],
            stdout=full,
            check=False,
        )
    assert result.returncode == 1


@pytest.mark.parametrize("command", ["ls", "status", "health", "--help"])
def test_an_answer_that_nobody_has_asked_for_is_a_failure(daemon, command):
    result = subprocess.run(
        [program("memleasectl"), "--directory", daemon.directory, command],
        preexec_fn=lambda: os.close(1),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr == "memleasectl: cannot write the answer: Bad file descriptor\n"


def test_an_answer_of_which_a_part_cannot_be_written_is_a_failure(daemon):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [program("memleasectl"), "--directory", daemon.directory, "metrics"],  # some 7 KB
            stdout=full,
            check=False,
        )
    assert result.returncode == 1


@pytest.mark.parametrize("variable", ["MEMLEASE_DIR", "XDG_RUNTIME_DIR"])
def test_the_directory_comes_from_the_environment(daemon, directory, variable):
    where = directory
    if variable == "XDG_RUNTIME_DIR":
        (directory / "memlease").symlink_to(directory)
    assert ctl("health", **{variable: str(where)}).returncode == 0
