"""Where the CUDA stand-in is: in the build of the directory MEMLEASE_BUILD_DIR."""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("MEMLEASE_BUILD_DIR", "build/release"), "fakecuda").absolute()


def require_stand_in() -> None:
    """Raise if the build has no stand-in."""
    if not (FOLDER / "libcudart.so.13").exists():
        raise FileNotFoundError(f"no CUDA stand-in in {FOLDER}: CMake said why")
