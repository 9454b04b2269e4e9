"""The libraries that GPU arrays are used with, and the examples of examples/gpu.

On the CUDA stand-in twins of the libraries take the leases (twins/); on hardware the libraries
themselves do, those that are installed. Without memlease, and without pytest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from fakecuda_build import IS_FAKE

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "gpu"
# How one finds out whether a library is there and has a GPU.
LIBRARIES = {
    "cupy": "import cupy; cupy.zeros(1)",
    "jax": "import jax, jax_plugins; jax.devices('cuda')",
    "numba": "from numba import cuda; cuda.jit(lambda a: None)[1, 1](cuda.device_array(1))",
    "torch": "import torch; torch.zeros(1, device='cuda')",
}
# Those with a sample of a kernel, and what it says in the end.
KERNELS = ("cupy", "numba")
ALL_RIGHT = "version 2: 0 of 56 elements are wrong"
_IMPORT_S = 60
_STEP_S = 60
_SEEN = 3  # versions that a worker prints before the publisher is ended


def environment() -> dict[str, str]:
    """Return that of programs which use the libraries."""
    if not IS_FAKE:
        return {**os.environ}
    support = ROOT / "tests/support"
    path = [os.environ.get("PYTHONPATH", "")]
    path += [str(support / it) for it in ("fakecuda", "gpu", "gpu/twins")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def fault_of(library: str) -> tuple[str, str]:
    """Return ("", "") for a library that works; else "skipped", and why. A twin has to work."""
    code = f"import {library}" if IS_FAKE else LIBRARIES[library]
    tried = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_IMPORT_S,
        check=False,
    )
    if tried.returncode == 0:
        return "", ""
    why = (tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"])[-1]
    return ("failed" if IS_FAKE and "No module named" not in why else "skipped"), why


def run_the_kernel(library: str) -> None:
    """Run the library's sample of a kernel, which looks at each element itself."""
    with start(f"add_index_tuple_{library}.py") as sample:
        try:
            told = sample.communicate(timeout=_STEP_S)[0].strip()
        finally:
            sample.kill()
    assert (sample.returncode, told) == (0, ALL_RIGHT), f"it ended with {sample.returncode}: {told}"


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start an example."""
    return subprocess.Popen(
        [sys.executable, EXAMPLES / program, *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def follow_the_publisher(library: str) -> int:
    """Run publisher.py and the library's worker until it has seen some versions.

    Each value is checked, and how both end. Return how many versions the worker saw.
    """
    with start(f"worker_{library}.py") as worker, start("publisher.py") as publisher:
        try:
            assert worker.stdout is not None
            seen = [worker.stdout.readline() for _ in range(_SEEN)]
            publisher.send_signal(signal.SIGINT)
            told = publisher.communicate(timeout=_STEP_S)[0]
            *more, last = worker.communicate(timeout=_STEP_S)[0].splitlines() or [""]
        finally:
            publisher.kill()
            worker.kill()
    assert (publisher.returncode, told) == (0, ""), f"the publisher ended so: {told}"
    assert last == "the publisher has ended", f"the worker ended so: {[*seen, *more, last]}"
    assert worker.returncode == 0, f"the worker's exit status is {worker.returncode}"
    for line in (*seen, *more):
        version, mean = line.removeprefix("version ").split(": mean ")
        assert float(mean) == int(version), f"wrong values: {line}"
    return len(seen) + len(more)
