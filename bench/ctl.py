"""memleasectl as the benchmark programs call it: once, or again and again beside something else."""

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

BUILD = Path(os.environ.get("MEMLEASE_BUILD_DIR", Path(__file__).parents[1] / "build/release"))


def command_of(directory: str, *words: str) -> list[str]:
    """Spell the whole command."""
    return [str(BUILD / "bin/memleasectl"), "--directory", directory, *words]


def run(directory: str, *words: str) -> None:
    """Wait for it, and let nobody see what it says."""
    subprocess.run(command_of(directory, *words), check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def without_end(directory: str, *words: str) -> Iterator[None]:
    """Have it run again and again."""
    command = shlex.join(command_of(directory, *words))
    loop = subprocess.Popen(
        ["sh", "-c", f"while {command} > /dev/null; do :; done"], start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(loop.pid, signal.SIGTERM)
        loop.wait()
