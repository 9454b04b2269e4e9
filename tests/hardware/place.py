"""Where things are in an unpacked bundle, and the environment that its programs run in."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
STAND_IN = BUILD / "fakecuda"
PREBUILT = BUILD / "prebuilt"  # test kernels for some GPUs, and a CUDA runtime
MANIFEST = ROOT / "bundle.json"  # what the bundle has, and what it lacks
MODULES = [ROOT / "python", ROOT / "tests/support/fakecuda", ROOT / "tests/support/gpu"]


def _hardware() -> Path:
    """Return the folder for what prepare.py makes: beside the rest, if that can be written to."""
    if os.access(BUILD, os.W_OK):
        return BUILD / "hardware"
    folder = Path(tempfile.gettempdir(), f"memlease-hardware-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()  # libraries are loaded from it: nobody else may put one there
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
        return folder
    return Path(tempfile.mkdtemp(prefix="memlease-hardware-"))


HARDWARE = _hardware()
SHM = Path("/dev/shm")
_LOCKED = "memlease-fakecuda-run-"  # worlds of runs, each locked by its run


def environment(stand_in: bool, as_hardware: bool = False) -> dict[str, str]:
    """Return what every program of a run gets."""
    cuda = STAND_IN if stand_in else HARDWARE
    path = os.environ.get("LD_LIBRARY_PATH")
    made = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{cuda}:{path}" if path else str(cuda),
        "PYTHONPATH": os.pathsep.join(map(str, MODULES)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MEMLEASE_BUILD_DIR": str(BUILD),
        "MEMLEASE_DAEMON": str(BUILD / "bin/memleased"),
        # A kernel that is loaded late may wait for one that spins.
        "CUDA_MODULE_LOADING": "EAGER",
        # Streams beyond this number share queues, and wait for each other. It is CUDA's default:
        # with 32 a context takes three times as long, and a GPU has room for about twenty.
        "CUDA_DEVICE_MAX_CONNECTIONS": "8",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if as_hardware or not stand_in:
        made["MEMLEASE_TEST_CUDA"] = str(cuda)
    return made


@contextlib.contextmanager
def world(given: dict[str, str], stand_in: bool, knobs: dict[str, int]) -> Iterator[dict[str, str]]:
    """Give programs that know no fixture a world of the stand-in."""
    if not stand_in:
        yield given
        return
    _remove_left_worlds()
    made = tempfile.mkdtemp(prefix="memlease-fakecuda-", dir=SHM)
    lock = _locked(made)
    folder = made.replace("memlease-fakecuda-", _LOCKED)
    os.rename(made, folder)
    try:
        subprocess.run([STAND_IN / "fakecuda", "create", folder], check=True)
        for knob, value in knobs.items():
            subprocess.run([STAND_IN / "fakecuda", "set", folder, knob, str(value)], check=True)
        yield {**given, "FAKECUDA_WORLD": folder}
    finally:
        shutil.rmtree(folder)
        os.close(lock)


def _locked(folder: str | Path) -> int:
    """Lock a folder until this process ends, or the descriptor is closed."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _remove_left_worlds() -> None:
    """Remove those of runs that were killed: nobody has locked them."""
    for folder in SHM.glob(f"{_LOCKED}*"):
        with contextlib.suppress(OSError):  # it is in use, or another user's
            lock = _locked(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def python(script: str | Path, *arguments: str | Path) -> list[str | Path]:
    """Return the command that runs a script beside this one, or another."""
    return [sys.executable, ROOT / "tests/hardware" / script, *arguments]
