"""A daemon of a check's own, and what is left of it at the end. Without the Python package."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fakecuda_build import BUILD

_START_S = 20.0
_STOP_S = 40.0


def _asked(directory: str, *command: str) -> subprocess.CompletedProcess[str]:
    program = BUILD / "bin/memleasectl"
    return subprocess.run(
        [program, "--directory", directory, "--json", *command],
        capture_output=True,
        text=True,
        timeout=_START_S,
        check=False,
    )


def _await_answer(daemon: subprocess.Popen[bytes], directory: str, log: Path) -> None:
    end = time.monotonic() + _START_S
    while _asked(directory, "health").returncode != 0:
        told = log.read_text(errors="replace")[-1000:]
        assert daemon.poll() is None, f"memleased ended with {daemon.returncode}: {told}"
        assert time.monotonic() < end, f"memleased does not answer: {told}"
        time.sleep(0.02)


def left_over(directory: str) -> list[Any]:
    """Return the arrays that there are, and the processes that are connected."""
    found: list[Any] = []
    for command in ("ls", "sessions"):
        listed = _asked(directory, command)
        assert listed.returncode == 0, f"memleasectl {command}: {listed.stderr}"
        (rows,) = json.loads(listed.stdout).values()
        found += rows
    return found


@contextlib.contextmanager
def private_daemon() -> Iterator[str]:
    """Run one; processes that are started meanwhile find it. Give its directory.

    If nothing goes wrong meanwhile, it is told to end, and must leave nothing behind.
    """
    with tempfile.TemporaryDirectory(prefix="memlease-") as folder:
        directory, log = f"{folder}/run", Path(folder, "log")
        with log.open("wb") as output:
            program = os.environ.get("MEMLEASE_DAEMON") or BUILD / "bin/memleased"
            daemon = subprocess.Popen(
                [program, "--directory", directory],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            _await_answer(daemon, directory, log)
            os.environ["MEMLEASE_DIR"] = directory
            yield directory
            daemon.terminate()
            status = daemon.wait(_STOP_S)
            told = log.read_text(errors="replace")[-1000:]
            assert status == 0, f"memleased ended with {status}: {told}"
            assert not os.listdir(directory), f"it left {os.listdir(directory)} behind"
        finally:
            daemon.kill()
            daemon.wait()
