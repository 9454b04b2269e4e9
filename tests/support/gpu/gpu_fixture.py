"""A daemon and processes in a world of the CUDA stand-in, for one pytest test.

A test module has it with `pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]`.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from fakecuda_build import IS_STAND_IN, library_path
from fakecuda_fixture import FakeCuda, Hardware
from gpu_process import Process


class Gpu:
    """What a test has of its world."""

    def __init__(self, world: FakeCuda | Hardware) -> None:
        self.world = world
        self._processes: list[Process] = []

    def process(self) -> Process:
        """Start a process."""
        self._processes.append(Process())
        return self._processes[-1]

    def run(self, function: Any, *arguments: Any) -> Any:
        """Run a function in a process of its own."""
        return self.process().run(function, *arguments)

    def findings(self) -> str:
        """End the processes and return what the checker says, which the test then judges."""
        self.close()
        return self.world.findings()

    def close(self) -> None:
        """End the processes; all of them, also if one fails."""
        processes, self._processes = self._processes, []
        try:
            for process in processes:
                process.close()
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


@pytest.fixture
def gpu(fake_cuda: FakeCuda | Hardware, stand_in_path: None, memlease_daemon: Any) -> Iterator[Gpu]:
    """Give the test a world with a daemon; a race or a leak in it fails the test."""
    world = Gpu(fake_cuda)
    try:
        yield world
    finally:
        world.close()
