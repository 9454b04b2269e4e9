"""The daemon as a process: what it inherits, and what signals do to it."""

import os
import signal
import subprocess

import pytest
from conftest import clean_environment, ctl, program, until


def descriptors(pid):
    """Return what each descriptor of a process leads to."""
    folder = f"/proc/{pid}/fd"
    return {int(fd): os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)}


@pytest.fixture
def background(tmp_path):
    """Return a function that starts a daemon in the background by a shell's words, for its pid."""
    directory = tmp_path / "run"
    started = []

    def start(redirections="", **options):
        command = f'"{program("memleased")}" --background --directory "{directory}" {redirections}'
        subprocess.run(["sh", "-c", command], env=clean_environment(), check=True, **options)
        status = ctl("--directory", directory, "status", "--json")
        assert status.returncode == 0, status.stderr
        pid = int((directory / "memleased.lock").read_text())
        started.append(pid)
        return pid

    yield start
    for pid in started:
        os.kill(pid, signal.SIGTERM)
        until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), "the daemon ends on SIGTERM")
    assert not (directory / "attach.sock").exists()


def test_in_the_background_it_keeps_nothing_of_its_parents(background, tmp_path):
    read_end, write_end = os.pipe()
    pid = background(pass_fds=[write_end], cwd=tmp_path)
    os.close(write_end)
    assert os.read(read_end, 1) == b"", "the pipe's other end is closed everywhere"
    os.close(read_end)
    assert os.readlink(f"/proc/{pid}/cwd") == "/"


def test_standard_descriptors_may_be_closed(background, tmp_path):
    pid = background("<&- >&- 2>&-")
    found = descriptors(pid)
    log = str(tmp_path / "run" / "memleased.log")
    assert [found[fd] for fd in range(3)] == ["/dev/null", "/dev/null", log]
    daemon = ctl("--directory", tmp_path / "run", "health")
    assert daemon.returncode == 0, daemon.stderr


def test_a_log_that_is_full_is_kept_once(background, tmp_path):
    log = tmp_path / "run" / "memleased.log"
    log.parent.mkdir(mode=0o700)
    log.write_bytes(b"x" * (4 << 20))
    pid = background()
    os.kill(pid, signal.SIGHUP)  # leaves a line
    full = log.with_suffix(".log.1")
    until(lambda: full.exists() and log.exists(), "a new log begins")
    assert full.read_bytes().endswith(b"settings read again changed=0\n")
    until(lambda: descriptors(pid)[2] == str(log), "standard error is the new log")
