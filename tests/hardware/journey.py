"""Part 3: the whole way, as users go it: a daemon, a publisher in C++, workers in Python.

`journey.py LIBRARY` has the publisher's kernels fill one version after the other on cuda:0, and two
processes read each with the library; `journey.py example_LIBRARY` and `kernel_LIBRARY` run
examples of examples/gpu as they are, a worker and a kernel. Every value is checked, every exit
status, and that nothing is left over.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import say
from fakecuda_build import BUILD, IS_STAND_IN
from gpu_libraries import (
    KERNELS,
    LIBRARIES,
    environment,
    fault_of,
    follow_the_publisher,
    run_the_kernel,
)
from private_daemon import left_over, private_daemon

FIELD = "journey/field"
SHAPE = ("48", "64") if IS_STAND_IN else ("480", "640")
STEPS = 20  # versions that each worker sees before the next one
AT_ONCE = 200  # versions that are then published without a pause
_START_S = 40.0  # below the limit of a journey (parts.py), so that what hangs is told
_STEP_S = 30.0


class Program:
    """One that is told something by lines, and tells something by lines of JSON."""

    def __init__(self, name: str, *command: str | Path) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._told: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put(None)

    def tell(self, what: object) -> None:
        assert self._process.stdin is not None
        print(what, file=self._process.stdin, flush=True)

    def hear(self, limit_s: float = _STEP_S) -> Any:
        """Return what it says next; what is no JSON is kept for the story of a failure."""
        while True:
            try:
                line = self._lines.get(timeout=limit_s)
            except queue.Empty:
                raise AssertionError(self._story(f"says nothing for {limit_s:.0f} s")) from None
            if line is None:
                raise AssertionError(self._story(f"has ended with {self._process.wait()}"))
            with contextlib.suppress(ValueError):
                return json.loads(line)
            self._told.append(line)

    def end(self) -> None:
        """Close its input, and wait for its good end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STEP_S)
        status = self._process.returncode
        assert status == 0, self._story(
            "does not end" if status is None else f"ended with {status}"
        )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _story(self, what: str) -> str:
        return " | ".join([f"{self.name} {what}", *self._told[-3:]])


@contextlib.contextmanager
def _started(library: str) -> Iterator[tuple[Program, list[Program]]]:
    worker = Path(__file__).with_name("journey_worker.py")
    programs: list[Program] = []

    def start(name: str, *command: str | Path) -> Program:
        programs.append(Program(name, *command))
        return programs[-1]

    try:
        publisher = start("the publisher", BUILD / "tests/memlease_gpu_publisher", FIELD, *SHAPE)
        workers = [start(f"worker {nth}", sys.executable, worker, library, FIELD) for nth in (1, 2)]
        yield publisher, workers
    finally:
        for program in programs:
            program.kill()


def _check(worker: Program, seen: Any) -> int:
    version, low, high = seen
    assert low == high == version, f"{worker.name}: version {version} has {low} to {high}"
    return int(version)


def _see(worker: Program, last: int) -> int:
    """Check what a worker sees up to this version; return how many versions that were."""
    count = 1
    while _check(worker, worker.hear(_START_S if last == 1 else _STEP_S)) < last:
        count += 1
    return count


def with_library(library: str) -> str:
    """Publish by kernels of one process, and read by the library in two others."""
    with _started(library) as (publisher, workers):
        assert publisher.hear() == "ready"
        for worker in workers:
            assert worker.hear(_START_S) == "open"
        seen = 0
        for count in [1] * STEPS + [AT_ONCE]:
            publisher.tell(count)
            last = publisher.hear()
            seen += sum(_see(worker, last) for worker in workers)
        publisher.end()
        for worker in workers:
            assert worker.hear() == "withdrawn"
            worker.end()
    return f"2 processes saw {seen} times a version of {STEPS + AT_ONCE}, and all values were right"


def example(library: str) -> str:
    """Run the example of the library."""
    return f"{follow_the_publisher(library)} versions, and all values were right"


def kernel(library: str) -> str:
    """Run the library's sample of a kernel."""
    run_the_kernel(library)
    return "the kernel has made the next version, and all values were right"


CHECKS: dict[str, tuple[Callable[[str], str], str]] = {
    **{library: (with_library, library) for library in LIBRARIES},
    **{f"example_{library}": (example, library) for library in LIBRARIES},
    **{f"kernel_{library}": (kernel, library) for library in KERNELS},
}


def _done(check: Callable[[str], str], library: str) -> tuple[str, str]:
    """Do it with a daemon of its own, unless the library is not there, or broken."""
    with private_daemon() as directory:
        state, why = fault_of(library)
        if state:
            return state, why
        found = check(library)
        assert not (left := left_over(directory)), f"left over: {left}"
    return "passed", found


def main() -> None:
    """Do one check, and say how it went."""
    if len(sys.argv) == 1:
        say.names(list(CHECKS))
        return
    name = sys.argv[1]
    try:
        state, why = _done(*CHECKS[name])
    except Exception as error:  # that is the result
        state, why = "failed", say.reason(error)
    say.check(f"journey::{name}", state, why)
    os._exit(0)


if __name__ == "__main__":
    main()
