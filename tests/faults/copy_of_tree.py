"""A copy of the source tree with its own build, in which files are changed and put back."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPY = ROOT / "build/faults/source"
BUILD = COPY / "build/release"
# Unoptimised, as what is built runs once; nor does it need the private gRPC.
_CONFIGURE = [
    "cmake",
    "--preset=release",
    "-DCMAKE_CXX_FLAGS_RELEASE=-O0",
    "-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF",
    "-DMEMLEASE_GRPC=shared",
    "-DMEMLEASE_BUILD_BENCH=OFF",
    "-DMEMLEASE_BUILD_EXAMPLES=OFF",
]
_LONGEST_S = 120
_ENVIRONMENT = {
    **os.environ,
    "CCACHE_BASEDIR": str(COPY),
    "CCACHE_NOHASHDIR": "1",
    "MEMLEASE_BUILD_DIR": str(BUILD),
}


def make() -> None:
    """Bring the copy up to date. Only what differs is written, so that little is built again."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = {it for it in listed.stdout.split("\0") if (ROOT / it).is_file()}
    for name in names:
        source, target = ROOT / name, COPY / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for target in COPY.rglob("*"):
        inside = target.relative_to(COPY)
        if target.is_file() and inside.parts[0] != "build" and str(inside) not in names:
            target.unlink()
    subprocess.run(_CONFIGURE, cwd=COPY, check=True, capture_output=True, env=_ENVIRONMENT)


@contextlib.contextmanager
def changed(name: str, text: str) -> Iterator[None]:
    """Have another text in a file of the copy, for a while."""
    target = COPY / name
    before = target.read_text()
    target.write_text(text)
    try:
        yield
    finally:
        target.write_text(before)


def build(programs: Sequence[str]) -> bool:
    """Tell whether it compiles."""
    built = subprocess.run(
        ["cmake", "--build", BUILD, "--target", *programs],
        capture_output=True,
        env=_ENVIRONMENT,
        check=False,
    )
    return built.returncode == 0


def failing(program: str) -> str:
    """Return what shows that a program's tests fail, "" if they pass. One that hangs fails, too."""
    command = [BUILD / "tests" / program, "--gtest_fail_fast"]
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_S,
            env=_ENVIRONMENT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{program} does not end"
    if ran.returncode == 0:
        return ""
    failed = [it for it in ran.stdout.splitlines() if it.startswith("[  FAILED  ] ")]
    began = [it for it in ran.stdout.splitlines() if it.startswith("[ RUN      ] ")]
    where = (failed[:1] or began[-1:] or ["[          ] before any test"])[0][13:].split(" (")[0]
    return f"{program}: {where.split(',')[0]}" + ("" if failed else f" ended with {ran.returncode}")
