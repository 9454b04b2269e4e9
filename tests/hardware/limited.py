"""Commands with a time limit, of which nothing is left: each has a keeper (keeper.py)."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_KEEPER = Path(__file__).with_name("keeper.py")
_LIFE, _OURS = os.pipe()  # all keepers see its end, however this process ends
_KEPT = 1 << 20  # of the bytes that a command writes, the last ones
_LONGEST_LINE = 1 << 16
_VERDICT = re.compile(rb"\0(-?\d+|limit|silence|stopped)$")


@dataclasses.dataclass
class Ended:
    """How a command has ended.

    Attributes
    ----------
    status : int or None
        The exit status, or minus the signal that killed it; None if it was killed by its keeper.
    output : str
        What it wrote, errors too: all of it, or the last MiB or two.
    how : str
        Why it was killed.
    """

    status: int | None
    output: str
    how: str = ""

    @property
    def ok(self) -> bool:
        return self.status == 0

    def why(self) -> str:
        """Say in a line or some why it is not ok."""
        return f"{self.how or _told(self.status)}\n{self.output[-3000:]}".strip()


def _told(status: int | None) -> str:
    if status is not None and status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"


def stop() -> None:
    """End all commands, and those to come at once. A signal handler may call it, once."""
    os.close(_OURS)


def run(
    arguments: Sequence[str | Path],
    limit_s: float,
    environment: dict[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    silence_s: float | None = None,
) -> Ended:
    """Run a command to its end, or kill it and all that it has started.

    Threads may do that at once. `on_line` gets each line that it writes, as it comes; what writes
    nothing for `silence_s` is killed, too.
    """
    limit_s = max(limit_s, 0.1)
    silence_s = silence_s or limit_s
    limits = [str(limit_s), str(silence_s)]
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", _KEEPER, str(_LIFE), *limits, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        pass_fds=[_LIFE],
        start_new_session=True,
    )
    written = bytearray()
    with keeper:
        assert keeper.stdout is not None
        while line := keeper.stdout.readline(_LONGEST_LINE):
            written += line
            if len(written) > 2 * _KEPT:
                del written[:-_KEPT]
            if on_line and line.endswith(b"\n"):
                on_line(line.decode(errors="replace"))
    verdict = _VERDICT.search(written)
    output = (written[: verdict.start()] if verdict else written).decode(errors="replace")
    match verdict[1].decode() if verdict else "":
        case "":
            return Ended(None, output, "its keeper was killed")
        case "limit":
            return Ended(None, output, f"ran past its time limit of {limit_s:.0f} s")
        case "silence":
            return Ended(None, output, f"ran past its time limit of {silence_s:.0f} s")
        case "stopped":
            return Ended(None, output, "was stopped")
        case status:
            return Ended(int(status), output)
