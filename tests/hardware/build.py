"""Builds what a bundle cannot bring: the module for this Python, the kernels for this GPU."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import os
import shutil
import sys
import sysconfig
import time
from pathlib import Path

import limited
from place import BUILD, HARDWARE, ROOT


def _check(ended: limited.Ended, what: str) -> None:
    if not ended.ok:
        raise RuntimeError(f"{what}: {ended.why()}")


def module(limit_s: float) -> None:
    """Build memlease._core, as python/CMakeLists.txt does."""
    objects = BUILD / "module"
    objects.mkdir(exist_ok=True)
    sources = [*(ROOT / "python/bindings").glob("*.cc"), ROOT / "client/views/dlpack_view.cc"]
    includes = [ROOT, ROOT / "client/include", ROOT / "third_party"]
    flags = ["-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-w"]
    flags += [f"-I{it}" for it in (*includes, sysconfig.get_path("include"))]
    flags += ["-DPYBIND11_NO_ASSERT_GIL_HELD_INCREF_DECREF"]
    end = time.monotonic() + limit_s

    def compile_one(source: Path) -> Path:
        made = objects / f"{source.stem}.o"
        command = ["g++", *flags, "-c", source, "-o", made]
        _check(limited.run(command, end - time.monotonic()), f"compiling {source.name}")
        return made

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(compile_one, sources))
    target = ROOT / "python/memlease" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    link = ["g++", "-shared", *made, BUILD / "lib/libmemlease.so.0", "-o", target]
    _check(limited.run([*link, "-Wl,-rpath,$ORIGIN/../../build/lib"], 60), "linking _core")


def _runtime() -> Path:
    """Find libcudart.so.13: the one that the Python libraries load first, so that all have one."""
    name = "libcudart.so.13"
    spec = importlib.util.find_spec("nvidia")
    packages = (spec.submodule_search_locations if spec else None) or ()
    folders = [Path(it, "cu13/lib") for it in packages]
    folders += [Path(it) for it in os.environ.get("LD_LIBRARY_PATH", "").split(":") if it]
    folders += [Path(it) for it in ("/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu")]
    for folder in folders:
        if (folder / name).exists():
            return (folder / name).resolve()
    raise RuntimeError(f"no {name} in {', '.join(map(str, folders))}")


def nvcc() -> str | None:
    """Find CUDA's compiler."""
    return shutil.which("nvcc", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")


def kernels(limit_s: float) -> str:
    """Compile the test kernels by nvcc, beside a link to CUDA's runtime; return which that is."""
    HARDWARE.mkdir(exist_ok=True)
    runtime = _runtime()
    link = HARDWARE / "libcudart.so.13"
    link.unlink(missing_ok=True)
    link.symlink_to(runtime)
    folder = ROOT / "tests/support/fakecuda"
    command: list[str | Path] = [
        nvcc() or "nvcc",
        "-x",
        "cu",
        "-std=c++17",
        "-O2",
        "-shared",
        "-Xcompiler",
        "-fPIC",
    ]
    command += ["-cudart", "shared", "-I", ROOT]
    command += ['-DTK_LAUNCH="tests/support/fakecuda/launch_nvcc.h"', folder / "test_kernels.cc"]
    command += ["-o", HARDWARE / "libtest_kernels.so"]
    _check(limited.run(command, limit_s), "nvcc")
    return str(runtime)


if __name__ == "__main__":
    module(float(sys.argv[1]) if len(sys.argv) > 1 else 300)
    print(kernels(120))
