"""The programs that come with the package: memleased and memleasectl."""

import os
import shutil
import subprocess
from pathlib import Path

from memlease.errors import Unsupported

_FOLDER = Path(__file__).parent / "bin"


def find(program: str, variable: str) -> str | None:
    """Look for a program in the environment variable, then in the package, then in ``$PATH``."""
    named = os.environ.get(variable)
    if named:
        return named
    packaged = _FOLDER / program
    return str(packaged) if packaged.exists() else shutil.which(program)


def daemon() -> str:
    """Path of memleased, or "" where the library has to look for it."""
    return find("memleased", "MEMLEASE_DAEMON") or ""


def control() -> str:
    """Path of memleasectl."""
    path = find("memleasectl", "MEMLEASE_CTL")
    if path is None:
        raise Unsupported(
            "memleasectl was not found in the package, nor in $PATH",
            "install memlease again, or name the program in MEMLEASE_CTL",
        )
    return path


def show_config() -> None:
    """Print versions, paths and the daemon's configuration with the origin of each value."""
    from memlease import _core

    print(f"memlease {_core.__version__}")
    print(f"module   {_core.__file__}")
    print(f"daemon   {daemon() or 'not found'}")
    print(f"control  {find('memleasectl', 'MEMLEASE_CTL') or 'not found'}", flush=True)
    if daemon():
        subprocess.run([daemon(), "--print-config"], check=True)
