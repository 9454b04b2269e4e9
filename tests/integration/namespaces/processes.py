"""A daemon and its clients, each in namespaces that the test chooses."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from pathlib import Path

BUILD = Path(os.environ.get("MEMLEASE_BUILD_DIR", "build/release")).absolute()
DEADLINE_S = 30.0


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return what a program gets: the stand-in's world is the GPU of all who share `folder`."""
    kept = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS") if name in os.environ}
    return kept | {
        "FAKECUDA_WORLD": str(folder / "world"),
        "LD_LIBRARY_PATH": str(BUILD / "fakecuda"),
        "LC_ALL": "C",
    } | more  # fmt: skip


def innermost(pid: int) -> int:
    """Return the process that another waits for: unshare's, or that of a container's runtime."""
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[-1])
    return pid


class Refused(Exception):  # noqa: N818 (an answer, not an error)
    """The code and text of an error."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Daemon:
    """A daemon in `folder`/run, which says when it serves."""

    def __init__(self, folder: Path, command: list[str], *options: str) -> None:
        self.folder = folder
        self.directory = folder / "run"
        self._log = folder / "log"
        self._notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notices.settimeout(DEADLINE_S)
        address = folder / "notify"
        self._notices.bind(str(address))
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, f"--directory={self.directory}", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment(folder, NOTIFY_SOCKET=str(address)),
            )  # fmt: skip
        try:
            self.hear("READY=1")
        except AssertionError:
            self.end()
            raise

    def hear(self, words: str) -> None:
        """Wait until it says so, as it would to systemd."""
        try:
            while words.encode() not in self._notices.recv(4096):
                pass
        except TimeoutError:
            raise AssertionError(f"the daemon does not say {words}: {self.log()}") from None

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def end(self) -> None:
        """Kill the daemon itself, too: not every runtime takes it along when it is killed."""
        self._notices.close()
        if self.process.poll() is None:
            os.kill(innermost(self.process.pid), signal.SIGKILL)
            self.process.kill()
        self.process.wait(DEADLINE_S)


class Peer:
    """A client that does what it is told: tests/support/peer_main.cc, tests/device/peer_main.cc."""

    def __init__(self, folder: Path, command: list[str], user: int = 0) -> None:
        self.process = subprocess.Popen(
            [*command, folder / "run", str(user), str(user), ""],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(folder),
        )  # fmt: skip
        self._unread = b""

    def say(self, line: str) -> None:
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Return the result of the oldest command without an answer, or raise Refused."""
        while b"\n" not in self._unread:
            ready = select.select([self.process.stdout], [], [], DEADLINE_S)[0]
            chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            assert chunk, "no answer in time" if not ready else "the client has ended"
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        kind, _, rest = line.decode().partition(" ")
        if kind == "ok":
            return rest
        raise Refused(*rest.split(" ", 1))

    def ask(self, line: str) -> str:
        self.say(line)
        return self.answer()

    def kill(self) -> None:
        """As kill -9 of the client itself, at which those end who started it for us."""
        os.kill(innermost(self.process.pid), signal.SIGKILL)
        self.process.wait(DEADLINE_S)

    def end(self) -> None:
        """Let it end by itself, unless it has been killed."""
        self.process.stdin.close()
        self.process.wait(DEADLINE_S)
        self.process.stdout.close()
