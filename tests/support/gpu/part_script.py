"""Runs the scripts of tests/hardware one by one on the stand-in, for tests of what they say."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fakecuda_build import BUILD, FOLDER, library_path

ROOT = Path(__file__).parents[3]
HARDWARE = ROOT / "tests/hardware"
MODULES = [str(ROOT / "tests/support/fakecuda"), str(ROOT / "tests/support/gpu")]


def said_by(
    script: str, *arguments: str, before: tuple[str, ...] = (), **more: str
) -> tuple[list[Any], int]:
    """Run a script, behind a program if one is given; return what it said and its exit status."""
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": library_path(),
        "PYTHONPATH": os.pathsep.join(MODULES),
        "MEMLEASE_BUILD_DIR": str(BUILD),
        **more,
    }
    ended = subprocess.run(
        [*before, sys.executable, HARDWARE / script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    said = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith(("{", "["))]
    return said, ended.returncode


@contextlib.contextmanager
def world(*changes: str, devices: int = 2) -> Iterator[str]:
    """Make a world of the stand-in in which "KNOB=VALUE" and "CALL!ERROR[*NTH]" hold."""
    folder = tempfile.mkdtemp(prefix="memlease-fakecuda-", dir="/dev/shm")

    def fakecuda(command: str, *arguments: str) -> None:
        subprocess.run([FOLDER / "fakecuda", command, folder, *arguments], timeout=60, check=True)

    try:
        fakecuda("create", str(devices))
        for change in changes:
            if "=" in change:
                fakecuda("set", *change.split("="))
            else:
                call, _, error = change.partition("!")
                fakecuda("fail", call, *error.split("*"))
        yield folder
    finally:
        shutil.rmtree(folder)
