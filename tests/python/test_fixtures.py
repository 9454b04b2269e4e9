"""The fixtures for pytest, and what its run says of late writes."""

import os
import select
import shutil
import signal
import time
from pathlib import Path

import pytest
from memlease import programs

pytest_plugins = ["pytester"]


def test_the_fixtures_leave_nothing_behind(pytester, tmp_path):
    pytester.makepyfile(
        f"""
        import os
        import memlease

        def test_a(memlease_daemon, memlease_client):
            assert memlease.connect(start=False).directory == memlease_daemon.directory
            memlease_client.create("a", shape=3, dtype="f4", fill=1, lifetime="persistent")
            open({str(tmp_path / "seen")!r}, "w").write(
                f"{{memlease_daemon.pid}} {{memlease_daemon.directory}}")

        def test_b(memlease_daemon):
            memlease_daemon.kill()
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)
    pid, directory = (tmp_path / "seen").read_text().split()
    assert not Path("/proc", pid).exists()
    assert not Path(directory).parent.exists()


def test_the_fixtures_tell_of_a_daemon_that_fails(pytester):
    pytester.makepyfile(
        """
        import signal

        def test_a(memlease_daemon):
            memlease_daemon.process.send_signal(signal.SIGABRT)
            memlease_daemon.process.wait()
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*memleased ended with -6*"])


LATE_WRITE = """
import ctypes
import numpy as np

def test_a(memlease_client, memlease_daemon):
    open("daemon", "w").write(f"{memlease_daemon.pid} {memlease_daemon.directory}")
    view = memlease_client.put("u", np.zeros(4096)).read().array
    ctypes.memset(view.ctypes.data, 1, 8)
"""


@pytest.fixture
def run_late_write(pytester):
    """Run a test that dies of a late write; what that leaves behind is removed."""
    pytester.makepyfile(LATE_WRITE)
    yield pytester.runpytest_subprocess
    pid, directory = (pytester.path / "daemon").read_text().split()
    os.kill(int(pid), signal.SIGKILL)
    assert ends(int(pid))
    shutil.rmtree(Path(directory).parent)


@pytest.mark.no_asan  # whose runtime would report the fault
def test_pytest_shows_what_a_late_write_was(run_late_write):
    result = run_late_write()
    result.stderr.fnmatch_lines(["memlease: wrote to a read-only view of 'u' v1 *"])
    result.stderr.fnmatch_lines(["Fatal Python error: Segmentation fault"])


@pytest.mark.no_asan
@pytest.mark.parametrize("hook", ["pytest_sessionstart", "pytest_configure", None])
def test_a_file_of_the_users_stays_the_one(pytester, run_late_write, tmp_path, hook):
    log = tmp_path / "faults.log"
    call = f"memlease.explain_faults(file=open({str(log)!r}, 'a'))"
    pytester.makeconftest(
        f"import memlease\ndef {hook}(): {call}\n" if hook else f"import memlease\n{call}\n"
    )
    result = run_late_write()
    result.stderr.no_fnmatch_line("memlease: *")
    assert log.read_text().startswith("memlease: wrote to a read-only view of 'u' v1 ")


@pytest.mark.no_asan
def test_pytest_shows_nothing_where_that_is_not_wanted(run_late_write, monkeypatch):
    monkeypatch.setenv("MEMLEASE_EXPLAIN_FAULTS", "0")
    result = run_late_write()
    result.stderr.no_fnmatch_line("memlease: *")


def test_a_failing_test_that_keeps_leases_is_not_waited_for(pytester):
    """Its traceback does, until the run is over."""
    pytester.makepyfile(
        """
        def test_a(memlease_client):
            lease = memlease_client.create("a", 3, "f8", fill=1).read()
            raise AssertionError
        """
    )
    begin = time.monotonic()
    pytester.runpytest_subprocess().assert_outcomes(failed=1)
    assert time.monotonic() - begin < 24, "as long as drain_timeout_s is by default"


def ends(pid):
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], 60)[0])
    finally:
        os.close(pidfd)


def test_ctrl_c_in_the_end_of_a_test_leaves_no_daemon(pytester, tmp_path):
    pytester.makepyfile(
        f"""
        import signal
        import memlease.testing

        def interrupt(self):
            raise KeyboardInterrupt

        def test_a(memlease_daemon, monkeypatch):
            open({str(tmp_path / "pid")!r}, "w").write(str(memlease_daemon.pid))
            memlease.testing.Daemon.stop = interrupt
        """
    )
    pytester.runpytest_subprocess()
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


@pytest.fixture
def hasty_daemon(monkeypatch, tmp_path):
    """Let the fixtures' daemon be idle for 1 s where they say 600, before it ends."""
    program = tmp_path / "memleased"
    program.write_text(
        f'#!/bin/bash\nexec "{programs.daemon()}" "${{@/#--idle-exit-s=600/--idle-exit-s=1}}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("MEMLEASE_DAEMON", str(program))


@pytest.mark.usefixtures("hasty_daemon")
def test_a_killed_pytest_leaves_no_daemon(pytester, tmp_path):
    pytester.makepyfile(
        f"""
        import os
        import signal

        def test_a(memlease_client, memlease_daemon):
            text = f"{{memlease_daemon.pid}} {{memlease_daemon.directory}}"
            open({str(tmp_path / "daemon")!r}, "w").write(text)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    pytester.runpytest_subprocess()
    pid, directory = (tmp_path / "daemon").read_text().split()
    assert ends(int(pid))
    shutil.rmtree(Path(directory).parent)
