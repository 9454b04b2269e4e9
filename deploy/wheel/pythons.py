#!/usr/bin/env python3
"""Finds the CPythons of this machine that a wheel can be made for: one of each minor version.

pythons.py [PROGRAM...]    prints "VERSION PROGRAM" for these, and for each that is found

A Python that is named and cannot be taken is an error.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ASK = """\
import os, sys, sysconfig
headers = os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
fits = sys.implementation.name == "cpython" and sys.version_info >= (3, 11) and headers
print("%d.%d" % sys.version_info[:2] if fits else "")"""


def found() -> list[str]:
    """Return the Python programs of this machine: this one, those of PATH, and those of pyenv."""
    folders = [Path(it) for it in os.environ.get("PATH", "").split(os.pathsep) if it]
    folders += sorted(Path(os.path.expanduser("~/.pyenv/versions")).glob("3.*/bin"))
    programs = [sys.executable]
    for folder in folders:
        programs += sorted(map(str, folder.glob("python3.[0-9]*[0-9]")))
    return list(dict.fromkeys(programs))


def version_of(program: str) -> str:
    """Return the minor version, as 3.12; "" if no wheel can be made for it."""
    try:
        asked = subprocess.run(
            [program, "-c", _ASK], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""  # a shim of pyenv's may be none


def main() -> None:
    """Print them, the oldest first."""
    named = sys.argv[1:]
    usable: dict[str, str] = {}
    for program in [*named, *found()]:
        version = version_of(program)
        if version:
            usable.setdefault(version, program)
        elif program in named:
            raise SystemExit(f"pythons.py: {program} is no CPython 3.11 or newer with headers")
    for version in sorted(usable, key=lambda it: [int(part) for part in it.split(".")]):
        print(version, usable[version])


if __name__ == "__main__":
    main()
