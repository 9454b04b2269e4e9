"""Processes that a program starts, watches, and never leaves behind."""

import subprocess
import time
from pathlib import Path


class ChildError(RuntimeError):
    """A child ended as it should not have."""


class Child:
    """One process in a session of its own, so that Ctrl-C reaches it through us alone."""

    def __init__(self, name: str, command: list[str], log: Path, **options):
        self.name = name
        self._log = log
        with log.open("w") as file:
            self._process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, **options
            )

    def said(self, word: str) -> str | None:
        """Return the first line it printed that starts with `word`, if any."""
        lines = self._log.read_text().splitlines(keepends=True)
        whole = (line for line in lines if line.endswith("\n"))
        return next((line.strip() for line in whole if line.startswith(word)), None)

    def check(self) -> None:
        """Raise if it has failed; one that still runs or ended well is fine."""
        status = self._process.poll()
        if status:
            tail = "\n".join(self._log.read_text().splitlines()[-12:])
            raise ChildError(
                f"{self.name} ended with status {status}; the end of {self._log}:\n{tail}"
            )

    def wait(self, timeout_s: float) -> None:
        """Wait for a good end; raise otherwise."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ChildError(
                f"{self.name} had {timeout_s:.0f} s to finish and did not; see {self._log}"
            ) from None
        self.check()

    def close_input(self) -> None:
        self._process.stdin.close()

    def kill(self) -> None:
        """SIGKILL, as a crash or the kernel's memory killer would; returns once it is gone."""
        self._process.kill()
        self._process.wait()

    def stop(self, grace_s: float = 5) -> None:
        """End it, politely first: mpirun takes its ranks along. Nothing to do if it has ended."""
        if self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()


def wait_until(condition, children: list[Child], timeout_s: float, what: str) -> None:
    """Poll until `condition()`; raise if a child fails meanwhile or time is up."""
    end = time.monotonic() + timeout_s
    while not condition():
        for child in children:
            child.check()
        if time.monotonic() > end:
            raise ChildError(f"waited {timeout_s:.0f} s in vain until {what}")
        time.sleep(0.05)
