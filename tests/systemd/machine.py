"""A machine with a systemd of its own: made by debootstrap, booted in systemd-nspawn.

The system is made once and kept in the user's cache folder; what a test changes in it goes to an
overlay that is thrown away. Needs root, and says plainly what is missing.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

# As here, so that what is built here runs there.
SUITE = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
PACKAGES = "systemd,systemd-sysv,dbus,libpam-systemd,dbus-user-session,libstdc++6,python3-numpy"
DEADLINE_S = 60


class UnavailableError(Exception):
    """Why no such machine can be had here."""


def run(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True, text=True, check=False, timeout=DEADLINE_S, **options,
    )  # fmt: skip


def must(*command: str | Path, **options) -> str:
    ended = run(*command, **options)
    assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def until(condition, what: str, deadline_s: float = DEADLINE_S) -> None:
    """Ask again until it is so: nothing else tells us."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.02)


def cached_system() -> Path:
    """Return the folder of the system, which is made if it is not there yet."""
    if os.geteuid() != 0:
        raise UnavailableError("only root can boot a system in systemd-nspawn: run this as root")
    for program, package in (("systemd-nspawn", "systemd-container"), ("debootstrap",) * 2):
        if shutil.which(program) is None:
            raise UnavailableError(f"there is no {program}: install Debian's {package}")
    base = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(base) if base.startswith("/") else Path.home() / ".cache"
    folder = cache / "memlease/roots" / f"{SUITE}-systemd-numpy"
    if folder.is_dir():
        return folder
    form = "$(CODENAME) $(REPO_URI)"
    targets = run("apt-get", "indextargets", "--format", form, "Created-By: Packages").stdout
    mirrors = [
        uri for name, _, uri in (t.partition(" ") for t in targets.splitlines()) if name == SUITE
    ]
    if not mirrors:
        raise UnavailableError(f"apt knows no archive of {SUITE}")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, partial, mirrors[0]],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        raise UnavailableError(f"debootstrap could not make it: {made.stdout[-500:]}")
    partial.rename(folder)
    return folder


class Machine:
    """Files first, then boot(); close() leaves nothing behind."""

    def __init__(self) -> None:
        system = cached_system()
        self._folder = Path(tempfile.mkdtemp(prefix="memlease-machine-"))
        self.root = self._folder / "root"
        self._log = self._folder / "console"
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0
        for name in ("root", "work"):
            (self._folder / name).mkdir()
        # Overlays do not go on overlays, which this folder's file system may be.
        must("mount", "-t", "tmpfs", "none", self._folder / "work")
        for name in ("upper", "scratch"):
            (self._folder / "work" / name).mkdir()
        work = self._folder / "work"
        layers = f"lowerdir={system},upperdir={work}/upper,workdir={work}/scratch"
        must("mount", "-t", "overlay", "-o", layers, "none", self.root)

    def _nspawn_command(self) -> list[str]:
        return [
            *("systemd-nspawn", "--quiet", "--keep-unit", "--register=no", "--console=pipe"),
            *(f"--directory={self.root}", "--private-network", "--link-journal=no"),
            f"--machine=memlease-{os.getpid()}",
        ]

    def must_before_boot(self, *command: str | Path) -> str:
        """Run a command in the system while nothing else runs: as in the making of an image."""
        ended = run(*self._nspawn_command(), *command, stdin=subprocess.DEVNULL)
        if ended.returncode and not ended.stdout:
            raise UnavailableError(f"systemd-nspawn cannot run here: {ended.stderr}")
        assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def boot(self) -> None:
        command = [*self._nspawn_command(), "--boot"]
        with self._log.open("ab") as log:
            self._nspawn = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        until(self._has_leader, f"systemd-nspawn starts: {self.console()}")
        until(self._has_booted, f"the machine boots: {self.console()}")

    def _has_leader(self) -> bool:
        if self._nspawn.poll() is not None:
            raise UnavailableError(f"systemd-nspawn cannot run here: {self.console()}")
        pid = self._nspawn.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in children:
            # Before it is systemd it is nspawn's own, or one that ends at once.
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(f"/proc/{child}/exe").endswith("/systemd"):
                    self._leader = int(child)
        return self._leader != 0

    def _has_booted(self) -> bool:
        state = self.run("systemctl", "is-system-running", "--wait").stdout.strip()
        return state in ("running", "degraded")

    def console(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    def command(
        self, *command: str | Path, user: int | str | None = None, **environment: str
    ) -> list[str]:
        """Return a command of this machine as one of ours."""
        enter = [
            "nsenter",
            f"--target={self._leader}",
            "--mount",
            "--uts",
            "--ipc",
            "--net",
            "--pid",
        ]
        enter += ["--root", "--wd=/", "env", "-i", "PATH=/usr/sbin:/usr/bin", "LANG=C.UTF-8"]
        enter += [f"{name}={value}" for name, value in environment.items()]
        if user is not None:
            enter += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return [*enter, *(str(word) for word in command)]

    def run(self, *command: str | Path, **options) -> subprocess.CompletedProcess[str]:
        return run(*self.command(*command, **options))

    def must(self, *command: str | Path, **options) -> str:
        return must(*self.command(*command, **options))

    def power_off(self) -> None:
        self.run("systemctl", "poweroff", "--no-block")
        self._nspawn.wait(DEADLINE_S)
        self._nspawn = None
        self._leader = 0

    def close(self) -> None:
        if self._nspawn is not None:
            self._nspawn.terminate()  # powers the machine off
            try:
                self._nspawn.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._nspawn.kill()
                self._nspawn.wait()
        for mounted in (self.root, self._folder / "work"):
            subprocess.run(["umount", "--lazy", mounted], check=False)
        shutil.rmtree(self._folder)
