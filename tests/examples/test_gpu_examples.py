"""The examples of examples/gpu, run as a user would.

On the CUDA stand-in twins of the libraries take the leases (tests/support/gpu/twins); in a run on
hardware the libraries themselves do, those that are installed.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakecuda_build import IS_STAND_IN, require_stand_in

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "gpu"
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
    if IS_STAND_IN:
        for folder in ("fakecuda", "gpu", "gpu/twins"):
            monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests/support" / folder), os.pathsep)
    elif subprocess.run(
        [sys.executable, "-c", LIBRARIES[library]], capture_output=True, check=False
    ).returncode:
        pytest.skip(f"no {library} with a GPU")
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


def test_the_publisher_says_in_a_line_that_there_is_no_such_gpu(gpu):
    with start("publisher.py", "cuda:99") as publisher:
        (line,) = publisher.communicate(timeout=60)[0].splitlines()
    assert publisher.returncode == 1
    assert line.startswith("publisher.py: there is no cuda:99")
    assert line.endswith("[ML019]")


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, EXAMPLES / program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
