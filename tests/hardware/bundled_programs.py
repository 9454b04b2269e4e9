"""Puts programs of the release build into a bundle, with the libraries that they need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build/release"
VERSION = (ROOT / "VERSION").read_text().strip()
NEEDED = [
    "bin/memleased",
    "bin/memleasectl",
    "fakecuda/fakecuda",
    "fakecuda/libcudart.so.13",
    "fakecuda/libtest_kernels.so",
    f"lib/libmemlease.so.{VERSION.rpartition('.')[0]}",
    "lib/libmemlease_cuda.so",
]
# Each of these on its own: a run does without.
PEERS = ["fakecuda_peer", "memlease_device_peer", "memlease_gpu_publisher"]
TESTS = ["test_cuda_plugin", "test_device", "test_device_threads", "test_tsunami_on_gpu"]
ELSEWHERE = {  # whose file is not tests/TARGET
    "late_deleter": "tests/liblate_deleter.so",
    "tsunami_simulation": "bin/tsunami_simulation",
    "tsunami_simulation_stand_in": "fakecuda/bin/tsunami_simulation",
}
# Every Linux with Python and a C++ compiler has these; the rest of what `ldd` names comes along.
EVERYWHERE = re.compile(r"(linux-vdso|ld-linux|libc|libm|libstdc\+\+|libgcc_s)[-.]")
OURS = re.compile(r"lib(memlease|cudart|test_kernels)")

# Open MPI, as Debian has it, and what of it one machine without a fast network needs.
MPI = Path("/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3")
MPI_LEFT_OUT = re.compile(
    r"mca_(atomic|btl_(ofi|openib)|crs|fbtl|fcoll|fs|io|memheap|mtl|osc|pml_(cm|ucx|monitoring)"
    r"|coll_monitoring|ras_(slurm|gridengine)|plm_slurm|ess_slurm|schizo_slurm|pmix_flux"
    r"|reachable_netlink|schizo_flux|s(coll|haredfp|pml|shmem))[_.]"
)


class Bundle:
    """A bundle's folder and the libraries that came along."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._libraries: set[str] = set()

    def add(self, source: Path, target: str) -> None:
        """Copy a program or library, without symbols, and with it what it loads."""
        made = self.folder / target
        made.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, made)
        made.chmod(0o755)
        libraries = os.path.relpath(self.folder / "build/lib", made.parent)
        runpath = f"$ORIGIN:$ORIGIN/{libraries}"
        subprocess.run(["strip", "--strip-unneeded", made], check=True)
        subprocess.run(["patchelf", "--set-rpath", runpath, made], check=True)
        for name, path in needed_by(source).items():
            if name not in self._libraries:
                self._libraries.add(name)
                self.add(path, f"build/lib/{name}")


def needed_by(program: Path) -> dict[str, Path]:
    """Return the libraries that a program loads and not every machine has."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", listed, re.M))
    return {
        name: Path(path)
        for name, path in found.items()
        if not EVERYWHERE.match(name) and not OURS.match(name)
    }


def _build(targets: Sequence[str]) -> str:
    """Build these; return what went wrong."""
    command = ["cmake", "--build", BUILD, "--target", *targets, "--", "-k", "0"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    return "" if ended.returncode == 0 else (ended.stdout + ended.stderr)[-2000:]


def build_each(targets: Sequence[str]) -> dict[str, str]:
    """Build all; return those that cannot be built, and why."""
    if not _build(targets):
        return {}
    return {target: why for target in targets if (why := _build([target]))}


def add_programs(folder: Path) -> list[str]:
    """Add all; return a line for each that is missing."""
    bundle = Bundle(folder)
    for name in NEEDED:
        bundle.add(BUILD / name, f"build/{name}")
    (folder / "build/fakecuda/libcuda.so.1").symlink_to("libcudart.so.13")
    failed = build_each([*PEERS, *TESTS, *ELSEWHERE])
    places = {name: f"tests/{name}" for name in (*PEERS, *TESTS)} | ELSEWHERE
    for name, target in places.items():
        if name not in failed:
            bundle.add(BUILD / target, f"build/{target}")
    missing = [f"no {name}: {why.strip().splitlines()[-1]}" for name, why in failed.items()]
    return missing + _add_mpi(bundle)


def _add_mpi(bundle: Bundle) -> list[str]:
    """Add Open MPI, which the demo needs, to where OPAL_PREFIX will lead."""
    mpirun = shutil.which("mpirun")
    if mpirun is None or not MPI.is_dir():
        return ["no Open MPI, for the demo: Debian's is not installed"]
    bundle.add(Path(mpirun).resolve(), "build/mpi/bin/mpirun")
    for component in MPI.glob("mca_*.so"):
        if not MPI_LEFT_OUT.match(component.name):
            bundle.add(component, f"build/mpi/lib/openmpi/{component.name}")
    for component in MPI.parents[2].glob("pmix2/lib/pmix/pmix_mca_*.so"):
        bundle.add(component, f"build/mpi/lib/pmix/{component.name}")
    helps = bundle.folder / "build/mpi/share/openmpi"
    helps.mkdir(parents=True)
    for file in Path("/usr/share/openmpi").glob("help-*.txt"):
        shutil.copy2(file, helps)
    return []
