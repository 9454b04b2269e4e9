"""Programs in namespaces of their own: by unshare, bubblewrap or systemd-nspawn."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterable
from pathlib import Path

# In the order of the page's columns.
NAMES = ("user", "pid", "ipc", "mount", "network")
FLAGS = {
    "user": ("--user", "--map-root-user"),
    "pid": ("--pid", "--fork", "--kill-child=KILL"),
    "ipc": ("--ipc",),
    "mount": ("--mount",),
    "network": ("--net",),
}
# As in a container: /run and /dev/shm are its own, what is shared is bound into it, and /proc shows
# its own processes.
MOUNTS = """\
set -e
mount -t tmpfs none /run
mkdir /run/shared
mount --bind "$1" /run/shared
mount -t tmpfs none /dev/shm
mkdir "$1"
mount --bind /run/shared "$1"
if [ "$2" = pid ]; then mount -t proc none /proc; fi
shift 2
exec "$@"
"""


_numbers = itertools.count()


class UnavailableError(Exception):
    """Why such namespaces cannot be had here."""


def require() -> None:
    """Raise if this system does not let us make all of them."""
    every = [flag for flags in FLAGS.values() for flag in flags]
    for flags in (every, every[2:]):  # without a user namespace it takes root
        tried = subprocess.run(
            ["unshare", *flags, "mount", "-t", "tmpfs", "none", "/run"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if tried.returncode:
            raise UnavailableError(
                f"unshare {' '.join(flags)}: {tried.stderr.strip() or tried.returncode}. "
                "Run this as root, where user.max_user_namespaces (sysctl) is not 0"
            )


def unshared(private: Iterable[str], shared: Path, *program: str | Path) -> list[str]:
    """Return a command for a program with these namespaces private; `shared` is in /dev/shm."""
    private = set(private)
    command = [str(word) for word in program]
    if "mount" in private:
        own_proc = "pid" if "pid" in private else "-"
        command = ["sh", "-c", MOUNTS, "sh", str(shared), own_proc, *command]
    flags = [flag for name in NAMES if name in private for flag in FLAGS[name]]
    return ["unshare", *flags, *command] if flags else command


# Mounts are always its own.
BUBBLEWRAP_FLAGS = {
    "user": "--unshare-user",
    "pid": "--unshare-pid",
    "ipc": "--unshare-ipc",
    "network": "--unshare-net",
}


def bubblewrapped(private: Iterable[str], shared: Path, *program: str | Path) -> list[str]:
    """Return a command for a program with these namespaces private, without rights, read-only."""
    return [
        "bwrap", *(flag for name, flag in BUBBLEWRAP_FLAGS.items() if name in private),
        "--unshare-uts", "--unshare-cgroup", "--die-with-parent", "--new-session",
        "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
        "--tmpfs", "/run", "--bind", str(shared), str(shared), *map(str, program),
    ]  # fmt: skip


def nspawned(shared: Path, program: Path) -> list[str]:
    """Return a command for a program as the second process of a container of systemd's.

    That it is ready, it says itself: systemd-nspawn would say so of the container before that.
    """
    machine = "".join(letter for letter in shared.name if letter.isalnum())
    return [
        "env", "--unset=NOTIFY_SOCKET",
        "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network",
        "--directory=/", "--volatile=yes", "--as-pid2", "--pipe", "--link-journal=no",
        f"--machine={machine}-{next(_numbers)}", f"--bind={shared}",
        f"--bind-ro={program.parents[1]}", "--setenv=FAKECUDA_WORLD", "--setenv=LD_LIBRARY_PATH",
        f"--setenv=NOTIFY_SOCKET={shared}/notify", str(program),
    ]  # fmt: skip
