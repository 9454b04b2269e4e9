"""A world of the CUDA stand-in for one pytest test, checked at its end, or hardware.

A test module has it with `pytest_plugins = ["fakecuda_fixture"]`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import pytest
from fakecuda_build import FOLDER, IS_STAND_IN, library_path


class FakeCuda:
    """What a test has of its world."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.run("create", folder)
        os.environ["FAKECUDA_WORLD"] = folder
        # By their paths: the loader then takes these for whoever asks for the names.
        self.cuda = ctypes.CDLL(str(FOLDER / "libcudart.so.13"), mode=ctypes.RTLD_GLOBAL)
        self.kernels = ctypes.CDLL(str(FOLDER / "libtest_kernels.so"))
        assert self.cuda.fakecuda_abi() > 0
        self._judged = False

    @staticmethod
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [str(FOLDER / "fakecuda"), *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.stderr == ""
        assert result.returncode in (0, 1)
        return result

    def environment(self) -> dict[str, str]:
        """Return the environment in which another program loads the stand-in by its name."""
        return {**os.environ, "LD_LIBRARY_PATH": library_path()}

    def set(self, knob: str, value: int) -> None:
        self.run("set", self.folder, knob, value)

    def fail(self, call: str, error: int, nth: int = 1, times: int = 1) -> None:
        self.run("fail", self.folder, call, error, nth, times)

    def contexts(self, pid: int) -> list[int]:
        """Return how many contexts a process ever made, device by device."""
        lines = self.run("contexts", self.folder).stdout.splitlines()
        rows = [[int(word) for word in line.split()[:3]] for line in lines]
        return [count for owner, _, count in sorted(rows) if owner == pid]

    def findings(self) -> str:
        """Leave the world and return all that is wrong, which the test then judges itself."""
        self._judged = True
        self.cuda.fakecuda_detach()
        result = self.run("check", self.folder)
        return result.stdout if result.returncode != 0 else ""

    def close(self) -> None:
        findings = "" if self._judged else self.findings()
        os.environ.pop("FAKECUDA_WORLD", None)
        shutil.rmtree(self.folder)
        if findings:
            pytest.fail(f"The checker of the CUDA stand-in found:\n{findings}")


class Hardware:
    """The same on hardware: what only the stand-in can do or tell skips the test."""

    def set(self, knob: str, value: int) -> None:
        pytest.skip(f"stand-in only: {knob}={value}")

    def fail(self, call: str, *_: int) -> None:
        pytest.skip(f"stand-in only: a fault in {call}")

    def contexts(self, _: int) -> list[int]:
        return pytest.skip("stand-in only: counting contexts")

    def findings(self) -> str:
        return pytest.skip("stand-in only: the checker's findings")

    def close(self) -> None:
        pass


@pytest.fixture
def fake_cuda() -> Iterator[FakeCuda | Hardware]:
    """Give the test a private world; a race or a leak in it fails the test."""
    if not IS_STAND_IN:
        yield Hardware()
        return
    world = FakeCuda(tempfile.mkdtemp(prefix="memlease-fakecuda-", dir="/dev/shm"))
    try:
        yield world
    finally:
        world.close()
