"""The example's readers' half of memlease: the ranks' surfaces, step by step, where the ranks are.

On the host and on a GPU alike nothing is copied, but by `on_host`, for what draws on the host.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import memlease
import numpy as np

TIMEOUT_S = 60.0
CUDA = 2  # DLPack's name for such a GPU


class Frame(NamedTuple):
    """One step. The parts are read leases: usable until the next frame is asked for."""

    version: int
    time_s: float
    duration_s: float
    parts: list[memlease.ReadLease]  # one per rank, from south to north


class SurfaceReader:
    """Follows the newest step of all ranks, and keeps count of what it saw, when and where."""

    def __init__(
        self,
        client: memlease.Client,
        ranks: int,
        name: str,
        stream_on: Callable[[int], Any] = lambda gpu: None,
    ):
        """Take what `stream_on` makes as the stream on a GPU; where it is None the host waits."""
        self._client = client
        self._surfaces = [client.wait_for(f"tsunami/rank{r}/surface") for r in range(ranks)]
        gpus = [surface.device_ordinal for surface in self._surfaces]
        self._stream_on = {gpu: stream_on(gpu) for gpu in set(gpus) - {None}}
        self._streams = [self._stream_on.get(gpu) for gpu in gpus]
        self._clock = client.wait_for("tsunami/clock")
        self._name = name
        self._times_s: list[float] = []
        self._pages: list[dict[int, str]] = [{} for _ in range(ranks)]
        self._skipped = 0
        self._mixed = 0  # frames whose ranks or clock were not of one step

    @property
    def rows(self) -> list[int]:
        return [surface.shape[0] for surface in self._surfaces]

    @property
    def streams(self) -> list[Any]:
        """Those that the leases begin and end with, one for each GPU."""
        return [stream for stream in self._stream_on.values() if stream is not None]

    @property
    def read(self) -> int:
        return len(self._times_s)

    def frames(self) -> Iterator[Frame]:
        """Yield the newest step, until the one that ends the simulation."""
        follower = self._surfaces[0].follow(timeout=TIMEOUT_S, stream=self._streams[0])
        with follower as newest:
            for south in newest:
                with ExitStack() as leases:
                    others = [
                        leases.enter_context(_at(surface, south.version, stream))
                        for surface, stream in zip(
                            self._surfaces[1:], self._streams[1:], strict=True
                        )
                    ]
                    clock = leases.enter_context(_at(self._clock, south.version))
                    time_s, duration_s = clock.array.tolist()
                    frame = Frame(south.version, time_s, duration_s, [south, *others])
                    self._note(frame, clock.version, newest.skipped)
                    yield frame
                if time_s >= duration_s:
                    return

    def report(self) -> dict:
        return {
            "name": self._name,
            "versions": self.read,
            "skipped": self._skipped,
            "mixed": self._mixed,
            "copies": self._client.copies,
            "pages": {rank: sorted(seen.values()) for rank, seen in enumerate(self._pages)},
            "times_s": self._times_s,
        }

    def save_report(self, folder: Path) -> None:
        (folder / f"{self._name}.json").write_text(json.dumps(self.report()))

    def _note(self, frame: Frame, clock_version: int, skipped: int) -> None:
        self._times_s.append(time.monotonic())
        self._skipped = skipped
        self._mixed += {part.version for part in frame.parts} != {clock_version}
        for part, seen in zip(frame.parts, self._pages, strict=True):
            if is_on_gpu(part):  # whose memory has no pages
                continue
            # One look for each slot: a slot's page never changes while the array is open.
            address = part.array.ctypes.data
            if address not in seen:
                seen[address] = page_of(address)


def is_on_gpu(part: memlease.ReadLease) -> bool:
    device, _ = part.__dlpack_device__()
    return device == CUDA


def on_host(part: memlease.ReadLease) -> np.ndarray:
    """Return what the host can touch: the ranks' own memory, or a copy of what is on a GPU."""
    return np.from_dlpack(part, device="cpu") if is_on_gpu(part) else part.array


def _at(array: memlease.Array, version: int, stream: Any = None) -> memlease.ReadLease:
    """Lease this version, which this rank publishes soon or has just published.

    Where it is gone already, the newest stands in and the frame counts as mixed.
    """
    try:
        return array.read(version=version, timeout=TIMEOUT_S, stream=stream)
    except memlease.VersionGone:
        return array.read(stream=stream)


def page_of(address: int) -> str:
    """Return `device:inode:offset` of the page behind an address.

    Every process on the machine sees the same: two processes for which this is equal look at the
    same bytes, whatever anybody's counters say.
    """
    with Path("/proc/self/maps").open() as maps:
        for line in maps:
            bounds, _, offset, device, inode = line.split()[:5]
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            if begin <= address < end:
                return f"{device}:{inode}:{int(offset, 16) + address - begin}"
    raise RuntimeError("an address of a lease is in no mapping of /proc/self/maps")
