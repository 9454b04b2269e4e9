"""Makes a bundle: a piece of the source tree and a piece of its build, which need nothing else.

    bundle.py FOLDER

It is for x86-64 machines with a GPU that lack what memlease is built from: gRPC, protobuf, fmt and
so on come along in build/lib, where RUNPATHs find them. build.py makes there what depends on the
machine. The folder is made anew, and FOLDER.tar.gz of it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build/release"
SOURCES = [
    "client/include/memlease/*.h",
    "client/views/dlpack_view.*",
    "examples/gpu/*.py",
    "pytest.ini",
    "python/bindings/*",
    "python/memlease/*.py",
    "python/memlease/py.typed",
    "tests/conformance/*",
    "tests/examples/test_gpu_examples.py",
    "tests/hardware/*.py",
    "tests/support/fakecuda/*.py",
    "tests/support/fakecuda/launch_nvcc.h",
    "tests/support/fakecuda/test_kernels.*",
    "tests/support/gpu/*.py",
    "tests/support/gpu/twins/*.py",
    "tests/support/gpu/twins/jax/*.py",
]
LEFT_OUT = ["test_page.py", "test_consumers.py"]  # about the whole source tree, about the mocks
PROGRAMS = [
    "bin/memleased",
    "bin/memleasectl",
    "fakecuda/fakecuda",
    "fakecuda/libcudart.so.13",
    "fakecuda/libtest_kernels.so",
    "lib/libmemlease.so.0",
    "lib/libmemlease_cuda.so",
    "tests/fakecuda_peer",
    "tests/liblate_deleter.so",
    "tests/memlease_device_peer",
    "tests/test_cuda_device_*",
    "tests/test_device_*",
]
BUILT_BY_NVCC = ["tests/test_tsunami_on_gpu"]  # where CMake found it
# Headers of others, from .venv: what they are in, and what they are there.
HEADERS = {
    "third_party/pybind11": ".venv/lib/python3*/site-packages/pybind11/include/pybind11",
    "third_party/dlpack": ".venv/lib/python3*/site-packages/tvm_ffi/include/dlpack",
}
# Every Linux with Python and a C++ compiler has these; the rest of what `ldd` names comes along.
EVERYWHERE = re.compile(r"(linux-vdso|ld-linux|libc|libm|libstdc\+\+|libgcc_s)[-.]")
OURS = re.compile(r"lib(memlease|cudart|test_kernels)")
MOST_BYTES = 60 << 20


def one(pattern: str) -> Path:
    """Return the file or folder of the source tree that the pattern names."""
    found = sorted(ROOT.glob(pattern))
    if not found:
        raise SystemExit(f"bundle.py: there is no {pattern}; ./dev gpu bundle builds all it needs")
    return found[0]


def copy_sources(folder: Path) -> None:
    """Copy by the patterns, each of which must fit something."""
    for pattern in SOURCES:
        one(pattern)
        for file in ROOT.glob(pattern):
            if file.is_file() and file.name not in LEFT_OUT:
                target = folder / file.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target)
    for target, pattern in HEADERS.items():
        shutil.copytree(one(pattern), folder / target)
    shutil.copy2(ROOT / "tests/hardware/run.sh", folder / "run.sh")


def needed_by(program: Path) -> dict[str, Path]:
    """Return the libraries that a program loads and not every machine has."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", listed, re.M))
    return {
        name: Path(path)
        for name, path in found.items()
        if not EVERYWHERE.match(name) and not OURS.match(name)
    }


def place(source: Path, target: Path, runpath: str) -> None:
    """Copy a program or library, without symbols, and let it look for others beside it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)
    subprocess.run(["strip", "--strip-unneeded", target], check=True)
    subprocess.run(["patchelf", "--set-rpath", runpath, target], check=True)


def copy_programs(folder: Path) -> None:
    """Copy the build's files, and the libraries that they need."""
    libraries: dict[str, Path] = {}
    for name in PROGRAMS:
        one(f"build/release/{name}")
    for name in [*PROGRAMS, *BUILT_BY_NVCC]:
        for program in BUILD.glob(name):
            libraries.update(needed_by(program))
            target = folder / "build" / program.relative_to(BUILD)
            place(program, target, "$ORIGIN:$ORIGIN/../lib")
    for name, path in libraries.items():
        place(path, folder / "build/lib" / name, "$ORIGIN")
    (folder / "build/fakecuda/libcuda.so.1").symlink_to("libcudart.so.13")


def size_of(folder: Path) -> int:
    return sum(it.stat().st_size for it in folder.rglob("*") if it.is_file())


def main() -> None:
    """Make the bundle and its archive."""
    folder = Path(sys.argv[1]).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    copy_sources(folder)
    copy_programs(folder)
    size = size_of(folder)
    if size > MOST_BYTES:
        raise SystemExit(f"bundle.py: the bundle has {size} bytes, more than {MOST_BYTES}")
    archive = folder.with_name(f"{folder.name}.tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    print(f"{folder}: {size / 1e6:.1f} MB; {archive.name}: {archive.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
