#!/usr/bin/env python3
"""Builds abseil and protobuf so that memlease can hide them, once for all clones of a user.

    private_grpc.py build [--cxx COMPILER]   build what is missing, and print where it is
    private_grpc.py path [--cxx COMPILER]    print where that is; exit status 3 if it is missing

Debian's static gRPC can be linked into a shared library, its abseil and protobuf cannot. These are
built from Debian's own sources, of exactly the versions that are installed, into
${XDG_CACHE_HOME:-~/.cache}/memlease/private-grpc/KEY, where KEY says versions, compiler and flags.
A build that was interrupted goes on where it was; of two at once, the second waits for the first.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import deb_sources
from deb_sources import BuildError

HERE = Path(__file__).resolve().parent
PACKAGES = {"abseil": "libabsl-dev", "protobuf": "libprotobuf-dev"}  # source -> installed
FLAGS = (
    "-O2 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden"
    " -ffunction-sections -fdata-sections -w"
)
ARCHIVE = "libmemlease_private_grpc.a"
MISSING = 3


def output_of(*command: str) -> str:
    """Return what a command prints, which must succeed."""
    try:
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise BuildError(
            f"{command[0]} does not start: {error.strerror}. Run ./dev setup."
        ) from None
    if ended.returncode != 0:
        raise BuildError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout


def installed_sources() -> dict[str, str]:
    """Return the version of the sources that each installed package was built from."""
    return {
        source: output_of("dpkg-query", "-W", "-f", "${source:Version}", package)
        for source, package in PACKAGES.items()
    }


def key_of(sources: dict[str, str], cxx: str) -> str:
    """Return the name of what is built: whatever may change it is in it."""
    # Without its first word, which is the name by which the compiler was called.
    compiler = output_of(cxx, "--version").partition(" ")[2]
    recipe = (HERE / "CMakeLists.txt").read_text()
    parts = [platform.machine(), compiler, FLAGS, recipe, *sources.values()]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    versions = "-".join(
        f"{source}-{version.partition(':')[2] or version}" for source, version in sources.items()
    )
    return f"{versions}-{digest}"


def cache_folder() -> Path:
    """Return the folder of all that this builds."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says to take no notice of a relative one.
    try:
        cache = Path(base) if base.startswith("/") else Path.home() / ".cache"
    except RuntimeError:
        raise BuildError(
            "there is nowhere to build: neither XDG_CACHE_HOME nor HOME names a folder, and this"
            " user has no home. Set XDG_CACHE_HOME."
        ) from None
    return cache / "memlease" / "private-grpc"


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock, which goes with the process however that ends."""
    with file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another build of the same is under way: waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(*command: str | Path) -> None:
    """Run a step of the build, whose output is ours."""
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        raise BuildError(
            f"{Path(command[0]).name} ended with {status}; the reason is above."
            " The next run goes on where this one ended."
        )


def compile_all(sources: dict[str, str], cxx: str, work: Path) -> Path:
    """Build the archive out of sources that are there, and return it."""
    trees = {source: deb_sources.unpack(source, it, work) for source, it in sources.items()}
    ccache = shutil.which("ccache")
    build = work / "build"
    run(
        *("cmake", "-G", "Ninja", "-S", HERE, "-B", build, "-Wno-dev", "--log-level=WARNING"),
        *(f"-D{source.upper()}={tree}" for source, tree in trees.items()),
        f"-DCMAKE_CXX_COMPILER={cxx}",
        f"-DCMAKE_CXX_FLAGS={FLAGS}",
        *([f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}"] if ccache else []),
    )
    run("cmake", "--build", build, "--target", "memlease_private_grpc")
    return build / ARCHIVE


def build(cxx: str) -> Path:
    """Return the folder of the archive, which is built if it is missing."""
    sources = installed_sources()
    folder = cache_folder() / key_of(sources, cxx)
    if folder.is_dir():
        return folder
    work = folder.with_name(f"{folder.name}.work")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if folder.is_dir():
            return folder
        work.mkdir(exist_ok=True)
        if not all((work / f"{it}-{version}").is_dir() for it, version in sources.items()):
            deb_sources.fetch(sources, work)
        archive = compile_all(sources, cxx, work)
        done = work / "done"
        done.mkdir(exist_ok=True)
        archive.replace(done / ARCHIVE)
        done.rename(folder)
        shutil.rmtree(work)
    return folder


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="private_grpc.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=["build", "path"])
    parser.add_argument("--cxx", default=os.environ.get("CXX", "c++"), help="as CMake's, c++")
    given = parser.parse_args(arguments)
    try:
        if given.command == "build":
            print(build(given.cxx))
            return 0
        folder = cache_folder() / key_of(installed_sources(), given.cxx)
        print(folder)
        return 0 if folder.is_dir() else MISSING
    except BuildError as failure:
        print(f"private_grpc.py: {failure}", file=sys.stderr)
        return 1
    except OSError as failure:
        print(
            f"private_grpc.py: {failure.filename}: {failure.strerror}. It builds in"
            f" {cache_folder()}; XDG_CACHE_HOME names another folder for caches.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
