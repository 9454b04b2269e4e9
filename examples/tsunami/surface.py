"""The example's readers' half of memlease: the ranks' surfaces, step by step, without copies."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import memlease
import numpy as np


class Frame(NamedTuple):
    """One step. The parts are read leases: usable until the next frame is asked for."""

    version: int
    time_s: float
    duration_s: float
    parts: list  # one per rank, from south to north


class SurfaceReader:
    """Follows the newest step of all ranks, and keeps count of what it saw, when and where."""

    def __init__(self, client, ranks: int, name: str):
        self._surfaces = [client.wait_for(f"tsunami/rank{r}/surface") for r in range(ranks)]
        self._clock = client.wait_for("tsunami/clock")
        self._name = name
        self._times_s: list[float] = []
        self._backings: list[set[str]] = [set() for _ in range(ranks)]
        self.skipped = 0
        self.mixed = 0  # frames whose ranks or clock were not of one step

    @property
    def rows(self) -> list[int]:
        return [surface.shape[0] for surface in self._surfaces]

    @property
    def read(self) -> int:
        return len(self._times_s)

    def frames(self) -> Iterator[Frame]:
        """Ends with the step that ends the simulation."""
        with self._surfaces[0].follow() as newest:
            for south in newest:
                with ExitStack() as leases:
                    others = [
                        leases.enter_context(_at(surface, south.version))
                        for surface in self._surfaces[1:]
                    ]
                    clock = leases.enter_context(_at(self._clock, south.version))
                    time_s, duration_s = np.asarray(clock).tolist()
                    frame = Frame(south.version, time_s, duration_s, [south, *others])
                    self._note(frame, clock.version, newest.skipped)
                    yield frame
                    del frame, clock, others
                if time_s >= duration_s:
                    return

    def save_report(self, folder: Path) -> None:
        report = {
            "name": self._name,
            "versions": self.read,
            "skipped": self.skipped,
            "mixed": self.mixed,
            "backings": {rank: sorted(seen) for rank, seen in enumerate(self._backings)},
            "times_s": self._times_s,
        }
        (folder / f"{self._name}.json").write_text(json.dumps(report))

    def _note(self, frame: Frame, clock_version: int, skipped: int) -> None:
        self._times_s.append(time.monotonic())
        self.skipped = skipped
        self.mixed += {part.version for part in frame.parts} != {clock_version}
        if self.read <= 64:  # every slot has had its turn by then
            for part, seen in zip(frame.parts, self._backings, strict=True):
                seen.add(backing_of(np.asarray(part)))


def _at(array, version: int):
    """A lease on this version: all ranks publish the same steps, at most one step apart. Where the
    step is not there yet, or gone already, a newer one stands in and the frame counts as mixed."""
    try:
        return array.read(version=version)
    except memlease.Error:
        return array.read(newer_than=version - 1, timeout=10)


def backing_of(array: np.ndarray) -> str:
    """`device:inode` of the memory behind an array, as every process on the machine sees it."""
    address = array.__array_interface__["data"][0]
    with Path("/proc/self/maps").open() as maps:
        for line in maps:
            bounds, _, _, device, inode = line.split()[:5]
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            if begin <= address < end:
                return f"{device}:{inode}"
    raise RuntimeError("an array's address is in no mapping of /proc/self/maps")
