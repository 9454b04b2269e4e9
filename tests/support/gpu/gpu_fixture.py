"""A daemon and processes in a world of the CUDA stand-in, for one pytest test.

A test module has it with `pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]`. On hardware a
process needs seconds for its first use of a GPU and for its end, one process after the other on
the whole machine: there tests share the daemon and the processes, and each leaves them as it found
them.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakecuda_build import BUILD, IS_STAND_IN, library_path
from fakecuda_fixture import FakeCuda, Hardware
from gpu_process import Process

_LET_GO_S = 20.0


class Shared:
    """What lies idle between the tests of one pytest, which end with it."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self._folder = ""
        self._daemon: Any = None

    def daemon(self) -> Any:
        """Return the daemon, which is another one if the last one has ended."""
        from memlease.testing import Daemon  # here, as it is on hardware alone

        if self._daemon is None or self._daemon.process.poll() is not None:
            # Not pytest's tmp_path: a socket's path has room for 107 bytes.
            self._folder = tempfile.mkdtemp(prefix="memlease-test-")
            self._daemon = Daemon(os.path.join(self._folder, "run"), Path(self._folder, "log"))
        return self._daemon

    def process(self) -> Process:
        """Return one that rests, or start one."""
        for process in self.processes:
            if process.fits():
                self.processes.remove(process)
                process.serve_again()
                return process
        return Process()

    def clear(self) -> None:
        """Withdraw all arrays. A test whose processes have not left fails, and its daemon goes.

        Who has created an array keeps its session for as long as it lives.
        """
        daemon = self._daemon
        if daemon is None or daemon.process.poll() is not None:
            return
        with daemon.connect() as client:
            for name in client.list():
                client.withdraw(name)
        end = time.monotonic() + _LET_GO_S
        while left := self._sessions():
            if time.monotonic() > end:
                daemon.kill()
                pytest.fail(f"the test leaves sessions in its daemon:\n{left}")
            time.sleep(0.01)

    def _sessions(self) -> list[Any]:
        """Return those of others than the processes that rest."""
        command = [BUILD / "bin/memleasectl", "--directory", self._daemon.directory, "--json"]
        listed = subprocess.run([*command, "sessions"], capture_output=True, check=True)
        (sessions,) = json.loads(listed.stdout).values()
        known = {os.getpid(), *(process.pid for process in self.processes)}
        return [it for it in sessions if it["pid"] not in known]

    def close(self) -> None:
        """End all."""
        try:
            for process in self.processes:
                process.close()
            if self._daemon is not None and self._daemon.process.poll() is None:
                self._daemon.stop()
        finally:
            for process in self.processes:
                process.kill()
            if self._daemon is not None:
                self._daemon.kill()
            shutil.rmtree(self._folder, ignore_errors=True)


class Gpu:
    """What a test has of its world."""

    def __init__(self, world: FakeCuda | Hardware, shared: Shared | None) -> None:
        self.world = world
        self._shared = shared
        self._processes: list[Process] = []

    def process(self, new: bool = False) -> Process:
        """Start a process, or take one that other tests have used if it need not be new."""
        shared = None if new else self._shared
        process = shared.process() if shared else Process(forked=IS_STAND_IN)
        self._processes.append(process)
        return process

    def run(self, function: Any, *arguments: Any) -> Any:
        """Run a function in a process of its own."""
        return self.process().run(function, *arguments)

    def findings(self) -> str:
        """End the processes and return what the checker says, which the test then judges."""
        self.close()
        return self.world.findings()

    def close(self) -> None:
        """End the processes, or let others have them; all of them, also if one fails."""
        processes, self._processes = self._processes, []
        try:
            while processes:
                if self._shared is None:
                    processes[0].close()
                elif processes[0].rest():
                    self._shared.processes.append(processes[0])
                del processes[0]
        finally:
            for process in processes:
                process.kill()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip on hardware what carries the mark stand_in_only."""
    if not IS_STAND_IN and item.get_closest_marker("stand_in_only"):
        pytest.skip("stand-in only")


@pytest.fixture
def stand_in_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs that are started from now on load the stand-in by the runtime library's name."""
    if IS_STAND_IN:  # hardware's is found already, in every process
        monkeypatch.setenv("LD_LIBRARY_PATH", library_path())


@pytest.fixture(scope="session")
def shared_by_tests() -> Iterator[Shared]:
    """Give what tests on hardware share."""
    shared = Shared()
    try:
        yield shared
    finally:
        shared.close()


@pytest.fixture
def gpu(
    fake_cuda: FakeCuda | Hardware,
    stand_in_path: None,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Gpu]:
    """Give the test a world with a daemon; a race or a leak in it fails the test."""
    shared = None if IS_STAND_IN else request.getfixturevalue("shared_by_tests")
    if shared is None:
        request.getfixturevalue("memlease_daemon")
    else:
        monkeypatch.setenv("MEMLEASE_DIR", shared.daemon().directory)
    world = Gpu(fake_cuda, shared)
    try:
        yield world
    finally:
        world.close()
        if shared is not None:
            shared.clear()
