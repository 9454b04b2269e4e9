"""The fixture of the CUDA stand-in, for the tests of it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support/fakecuda"))

from fakecuda_fixture import FOLDER, fake_cuda  # noqa: E402

__all__ = ["fake_cuda"]

# Without CUDA's headers the build leaves the stand-in out, and says so.
collect_ignore = (
    [] if (FOLDER / "libcudart.so.13").exists() else ["test_exports.py", "test_fixture.py"]
)
