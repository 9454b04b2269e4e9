"""Makes a bundle fit for this machine: CUDA's runtime, the test kernels, the module, the programs.

What is in the bundle is taken first, and only what does not do here is built.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

import limited
from place import BUILD, HARDWARE, PREBUILT
from run_state import Run

import build

_RUNTIME, _KERNELS = "libcudart.so.13", "libtest_kernels.so"
_COMPILING_S = 120


def prepare(run: Run, limit_s: float) -> None:
    """Do all of it; each failure is a line in the report."""
    if not run.stand_in:
        _try(run, "runtime", _runtime)
        _try(run, "kernels", _kernels)
    _try(run, "module", lambda: _module(run.environment, limit_s))
    for name in ("memleased", "memleasectl"):
        _try(run, name, lambda program=name: _program(program, run.environment))


def rebuild_kernels(run: Run, limit_s: float) -> bool:
    """Build the test kernels for the GPU that is here, as the others do not run."""
    return _try(run, "kernels", lambda: _built_kernels(limit_s))


def _try(run: Run, name: str, function: Callable[[], str]) -> bool:
    try:
        run.report.note(f"bundle::{name}", "passed", function())
        return True
    except (OSError, RuntimeError) as error:
        if not run.stopped:
            run.report.note(f"bundle::{name}", "failed", str(error))
        return False


def _link(name: str, to: Path) -> None:
    HARDWARE.mkdir(parents=True, exist_ok=True)
    link = HARDWARE / name
    link.unlink(missing_ok=True)
    link.symlink_to(to)


def _runtime() -> str:
    """Take the runtime that the Python libraries load, so that all have one; at last, our own."""
    spec = importlib.util.find_spec("nvidia")
    packages = (spec.submodule_search_locations if spec else None) or ()
    folders = [Path(it, "cu13/lib") for it in packages]
    folders += [Path(it) for it in os.environ.get("LD_LIBRARY_PATH", "").split(":") if it]
    folders += [Path(it) for it in ("/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu")]
    for folder in (*folders, PREBUILT):
        if (folder / _RUNTIME).exists():
            found = (folder / _RUNTIME).resolve()
            _link(_RUNTIME, found)
            return str(found)
    raise RuntimeError(f"no {_RUNTIME} in {', '.join(map(str, (*folders, PREBUILT)))}")


def _kernels() -> str:
    """Take those that an earlier run has built here, or those of the bundle."""
    here, ours = HARDWARE / _KERNELS, PREBUILT / _KERNELS
    if not here.is_symlink() and build.is_newer(here, *build.KERNELS):
        return "built here by an earlier run"
    if not ours.exists():
        return _built_kernels(_COMPILING_S)
    _link(_KERNELS, ours)
    return "prebuilt"


def _built_kernels(limit_s: float) -> str:
    made = HARDWARE / _KERNELS
    made.unlink(missing_ok=True)
    build.kernels(["-arch=native"], made, limit_s)
    return "built here by nvcc -arch=native"


def _module(environment: dict[str, str], limit_s: float) -> str:
    """Import the module; if that fails, build it and try once more."""
    python = build.Python.of(sys.executable)
    ours = python.module.exists()
    imported = _import(environment)
    if imported.ok:
        return f"{imported.output.strip()} for Python {python.version}"
    first = f"{'prebuilt' if ours else 'none is prebuilt as ' + python.suffix}: {imported.why()}"
    try:
        build.module(python, limit_s)
    except (OSError, RuntimeError) as error:
        raise RuntimeError(f"{first}\nbuilding it: {error}") from error
    imported = _import(environment)
    if not imported.ok:
        raise RuntimeError(f"{first}\nbuilt here: {imported.why()}")
    return f"{imported.output.strip()} for Python {python.version}, built here ({first})"


def _import(environment: dict[str, str]) -> limited.Ended:
    code = "import memlease, memlease._core as it; print(it.__file__)"
    return limited.run([sys.executable, "-c", code], 30, environment)


def _program(name: str, environment: dict[str, str]) -> str:
    ended = limited.run([BUILD / "bin" / name, "--version"], 10, environment)
    if not ended.ok:
        raise RuntimeError(ended.why())
    return ended.output.strip()
