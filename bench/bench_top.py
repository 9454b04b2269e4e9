"""What `memleasectl top` takes of a core, on a terminal, with many arrays and two looks a second.

Beside it what the daemon takes meanwhile. Once nobody publishes, and once this process publishes
versions of all arrays in turn, so that each has a rate to sort by. Floors are the time itself.
"""

import os
import pty
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import ctl
import effort
import memlease

INTERVAL_S = 0.5
DRAWN = b"\x1b[J"  # the end of a screen
DEADLINE_S = 60


class Top:
    """A running `top` on a terminal of its own; a thread takes what it draws."""

    def __init__(self, directory: str) -> None:
        """Start it; its first screens are drawn."""
        self.fd, theirs = pty.openpty()
        command = ctl.command_of(directory, "top", "--interval", str(INTERVAL_S))
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs)
        os.close(theirs)
        self.screens = 0
        self.drawn = threading.Condition()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        self.wait_for_screens(2)

    def _read(self) -> None:
        rest = b""
        while True:
            try:
                text = rest + os.read(self.fd, 65536)
            except OSError:  # how Linux says that the other end is closed
                return
            with self.drawn:
                self.screens += text.count(DRAWN)
                self.drawn.notify_all()
            rest = text[-len(DRAWN) + 1 :]

    def wait_for_screens(self, more: int) -> None:
        """Return when so many more have been drawn."""
        with self.drawn:
            wanted = self.screens + more
            assert self.drawn.wait_for(lambda: self.screens >= wanted, DEADLINE_S)

    def end(self) -> None:
        """End it as a user does."""
        os.write(self.fd, b"q")
        assert self.process.wait(DEADLINE_S) == 0
        self.reader.join()
        os.close(self.fd)


def cpu_ns(pid: int) -> int:
    """Nanoseconds that a process has run, with threads that have ended."""
    clock = ~pid << 3 | 2  # as clock_getcpuclockid() makes it
    return time.clock_gettime_ns(clock)


def spent(
    pids: dict[str, int], screens: int, top: Top, meanwhile: Callable[[], None]
) -> dict[str, int]:
    """Nanoseconds of each process, and of the clock, in which so many screens are drawn."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            meanwhile()

    worker = threading.Thread(target=work)
    before = {name: cpu_ns(pid) for name, pid in pids.items()}
    begin = time.perf_counter_ns()
    worker.start()
    top.wait_for_screens(screens)
    took = time.perf_counter_ns() - begin
    after = {name: cpu_ns(pid) for name, pid in pids.items()}
    stop.set()
    worker.join()
    return {"time": took} | {name: after[name] - before[name] for name in pids}


def main() -> None:
    """Measure and print."""
    directory = effort.directory()
    arrays = effort.pick(10_000, 10_000, 20)
    screens = effort.pick(20, 8, 1)
    series: dict[str, list[float]] = {}
    with memlease.connect(directory, start=False) as client:
        kept = [
            client.create(f"bench/top/{number}", shape=64, dtype="u1", fill=0)
            for number in range(arrays)
        ]

        def publish() -> None:
            for array in kept:
                array.put(0)
            published[0] += len(kept)

        def rest() -> None:
            time.sleep(INTERVAL_S / 10)

        published = [0]
        top = Top(directory)
        daemon = int(Path(directory, "memleased.lock").read_text())
        pids = {"top": top.process.pid, "daemon": daemon}
        for _ in range(effort.blocks()):
            for state, meanwhile in (("idle", rest), ("published", publish)):
                for name, ns in spent(pids, screens, top, meanwhile).items():
                    series.setdefault(f"{name}.{state}", []).append(ns)
        top.end()
    assert published[0] > 0
    took_s = sum(series["time.published"]) / 1e9
    notes = {"arrays": str(arrays), "versions a second": f"{published[0] / took_s:.0f}"}
    effort.print_report("bench_top", series, notes)


if __name__ == "__main__":
    main()
