#!/usr/bin/env python3
"""Looks at finished wheels: size, tag, contents, and what their libraries and programs need.

    check_wheel.py WHEEL...

Prints a line for each; the first thing that is wrong ends it.
"""

from __future__ import annotations

import email
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MOST_BYTES = 20 << 20
PLATFORM = "manylinux_2_34_x86_64"
EVERYWHERE = {
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "ld-linux-x86-64.so.2",
}
# What a file needs beside that. CUDA's runtime comes with NVIDIA's package or with a toolkit;
# without it there are no GPU arrays, and all else works.
ALSO_NEEDED = {
    r"memlease/_core\..*\.so": r"libmemlease\.so\.\d+\.\d+",
    r"memlease/libmemlease_cuda\.so": r"libcudart\.so\.13",
}
CONTENTS = (
    r"memlease/__init__\.py",
    r"memlease/py\.typed",
    r"memlease/_core\.pyi",
    r"memlease/_core\.cpython-3\d+-x86_64-linux-gnu\.so",
    r"memlease/libmemlease\.so\.\d+\.\d+",
    r"memlease/libmemlease_cuda\.so",
    r"memlease/include/memlease/memlease\.h",
    r"memlease/lib/cmake/memlease/memleaseConfig\.cmake",
    r"memlease/lib/pkgconfig/memlease\.pc",
    r"memlease/bin/memleased",
    r"memlease/bin/memleasectl",
    r"memlease-[\d.]+\.dist-info/entry_points\.txt",
    r"memlease-[\d.]+\.dist-info/licenses/LICENSE",
    r"memlease-[\d.]+\.dist-info/licenses/third_party/grpc\.txt",
    r"memlease-[\d.]+\.dist-info/licenses/third_party/common-licenses/Apache-2\.0",
    r"memlease-[\d.]+\.dist-info/sboms/memlease\.cdx\.json",
)
RUN_PATHS = re.compile(r"\$ORIGIN(/\.\.)*(/nvidia/cu13/lib)?|/usr/local/cuda/lib64")


class WrongError(Exception):
    """What is wrong with a wheel."""


def needed_and_run_paths(file: Path) -> tuple[set[str], list[str]]:
    """Return what a library or program needs, and where it looks for that."""
    said = subprocess.run(
        ["readelf", "-d", file], check=True, capture_output=True, text=True
    ).stdout
    paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", said)
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", said)), [
        it for one in paths for it in one.split(":")
    ]


def check_names(names: list[str]) -> None:
    """Check that nothing is missing."""
    for wanted in CONTENTS:
        if not any(re.fullmatch(wanted, it) for it in names):
            raise WrongError(f"it has no {wanted}")


def check_binaries(names: list[str], folder: Path) -> None:
    """Check each ELF file's needs."""
    for name in names:
        file = folder / name
        if not file.is_file() or file.read_bytes()[:4] != b"\x7fELF":
            continue
        needed, paths = needed_and_run_paths(file)
        also = [it for form, it in ALSO_NEEDED.items() if re.fullmatch(form, name)]
        for library in sorted(needed - EVERYWHERE):
            if not any(re.fullmatch(it, library) for it in also):
                raise WrongError(f"{name} needs {library}, which not every system has")
        for path in paths:
            if not RUN_PATHS.fullmatch(path):
                raise WrongError(
                    f"{name} looks for libraries in {path}, which only the builder has"
                )
        sections = subprocess.run(
            ["readelf", "-SW", file], check=True, capture_output=True, text=True
        ).stdout
        if ".debug_info" in sections:
            raise WrongError(f"{name} is not stripped")


def check_notices(metadata: Path) -> int:
    """Check that there is a text for all that the bill of materials lists; return how many."""
    bill = json.loads((metadata / "sboms/memlease.cdx.json").read_text())
    for component in bill["components"]:
        if not (metadata / "licenses/third_party" / f"{component['name']}.txt").is_file():
            raise WrongError(f"the licence of {component['name']} is missing")
    return len(bill["components"])


def check(wheel: Path) -> str:
    """Return a line on a wheel that is as it should be."""
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        raise WrongError(f"it has {size} bytes, more than {MOST_BYTES}")
    if PLATFORM not in wheel.stem.split("-")[-1].split("."):
        raise WrongError(f"its platform is not {PLATFORM}")
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(wheel) as archive:
        folder = Path(name)
        archive.extractall(folder)
        names = archive.namelist()
        check_names(names)
        check_binaries(names, folder)
        [metadata] = folder.glob("*.dist-info")
        tags = email.message_from_string((metadata / "WHEEL").read_text()).get_all("Tag", [])
        if not any(it.endswith(PLATFORM) for it in tags):
            raise WrongError(f"its WHEEL says {tags}")
        count = check_notices(metadata)
        unpacked = sum(it.file_size for it in archive.infolist())
    return f"{size / 1e6:.1f} MB, {unpacked / 1e6:.1f} MB unpacked; {count} projects linked in"


def main() -> None:
    """Check all that are named."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    for wheel in map(Path, sys.argv[1:]):
        try:
            print(f"{wheel.name}: {check(wheel)}")
        except WrongError as wrong:
            raise SystemExit(f"check_wheel.py: {wheel.name}: {wrong}") from None


if __name__ == "__main__":
    main()
