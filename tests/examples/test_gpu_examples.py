"""The examples of examples/gpu, run as a user would.

On the CUDA stand-in twins of the libraries take the leases (tests/support/gpu/twins). In a run on
hardware, which names its CUDA in MEMLEASE_TEST_CUDA, the libraries themselves do.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakecuda_build import require_stand_in

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "gpu"
ON_HARDWARE = "MEMLEASE_TEST_CUDA" in os.environ
# How one finds out whether a library is there and has a GPU.
LIBRARIES = {
    "cupy": "import cupy; cupy.zeros(1)",
    "jax": "import jax; jax.devices('cuda')",
    "numba": "from numba import cuda; cuda.current_context()",
    "torch": "import torch; torch.zeros(1, device='cuda')",
}


def test_each_worker_has_its_library_here():
    assert {it.stem.removeprefix("worker_") for it in EXAMPLES.glob("worker_*.py")} == {*LIBRARIES}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_worker_follows_the_publisher(gpu, monkeypatch, library):
    if ON_HARDWARE:
        if subprocess.run([sys.executable, "-c", LIBRARIES[library]], check=False).returncode:
            pytest.skip(f"no {library} with a GPU")
    else:
        for folder in ("fakecuda", "gpu", "gpu/twins"):
            monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests/support" / folder), os.pathsep)
    with start(f"worker_{library}.py") as worker, start("publisher.py") as publisher:
        try:
            seen = [worker.stdout.readline() for _ in range(3)]
            publisher.send_signal(signal.SIGINT)
            assert publisher.communicate(timeout=60) == ("", None)
            *more, last = worker.communicate(timeout=60)[0].splitlines()
        finally:
            publisher.kill()
            worker.kill()
    assert publisher.returncode == worker.returncode == 0, (seen, more, last)
    assert last == "the publisher has ended"
    for line in (*seen, *more):
        version, mean = line.removeprefix("version ").split(": mean ")
        assert float(mean) == int(version)


def start(program):
    return subprocess.Popen(
        [sys.executable, EXAMPLES / program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
