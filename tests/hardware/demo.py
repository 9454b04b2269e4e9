"""Runs the demo of examples/tsunami on the GPU, with the Open MPI that the bundle brings."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time

import limited
import place
from run_state import Run

_NAME = "demo::tsunami"
_NEEDS = ("matplotlib", "numpy", "PIL")
_MPI = place.BUILD / "mpi"
# Readers come and go while it computes. How long it computes depends on the GPU: too short, and
# the next one is tried.
_LENGTHS = (("9000", "4"), ("90000", "4"), ("270000", "4"))
_LENGTHS_STAND_IN = (("3000", "2"),)
_STEP_US = 3000  # of the stand-in: a pace that readers can come and go at
_TOO_SHORT = "give a longer --duration"


def run(run: Run, limit_s: float) -> None:
    """Run it once, or say what it lacks here."""
    end = time.monotonic() + limit_s
    programs = place.STAND_IN / "bin" if run.stand_in else place.BUILD / "bin"
    missing = [f"no Python module {it}" for it in _NEEDS if importlib.util.find_spec(it) is None]
    for program in (programs / "tsunami_simulation", _MPI / "bin/mpirun"):
        missing += [] if program.exists() else [f"the bundle has no {program.name}"]
    if not missing and run.stand_in and _torch_has_cuda(end - time.monotonic(), run.environment):
        missing = ["this PyTorch loads a CUDA runtime of its own, which hides the stand-in"]
    if missing:
        run.report.note(_NAME, "skipped", "; ".join(missing))
        return
    knobs = {"delay_us": _STEP_US, **run.knobs}
    environment = {**run.environment, **_mpi_environment(programs)}
    for duration, refinement in _LENGTHS_STAND_IN if run.stand_in else _LENGTHS:
        command = place.python(place.ROOT / "examples/tsunami/run.py", "--device", "cuda:0")
        command += ["--duration", duration, "--refinement", refinement]
        command += ["--pictures", "5", "--visits", "2", "--window", "0.2"]
        with (
            tempfile.TemporaryDirectory(prefix="memlease-demo-") as out,
            place.world(environment, run.stand_in, knobs) as given,
        ):
            ended = limited.run([*command, "--out", out], end - time.monotonic(), given)
        if _TOO_SHORT not in ended.output:
            break
    if not run.stopped:
        told = ended.output.strip().splitlines()[-1:] if ended.ok else [ended.why()]
        run.report.note(_NAME, "passed" if ended.ok else "failed", "".join(told))


def _torch_has_cuda(limit_s: float, environment: dict[str, str]) -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    code = "import sys, torch; sys.exit(torch.version.cuda is not None)"
    return not limited.run([sys.executable, "-c", code], limit_s, environment).ok


def _mpi_environment(programs: os.PathLike[str]) -> dict[str, str]:
    """Let Open MPI find itself where it is, and nothing of another one."""
    path = [str(programs), str(_MPI / "bin"), str(place.BUILD / "bin"), os.environ.get("PATH", "")]
    return {
        "PATH": os.pathsep.join(path),
        "OPAL_PREFIX": str(_MPI),
        "OMPI_MCA_mca_base_component_path": str(_MPI / "lib/openmpi"),
        "OMPI_MCA_plm_rsh_agent": sys.executable,  # any program: it only has to be there
        "PMIX_MCA_mca_base_component_path": str(_MPI / "lib/pmix"),
    }
