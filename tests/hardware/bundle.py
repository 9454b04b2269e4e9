"""Makes a bundle: a piece of the source tree and a piece of its build, which need nothing else.

    bundle.py [--python PYTHON]... FOLDER

It is for x86-64 machines with a GPU that lack what memlease is built from: gRPC, protobuf, fmt and
so on come along in build/lib, where RUNPATHs find them. The module comes for each CPython that has
headers here, the test kernels for some GPUs; prepare.py builds there what does not fit. What cannot
be built here is a line in bundle.json. The folder is made new, and FOLDER.tar.gz of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import bundled_programs
import prebuilt

ROOT = Path(__file__).parents[2]
SOURCES = [
    "client/include/memlease/*.h",
    "client/views/*",
    "examples/gpu/*.py",
    "examples/tsunami/*.py",
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
AT_THE_TOP = ["README.md", "run.sh"]  # of tests/hardware
# Headers of others, from .venv: what they are in, and what they are there.
HEADERS = {
    "third_party/pybind11": ".venv/lib/python3*/site-packages/pybind11/include/pybind11",
    "third_party/dlpack": ".venv/lib/python3*/site-packages/tvm_ffi/include/dlpack",
}
MOST_BYTES = 48 << 20  # of the archive: it is what people copy


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
    for name in AT_THE_TOP:
        shutil.copy2(ROOT / "tests/hardware" / name, folder / name)


def _commit() -> str:
    command = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    return ended.stdout.strip() or "unknown"


def size_of(folder: Path) -> int:
    return sum(it.lstat().st_size for it in folder.rglob("*"))


def main() -> None:
    """Make the bundle and its archive."""
    parser = argparse.ArgumentParser(prog="bundle.py")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", action="append", default=[], help="build its module, too")
    given = parser.parse_args()
    folder = given.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    copy_sources(folder)
    missing = bundled_programs.add_programs(folder)
    made = prebuilt.Prebuilt(folder, missing)
    made.add_runtime(one(prebuilt.RUNTIME))
    made.add_kernels()
    made.add_modules(given.python)
    manifest = {
        "commit": _commit(),
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **made.has,
        "missing": missing,
    }
    (folder / "bundle.json").write_text(json.dumps(manifest, indent=2) + "\n")
    print(json.dumps(manifest, indent=2))
    archive = folder.with_name(f"{folder.name}.tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    packed = archive.stat().st_size
    print(f"{folder}: {size_of(folder) / 1e6:.1f} MB; {archive.name}: {packed / 1e6:.1f} MB")
    if packed > MOST_BYTES:
        raise SystemExit(f"bundle.py: {archive.name} has {packed} bytes, more than {MOST_BYTES}")


if __name__ == "__main__":
    main()
