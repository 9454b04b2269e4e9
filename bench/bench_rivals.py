"""A Python producer fills an array, a consumer sums it and answers: memlease and its rivals.

All do the same work in turns, block by block, each in two processes of its own. A rival that is
not installed, fails or hangs has no series, and a note that says why.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import effort
from rivals import KINDS, SIZES
from rivals.link import Setting
from rivals.pair import Pair, PairError

LIMIT = effort.pick(60.0, 60.0, 25.0)  # s, for each thing that a pair does
LIMIT_OF_ALL = effort.pick(800.0, 400.0, 45.0)  # s, after which nobody gets more time


class Contest:
    """The pairs that are still in it, and what they have measured."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.pairs: dict[str, Pair] = {}
        self.series: dict[str, list[float]] = {}
        self.notes: dict[str, str] = {}
        self.end = time.monotonic() + LIMIT_OF_ALL

    def start(self) -> None:
        for name, kind in KINDS.items():
            if importlib.util.find_spec(kind.package) is None:
                self.notes[name] = "not installed"
            else:
                self.notes[name] = importlib.metadata.version(kind.distribution)
                self.pairs[name] = Pair(f"rivals.{kind.module}")

    def each(self, act: Callable[[str, Pair], None]) -> None:
        """Whoever fails is out from here on."""
        for name, pair in list(self.pairs.items()):
            try:
                act(name, pair)
            except PairError as failure:
                self.notes[name] += f"; {failure}"
                self.pairs.pop(name).stop(0)

    def limit(self) -> float:
        return max(min(LIMIT, self.end - time.monotonic()), 0)

    def measure(self, size: str, size_bytes: int) -> None:
        words = size_bytes // 4
        self.each(lambda name, pair: pair.begin("open", self.setting(name, size, words)))
        self.each(lambda _, pair: pair.end(self.limit()))
        self.each(lambda _, pair: pair.order(self.limit(), "run", 3))  # maps the pages
        hand_overs = effort.pick(
            min(max(2**25 // words, 8), 300), min(max(2**23 // words, 3), 100), 1
        )
        figures: dict[str, list[Any]] = {}
        for _ in range(effort.blocks()):
            self.each(
                lambda name, pair: figures.setdefault(name, []).append(
                    pair.order(self.limit(), "run", hand_overs)
                )
            )
        for name in self.pairs:
            get, hand_over = zip(*figures[name], strict=True)
            self.series[f"{name}.get.{size}"] = list(get)
            self.series[f"{name}.hand_over.{size}"] = list(hand_over)
        self.each(lambda _, pair: pair.order(self.limit(), "close"))

    def setting(self, name: str, size: str, words: int) -> Setting:
        tag = os.path.basename(self.folder)
        return Setting(
            directory=effort.directory(),
            folder=self.folder,
            tag=tag,
            name=f"{tag}_{name}_{size}",
            words=words,
            polls=KINDS[name].polls,
        )

    def stop(self) -> None:
        for pair in self.pairs.values():
            pair.stop(min(self.limit(), 10))
        for left in Path("/dev/shm").glob(f"*{os.path.basename(self.folder)}*"):
            left.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def main() -> None:
    contest = Contest(tempfile.mkdtemp(prefix="ml", dir="/tmp"))  # short, for names of sockets
    try:
        contest.start()
        for size, size_bytes in SIZES.items():
            contest.measure(size, effort.pick(size_bytes, size_bytes, 2**12))
    finally:
        contest.stop()
    effort.print_report("bench_rivals", contest.series, contest.notes)


if __name__ == "__main__":
    main()
