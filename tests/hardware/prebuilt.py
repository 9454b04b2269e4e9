"""Builds for a bundle what its target may be unable to build: test kernels and Python modules."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import build

sys.path.append(str(Path(__file__).parents[2] / "deploy/wheel"))
import pythons

RUNTIME = ".venv/lib/python3*/site-packages/nvidia/cu13/lib/libcudart.so.13"
# What data centres have, and PTX for all others from Turing on.
ARCHITECTURES = ["80", "90", "100"]
PTX = "75"
OLDEST, WANTED = (3, 11), (3, 12)
_LIMIT_S = 900


class Prebuilt:
    """Adds to a bundle; what cannot be built is one more line of `missing`."""

    def __init__(self, folder: Path, missing: list[str]) -> None:
        self.has: dict[str, list[str]] = {"kernels": [], "modules": []}
        self._folder = folder
        self._missing = missing

    def add_runtime(self, library: Path) -> None:
        """Add a CUDA runtime, for machines that have none of this version."""
        target = self._folder / "build/prebuilt" / library.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, target)

    def add_kernels(self) -> None:
        wanted = [f"-gencode=arch=compute_{it},code=sm_{it}" for it in ARCHITECTURES]
        wanted.append(f"-gencode=arch=compute_{PTX},code=compute_{PTX}")
        made = self._folder / "build/prebuilt/libtest_kernels.so"
        try:
            build.kernels(wanted, made, _LIMIT_S)
        except RuntimeError as error:
            self._missing.append(f"no prebuilt test kernels: {error}")
            return
        subprocess.run(["strip", "--strip-unneeded", made], check=True)
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", made], check=True)
        self.has["kernels"] = [*(f"sm_{it}" for it in ARCHITECTURES), f"PTX of compute_{PTX}"]

    def add_modules(self, programs: list[str]) -> None:
        """Add the module for each of these, and for each CPython with headers that is found."""
        built: dict[str, build.Python] = {}
        for program in [*programs, *pythons.found()]:
            is_named = program in programs
            try:
                python = build.Python.of(program)
            except RuntimeError as error:  # pyenv's shims, for instance, are no Python
                self._missing += [f"no module for {program}: {error}"] if is_named else []
                continue
            if python.suffix in built or not (is_named or _fits(python)):
                continue
            try:
                self._build(program, python)
                built[python.suffix] = python
            except RuntimeError as error:
                self._missing.append(f"no module for {program}: {error}")
        self.has["modules"] = [f"{it.version}: {it.module.name}" for it in built.values()]
        if not any(_minor(it) == WANTED for it in built.values()):
            self._missing.append(
                f"no module for Python {WANTED[0]}.{WANTED[1]}: none with headers was found here; "
                "name one by --python"
            )
        shutil.rmtree(self._folder / "build/hardware", ignore_errors=True)

    def _build(self, program: str, python: build.Python) -> None:
        """Let the bundle's own build.py do it, as it would where the bundle runs."""
        command = [sys.executable, self._folder / "tests/hardware/build.py", program]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if ended.returncode:
            raise RuntimeError(f"{python.version}: {ended.stderr.strip()[-2000:]}")


def _minor(python: build.Python) -> tuple[int, int]:
    major, minor, *_ = python.version.split(".")
    return int(major), int(minor)


def _fits(python: build.Python) -> bool:
    return python.has_headers and _minor(python) >= OLDEST
