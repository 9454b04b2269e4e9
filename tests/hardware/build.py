"""Builds the Python module and the test kernels: where the bundle is made, and where it runs.

    build.py [PYTHON...]    builds the module for each of these, into this tree

A failure is a RuntimeError that says what the compiler wrote.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import shutil
import sys
import time
from pathlib import Path

import limited
from place import BUILD, HARDWARE, ROOT

KERNELS = tuple(ROOT / "tests/support/fakecuda" / it for it in ("test_kernels.cc", "launch_nvcc.h"))
_ASK = """\
import json, sys, sysconfig
print(json.dumps({
    "version": sys.version.split()[0],
    "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    "headers": sysconfig.get_path("include"),
}))"""
_LINK_S = 60


@dataclasses.dataclass(frozen=True)
class Python:
    """A CPython that modules can be built for."""

    version: str
    suffix: str  # of its modules' names
    headers: str

    @classmethod
    def of(cls, program: str | Path) -> Python:
        ended = limited.run([program, "-c", _ASK], 20)
        _check(ended, str(program))
        return cls(**json.loads(ended.output))

    @property
    def has_headers(self) -> bool:
        return Path(self.headers, "Python.h").exists()

    @property
    def module(self) -> Path:
        """Return where memlease._core is, or will be."""
        return ROOT / "python/memlease" / f"_core{self.suffix}"


def _check(ended: limited.Ended, what: str) -> None:
    if not ended.ok:
        raise RuntimeError(f"{what}: {ended.why()}")


def is_newer(made: Path, *sources: Path) -> bool:
    """Tell whether it is there, and no source has changed since."""
    return made.exists() and all(it.stat().st_mtime <= made.stat().st_mtime for it in sources)


def compiler() -> list[str]:
    """Return the command that compiles C++, which may be ccache's; empty if there is none."""
    found = shutil.which("g++")
    cache = shutil.which("ccache")
    return [*([cache] if cache else []), found] if found else []


def module(python: Python, limit_s: float) -> None:
    """Build memlease._core of the sources of python/module.cmake; objects are kept."""
    if not python.has_headers:
        raise RuntimeError(f"Python {python.version} has no {python.headers}/Python.h")
    if not compiler():
        raise RuntimeError("there is no g++ in PATH")
    objects = HARDWARE / f"module{python.suffix}"
    objects.mkdir(parents=True, exist_ok=True)
    folders = (ROOT / "python/bindings", ROOT / "client/views")
    sources = [file for folder in folders for file in folder.glob("*.cc")]
    headers = [file for folder in folders for file in folder.glob("*.h")]
    includes = [ROOT, ROOT / "client/include", ROOT / "third_party", python.headers]
    flags = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-w"]
    flags += [f"-I{it}" for it in includes]
    flags += ["-DPYBIND11_NO_ASSERT_GIL_HELD_INCREF_DECREF"]
    end = time.monotonic() + limit_s

    def compile_one(source: Path) -> Path:
        made = objects / f"{source.stem}.o"
        if not is_newer(made, source, *headers):
            command = [*compiler(), *flags, "-c", source, "-o", made]
            _check(limited.run(command, end - time.monotonic()), f"compiling {source.name}")
        return made

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(compile_one, sources))
    (library,) = (BUILD / "lib").glob("libmemlease.so.*")
    link = ["g++", "-shared", "-s", *made, library, "-o", python.module]
    _check(limited.run([*link, "-Wl,-rpath,$ORIGIN/../../build/lib"], _LINK_S), "linking _core")


def nvcc() -> str | None:
    """Find CUDA's compiler."""
    return shutil.which("nvcc", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")


def kernels(architectures: list[str], made: Path, limit_s: float) -> None:
    """Compile the test kernels for these."""
    program = nvcc()
    if program is None:
        raise RuntimeError("there is no nvcc in PATH, nor in /usr/local/cuda/bin")
    made.parent.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [program, "-x", "cu", "-std=c++17", "-O2", "-shared"]
    command += [*architectures, "-Xcompiler", "-fPIC", "-cudart", "shared"]
    command += ["-I", ROOT, "-I", ROOT / "client/include"]
    command += ['-DTK_LAUNCH="tests/support/fakecuda/launch_nvcc.h"', KERNELS[0], "-o", made]
    _check(limited.run(command, limit_s), "nvcc")


if __name__ == "__main__":
    for one in sys.argv[1:]:
        module(Python.of(one), 600)
