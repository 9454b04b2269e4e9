"""Bare systems to try a wheel in: made once by debootstrap, and kept in the user's cache folder.

roots.py make SUITE                        make it, and print its folder
roots.py run SUITE FOLDER COMMAND...       run a command in it, which sees FOLDER as /mnt

Without network, and as an ordinary user. Where there cannot be one, that is said, and is no error.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path


class UnavailableError(Exception):
    """Why there is no such system here."""


@dataclasses.dataclass(frozen=True)
class Root:
    """A system, and what it has beside a minimal one."""

    title: str
    keyring: str
    packages: tuple[str, ...]  # for Python and its venv
    components: str = "main"
    updates: bool = False  # of the archive, too


# By the name of the archive's suite.
ROOTS = {
    "bookworm": Root("Debian 12", "debian-archive-keyring", ("python3.11-venv",)),
    # Its own Python is 3.10.
    "jammy": Root(
        "Ubuntu 22.04",
        "ubuntu-archive-keyring",
        ("python3.11-venv",),
        components="main,universe",
        updates=True,
    ),
}
UNSIGNED = "DEV_UNSIGNED_ROOTS"


def _output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def mirror_of(suite: str) -> str:
    """Return the archive of packages: this system's, if it is of that suite, else debootstrap's."""
    form = "$(CODENAME) $(REPO_URI)"
    targets = _output_of("apt-get", "indextargets", "--format", form, "Created-By: Packages")
    for line in targets.splitlines():
        codename, _, uri = line.partition(" ")
        if codename == suite:
            return uri
    ask = (
        f'ARCH=$(dpkg --print-architecture) SUITE={suite}; default_mirror() {{ echo "$1"; exit; }}'
        f"; . /usr/share/debootstrap/scripts/{suite}"
    )
    uri = _output_of("sh", "-c", ask).strip()
    if not uri:
        raise UnavailableError(f"neither apt nor debootstrap knows an archive that has {suite}")
    return uri


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return cache / "memlease" / "roots"


def can_enter() -> bool:
    """Tell whether this system lets root make namespaces."""
    command = ["unshare", "--mount", "--pid", "--net", "--fork", "true"]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


def made(name: str) -> Path:
    """Return the folder of a system, which is made if it is not there yet."""
    root = ROOTS[name]
    folder = _cache() / name
    if os.geteuid() != 0:
        raise UnavailableError("only root can make and enter one; run ./dev wheel as root")
    if not can_enter():
        raise UnavailableError("this system does not let root make namespaces (unshare)")
    if folder.is_dir():
        return folder
    if shutil.which("debootstrap") is None:
        raise UnavailableError("there is no debootstrap; install Debian's package of that name")
    keyring = Path(f"/usr/share/keyrings/{root.keyring}.gpg")
    if not keyring.exists() and os.environ.get(UNSIGNED) != "yes":
        raise UnavailableError(
            f"the signature of its archive cannot be checked without {keyring}: put it there (the"
            f" package {root.keyring}, where this system has one), or set {UNSIGNED}=yes to take it"
            " unchecked"
        )
    _make(name, root, folder)
    return folder


def _run(*command: str) -> None:
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if ended.returncode:
        last = "; ".join(ended.stdout.strip().splitlines()[-2:])
        raise UnavailableError(f"{command[0]} could not make it: {last}")


def _make(suite: str, root: Root, folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    mirror = mirror_of(suite)
    kind = ["--variant=minbase", f"--components={root.components}"]
    _run("debootstrap", *kind, suite, str(partial), mirror)
    if root.updates:
        with (partial / "etc/apt/sources.list").open("a") as sources:
            sources.write(f"deb {mirror} {suite}-updates {root.components.replace(',', ' ')}\n")
    install = ("apt-get", "install", "-y", "--no-install-recommends", *root.packages)
    _run("chroot", str(partial), "apt-get", "update")
    _run("chroot", str(partial), "env", "DEBIAN_FRONTEND=noninteractive", *install)
    partial.rename(folder)


_ENTER = """\
mount -t proc proc "$1/proc" && mount -t tmpfs -o mode=1777 tmpfs "$1/tmp" &&
mount --bind "$2" "$1/mnt" || exit 1
root=$1; shift 2
exec chroot --userspec=1000:1000 "$root" /usr/bin/env -i HOME=/tmp PATH=/usr/bin:/bin "$@"
"""


def command_in(folder: Path, shared: Path, *command: str) -> list[str]:
    """Return a command that runs another in the system, without network, as an ordinary user.

    It sees `shared` as /mnt; what it writes to /tmp, and all that it starts, is gone afterwards.
    """
    spaces = ["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child"]
    enter = ["sh", "-c", _ENTER, "enter", str(folder), str(shared)]
    return ["unshare", *spaces, *enter, *command]


def main() -> None:
    """Do what ./dev wheel asks for: roots.py make SUITE, or roots.py run SUITE FOLDER COMMAND..."""
    verb, suite, *rest = sys.argv[1:]
    try:
        folder = made(suite)
    except UnavailableError as why:
        # What cannot be tried here is no mistake of the wheel's.
        print(f"not tried: {ROOTS[suite].title}: {why}")
        return
    if verb == "make":
        print(folder)
    else:
        shared, *command = rest
        os.execvp("unshare", command_in(folder, Path(shared), *command))


if __name__ == "__main__":
    main()
