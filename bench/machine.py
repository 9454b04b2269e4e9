"""What the figures are measured on."""

import os
import platform
import re
import subprocess
from pathlib import Path


def text(path: str) -> str:
    """Read a small file; empty if there is none."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def chosen(path: str) -> str:
    """Which of the settings that a file lists stands in brackets."""
    found = re.search(r"\[(\w+)\]", text(path))
    return found[1] if found else "unknown"


def value(path: str, key: str) -> str:
    """Read the first `key: value` of a file."""
    found = re.search(rf"^{key}\s*:\s*(.*)$", text(path), re.M)
    return found[1] if found else "unknown"


def describe(root: Path, load_before: float) -> list[str]:
    """Say it in a few lines."""
    commit = subprocess.run(
        ["git", "-C", root, "describe", "--always", "--dirty"],
        capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    pages = "/sys/kernel/mm/transparent_hugepage"
    guest = "hypervisor" in value("/proc/cpuinfo", "flags").split()
    return [
        f"{os.cpu_count()} x {value('/proc/cpuinfo', 'model name')}"
        f"{', virtual' if guest else ''}; {value('/proc/meminfo', 'MemTotal')}; "
        f"Linux {platform.release()}; Python {platform.python_version()}",
        f"load {load_before:.1f} before, {os.getloadavg()[0]:.1f} after; programs that say so pin "
        "each process to a CPU",
        f"huge pages: {chosen(f'{pages}/enabled')}, of shared memory "
        f"{chosen(f'{pages}/shmem_enabled')}, reserved {text('/proc/sys/vm/nr_hugepages') or '?'}",
        f"memlease {commit or 'of unknown commit'}, release build",
    ]
