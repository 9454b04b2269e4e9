"""Fixtures for pytest: a daemon of the test's own. pytest knows them once memlease is installed."""

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memlease import client, faults, programs, references
from memlease.errors import DaemonUnavailable

_START_S = 20.0
_STOP_S = 40.0
# A test that is over is not waited for any longer if it still has leases, as the traceback of its
# failure has.
_DRAIN_S = 0.5
# A daemon whose pytest was killed ends by itself.
_OPTIONS = ("--idle-exit-s=600",)

_told_to = pytest.StashKey[tuple[int, int]]()


@pytest.hookimpl(trylast=True)  # after faulthandler's, which then follows
def pytest_configure(config: pytest.Config) -> None:
    """Tell of late writes on pytest's own standard error: it takes that of the tests away.

    A file that `memlease.explain_faults` is given, before or after, stays the one.
    """
    if faults.wanted_by_default():
        try:
            own = os.dup(2)
        except OSError:  # it has no standard error
            return
        before = faults.tell_by_default(own)
        faults.explain_faults()
        if before is None:
            os.close(own)
        else:
            config.stash[_told_to] = (own, before)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Tell of them where they were told before."""
    if _told_to in config.stash:
        own, before = config.stash[_told_to]
        faults.tell_by_default(before)
        os.close(own)


class Daemon:
    """A running memleased on a directory of its own.

    Attributes
    ----------
    directory : str
        Where its sockets are; give it to `memlease.connect`.
    log : pathlib.Path
        What it writes to its standard output and error.
    """

    def __init__(self, directory: str, log: Path, *arguments: str) -> None:
        program = programs.daemon()
        if not program:
            raise DaemonUnavailable(
                "memleased was not found", "install memlease again, or set MEMLEASE_DAEMON"
            )
        self.directory = directory
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [program, "--directory", directory, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._pidfd = os.pidfd_open(self.process.pid)
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def connect(self) -> client.Client:
        """Connect to it."""
        return client.connect(self.directory, start=False)

    def stop(self) -> None:
        """End it as an operator would, and check that it leaves nothing behind.

        Who still has leases is waited for only for a moment.
        """
        if self.process.returncode is None:
            self.process.terminate()
            if not self._has_ended_within(_DRAIN_S):
                self.process.terminate()
            self._wait(_STOP_S)
        assert self.process.returncode == 0, self._story(f"ended with {self.process.returncode}")
        left = os.listdir(self.directory)
        assert not left, self._story(f"left {left} behind")

    def kill(self) -> None:
        """End it in the middle of whatever it does. Its files stay."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
            self._wait(_STOP_S)

    def _wait(self, timeout_s: float) -> None:
        """Wait for its end."""
        if not self._has_ended_within(timeout_s):
            self.process.kill()
            self.process.wait()
            pytest.fail(self._story(f"did not end within {timeout_s} s"))
        self.process.wait()
        os.close(self._pidfd)
        self._pidfd = -1

    def _has_ended_within(self, timeout_s: float) -> bool:
        return bool(select.select([self._pidfd], [], [], timeout_s)[0])

    def _wait_until_ready(self) -> None:
        """Wait until it takes a connection, or has ended."""
        deadline = time.monotonic() + _START_S
        while True:
            try:
                self.connect().close()
                return
            except DaemonUnavailable:
                if self._has_ended_within(0.01):
                    self.process.wait()
                    pytest.fail(self._story(f"ended at once with {self.process.returncode}"))
                if time.monotonic() > deadline:
                    pytest.fail(self._story(f"did not answer within {_START_S} s"))

    def _story(self, what: str) -> str:
        return f"memleased {what}; it wrote:\n{self.log.read_text(errors='replace')}"


@pytest.fixture
def memlease_daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Run a private daemon, which ``memlease.connect()`` finds, also in child processes.

    At the end it is stopped, and the test fails if it leaves a process, socket or file behind. A
    test may have killed it itself.
    """
    # Not pytest's tmp_path: a socket's path has room for 107 bytes.
    folder = tempfile.mkdtemp(prefix="memlease-test-")
    directory = os.path.join(folder, "run")
    monkeypatch.setenv("MEMLEASE_DIR", directory)
    try:
        daemon = Daemon(directory, Path(folder, "log"), *_OPTIONS)
        try:
            yield daemon
            references.forget_clients(directory)
            if daemon.process.returncode != -signal.SIGKILL:
                daemon.stop()
        finally:
            daemon.kill()  # if it has not ended, as after a Ctrl-C
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def memlease_client(memlease_daemon: Daemon) -> Iterator[client.Client]:
    """Connect to the test's own daemon."""
    with memlease_daemon.connect() as connection:
        yield connection
