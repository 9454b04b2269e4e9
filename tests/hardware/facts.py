"""What a machine is: GPU, driver, CUDA, kernel, container, libraries."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

import limited

LIBRARIES = [
    "numpy",
    "ml_dtypes",
    "pytest",
    "cupy-cuda13x",
    "torch",
    "jax",
    "jax-cuda13-plugin",
    "numba",
    "numba-cuda",
    "cuda-core",
    "cuda-bindings",
    "nvidia-cuda-runtime",
]
QUERIES = {
    "gpu": "name",
    "driver": "driver_version",
    "uuid": "uuid",
    "memory": "memory.total",
    "compute_mode": "compute_mode",
    "mig": "mig.mode.current",
    "ecc": "ecc.mode.current",
}


def _first_line(*command: str) -> str:
    ended = limited.run(list(command), 20)
    return ended.output.strip().splitlines()[0] if ended.ok and ended.output.strip() else ""


def _gpu(stand_in: bool) -> dict[str, str]:
    if stand_in:
        return {"gpu": "stand-in", "driver": "stand-in"}
    line = _first_line(
        "nvidia-smi", f"--query-gpu={','.join(QUERIES.values())}", "--format=csv,noheader"
    )
    if not line:
        return {"gpu": "no answer from nvidia-smi", "driver": "unknown"}
    return dict(zip(QUERIES, map(str.strip, line.split(",")), strict=False))


def _cuda() -> str:
    for nvcc in ("nvcc", "/usr/local/cuda/bin/nvcc"):
        ended = limited.run([nvcc, "--version"], 20)
        if release := re.search(r"release ([\d.]+)", ended.output):
            return release[1]
    return "no nvcc"


def _container() -> str:
    """Name what shows from within; a virtual machine shows in the kernel's name, if at all."""
    signs = []
    if Path("/.dockerenv").exists():
        signs.append("docker")
    if Path("/run/.containerenv").exists():
        signs.append("podman")
    version = Path("/proc/version").read_text()
    if "gVisor" in version or platform.release() == "4.4.0":
        signs.append("gVisor")
    if virtual := _first_line("systemd-detect-virt"):
        signs.append(virtual)
    return ", ".join(dict.fromkeys(signs)) or "none seen"


def _version_of(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "-"


def gather(stand_in: bool) -> dict[str, Any]:
    """Return all of it."""
    system = ""
    if (release := Path("/etc/os-release")).exists():
        system = (re.search(r'PRETTY_NAME="?([^"\n]*)', release.read_text()) or ["", ""])[1]
    return {
        **_gpu(stand_in),
        "cuda": _cuda(),
        "kernel": f"{platform.system()} {platform.release()}",
        "system": system,
        "glibc": platform.libc_ver()[1],
        "container": _container(),
        "pid_namespace": os.readlink("/proc/self/ns/pid"),
        "uid": os.getuid(),
        "cpus": os.cpu_count(),
        "python": sys.version.split()[0],
        "libraries": {name: _version_of(name) for name in LIBRARIES},
    }
