"""Commands with a time limit, in process groups of their own, of which nothing is left."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import tempfile
from pathlib import Path


@dataclasses.dataclass
class Ended:
    """How a command has ended: its exit status, None after its time limit, and what it wrote."""

    status: int | None
    output: str

    @property
    def ok(self) -> bool:
        return self.status == 0

    def why(self) -> str:
        """Say in a line or some why it is not ok."""
        how = "ran past its time limit" if self.status is None else f"exit status {self.status}"
        return f"{how}\n{self.output[-3000:]}".strip()


def run(
    arguments: list[str | Path], limit_s: float, environment: dict[str, str] | None = None
) -> Ended:
    """Run a command to its end, or kill it and all that it has started."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                [str(it) for it in arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return Ended(127, str(error))
        status: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(max(limit_s, 0.1))
        with contextlib.suppress(ProcessLookupError):  # what it left behind, or it itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        return Ended(status, output.read().decode(errors="replace"))
