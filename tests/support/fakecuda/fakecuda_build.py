"""Where CUDA is for the tests: the stand-in in the build of MEMLEASE_BUILD_DIR, or hardware's.

A run on hardware names a folder with the real runtime and the test kernels in MEMLEASE_TEST_CUDA.
"""

import os
from pathlib import Path

BUILD = Path(os.environ.get("MEMLEASE_BUILD_DIR", "build/release")).absolute()
FOLDER = Path(os.environ.get("MEMLEASE_TEST_CUDA", BUILD / "fakecuda"))
IS_STAND_IN = "MEMLEASE_TEST_CUDA" not in os.environ
# Is the stand-in there, be it that the tests take it for hardware?
IS_FAKE = FOLDER == BUILD / "fakecuda"


def library_path() -> str:
    """Return an LD_LIBRARY_PATH by which programs find this CUDA first."""
    rest = os.environ.get("LD_LIBRARY_PATH")
    return f"{FOLDER}:{rest}" if rest else str(FOLDER)


def require_stand_in() -> None:
    """Raise if there is neither a stand-in nor hardware."""
    if not (FOLDER / "libcudart.so.13").exists():
        raise FileNotFoundError(f"no CUDA stand-in in {FOLDER}: CMake said why")
