"""What a reader's death does to the others, told apart from what its mere leaving does.

Bystanders come one at a time and sit down on their leases. In turns one is asked to leave, and one
is killed. The moments after each are compared, and with the moments before, when nobody goes.
"""

import json
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import NamedTuple

import numpy as np
from children import Child

LEAVES, KILLED = "leaves", "killed"
# A drift of the machine's speed falls on both kinds alike.
TURNS = (LEAVES, KILLED, KILLED, LEAVES)


class Visit(NamedTuple):
    end: str  # LEAVES or KILLED
    at_s: float  # when it went, on the clock that all processes share
    report: dict  # what the bystander had read by then


class Visits:
    """Not a thread: `step()` is called every now and then, and never waits."""

    def __init__(
        self, start: Callable[[str], Child], count: int, window_s: float, say: Callable[[str], None]
    ):
        self._start = start
        self._window_s = window_s
        self._say = say
        self._steps = self._run(count)
        self.done: list[Visit] = []

    def step(self) -> None:
        next(self._steps, None)

    def _run(self, count: int) -> Iterator[None]:
        for number, end in enumerate(islice(cycle(TURNS), count), 1):
            bystander = self._start(f"bystander{number}")
            while (held := bystander.said("holding ")) is None:
                bystander.check()
                yield
            yield from self._pause()
            bystander.check()
            report = json.loads(held.removeprefix("holding "))
            at_s = time.monotonic()
            if end == KILLED:
                bystander.kill()
                self._say(f"kill -9 of a reader, while it held version {report['held']:,}")
            else:
                bystander.close_input()
                self._say(f"a reader left, which had held version {report['held']:,}")
            yield from self._pause()
            if end == LEAVES:
                bystander.wait(timeout_s=30)
            self.done.append(Visit(end, at_s, report))

    def _pause(self) -> Iterator[None]:
        end_s = time.monotonic() + self._window_s
        while time.monotonic() < end_s:
            yield


def gaps_after(times_s: np.ndarray, visits: list[Visit], end: str, window_s: float) -> np.ndarray:
    """Return gaps between versions that lie in windows after visits of one kind, or reach in."""
    starts = [visit.at_s for visit in visits if visit.end == end]
    return _gaps(times_s, [(start, start + window_s) for start in starts])


def gaps_before(times_s: np.ndarray, visits: list[Visit], window_s: float) -> np.ndarray:
    """Return the same of the windows before, where a bystander sits and nobody comes or goes."""
    quiet = times_s[:, None] < np.array([visit.at_s for visit in visits])
    return np.concatenate(
        [
            _gaps(times_s[quiet[:, i]], [(visit.at_s - window_s, visit.at_s)])
            for i, visit in enumerate(visits)
        ]
    )


def _gaps(times_s: np.ndarray, windows: list[tuple[float, float]]) -> np.ndarray:
    gaps_s = np.diff(times_s)
    inside = np.zeros(len(gaps_s), bool)
    for begin, end in windows:
        inside |= (times_s[1:] > begin) & (times_s[:-1] < end)
    return gaps_s[inside]
