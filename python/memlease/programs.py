"""The programs that come with the package: memleased and memleasectl."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Never

from memlease.errors import Unsupported

_FOLDER = Path(__file__).parent / "bin"


# Not in $PATH: what is there may be a script that leads here.
def _packaged(program: str) -> str:
    path = _FOLDER / program
    return str(path) if path.exists() else ""


def daemon() -> str:
    """Path of memleased, or "" where the library has to look for it."""
    return os.environ.get("MEMLEASE_DAEMON") or _packaged("memleased")


def prefix() -> str:
    """Folder where C++ projects find memlease: for CMAKE_PREFIX_PATH.

    The package itself, where pip has installed it; a distribution has headers of the system's.
    """
    for folder in (_FOLDER.parent, Path(sys.base_prefix)):
        if (folder / "include/memlease/memlease.h").exists():
            return str(folder)
    raise Unsupported(
        "this Python package came without the headers for C++ projects",
        "Install the package that has them: on Debian, libmemlease-dev.",
    )


def memleasectl() -> Never:
    """Become memleasectl: the script of that name, and ``python -m memlease``."""
    _become("memleasectl")


def memleased() -> Never:
    """Become memleased: the script of that name."""
    _become("memleased")


def _become(name: str) -> Never:
    program = _packaged(name)
    if not program:
        hint = "Install what has it: on Debian, the package memleased; else memlease again, by pip."
        raise SystemExit(f"{name}: the program is missing from the Python package ({hint})")
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    os.execv(program, [program, *sys.argv[1:]])


def show_config() -> None:
    """Print versions, paths and the daemon's configuration with the origin of each value."""
    from memlease import _core

    print(f"memlease {_core.__version__}")
    print(f"module   {_core.__file__}")
    print(f"daemon   {daemon() or 'not found'}")
    print(f"control  {_packaged('memleasectl') or 'not found'}", flush=True)
    if daemon():
        subprocess.run([daemon(), "--print-config"], check=True)
