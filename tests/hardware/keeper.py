"""Runs one command, of which nothing outlives its end, its time limit or the one who asked for it.

    keeper.py LIFE SECONDS SILENT_SECONDS COMMAND [ARGUMENT...]

LIFE is the read end of a pipe that nobody writes to: it ends when the asker closes it or dies, even
by SIGKILL. What the command writes goes to standard output, and after it a zero byte and a word:
the exit status, `limit`, `silence` if it has written nothing for so long, or `stopped`.

It is a subreaper: whatever the command started becomes its child, in whatever session or process
group that is. It is in a session of its own, so that who kills the asker's group does not kill it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_AT_ONCE = 1 << 16  # bytes, before the time limit is looked at again
_PIPE = 1 << 20  # as many as a pipe may hold
_KILLED_WITHIN_S = 5  # what hangs in the driver may not die at all


def _start(command: list[str], output: int) -> int:
    """Start it; it is killed if this process is."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # without it, a group is killed: see _end
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored_by_python, signal.SIG_DFL)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _reap(statuses: dict[int, int]) -> bool:
    """Note who has ended; false if there is no child any more."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            statuses[ended[0]] = os.waitstatus_to_exitcode(ended[1])
        return True
    return False


def _children() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def _end(command: int, statuses: dict[int, int]) -> None:
    """Kill all descendants: the orphans of a child that dies become children in their turn."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(command, signal.SIGKILL)
    end = time.monotonic() + _KILLED_WITHIN_S
    while _reap(statuses) and time.monotonic() < end:
        for child in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.001)


def _relay(output: int, most: int) -> bool:
    """Pass on some of what there is; false if there is nothing."""
    try:
        data = os.read(output, most)
    except BlockingIOError:
        return False
    _write(data)
    return bool(data)


def _write(data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # the asker is gone, which shows in LIFE
        while data:
            data = data[os.write(1, data) :]  # less than all if a signal comes


def _keep(life: int, limit_s: float, silence_s: float, command: list[str]) -> str:
    output, theirs = os.pipe()
    awake, wake = os.pipe()
    for fd in (output, awake, wake):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    heard = time.monotonic()
    end = heard + limit_s
    pid, statuses = _start(command, theirs), {}
    os.close(theirs)
    sources = [life, awake, output]
    while (left := min(end, heard + silence_s) - time.monotonic()) > 0:
        ready = select.select(sources, [], [], left)[0]
        if output in ready:
            heard = time.monotonic()
            if not _relay(output, _AT_ONCE):
                sources.remove(output)  # nobody can write to it any more
        signals = os.read(awake, 64) if awake in ready else b""
        if life in ready or set(signals) - {signal.SIGCHLD}:
            verdict = "stopped"
            break
        _reap(statuses)
        if pid in statuses:
            verdict = str(statuses[pid])
            break
    else:
        verdict = "limit" if time.monotonic() >= end else "silence"
    _end(pid, statuses)
    _relay(output, _PIPE)
    return verdict


def main() -> None:
    life, limit_s, silence_s, *command = sys.argv[1:]
    os.set_inheritable(int(life), False)
    verdict = _keep(int(life), float(limit_s), float(silence_s), command)
    _write(b"\0" + verdict.encode())


if __name__ == "__main__":
    main()
