"""Do the tests see a wrong program? Changes a copy of the tree, one thing at a time, and runs them.

faults.py planted [--minutes N] [--only WORDS]
                                   each fault of planted.toml must make a test fail
faults.py mutants [--minutes N] [--seed N]
                                   small changes at random in wire/, server/core and client/slots:
                                   how many of them are found

Both go on where an earlier run has stopped, as long as the sources are the same: what was found is
in build/faults. The exit code is 1 if a planted fault is not found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import copy_of_tree
import mutants

_FAULTS = Path(__file__).parent / "planted.toml"
_BOOKS = copy_of_tree.ROOT / "build/faults"
# Those that take seconds at most, and with what they test: of the rest a mutant would take minutes.
_QUICK = ("test_wire", "test_attach_frame", "test_slot_steps", "test_slots", "test_server_core")
_QUICK += ("test_client_parts", "test_channel", "test_client_threads", "test_simulation")


def planted() -> list[dict[str, Any]]:
    """Return the faults of planted.toml."""
    return tomllib.loads(_FAULTS.read_text())["fault"]


class Book:
    """What each change has come to, kept between runs of the same sources."""

    def __init__(self, name: str, sources: str) -> None:
        self._path = _BOOKS / f"{name}.json"
        known = json.loads(self._path.read_text()) if self._path.exists() else {}
        same = known.get("sources") == sources
        self._sources = sources
        self.results: dict[str, str] = known["results"] if same else {}

    def note(self, change: str, found: str) -> None:
        """Write it down at once."""
        self.results[change] = found
        self._path.write_text(
            json.dumps({"sources": self._sources, "results": self.results}, indent=1)
        )


def _sources() -> str:
    """Return a digest of the copy's sources and tests."""
    digest = hashlib.sha256()
    for folder in ("wire", "server", "client", "tests"):
        for path in sorted((copy_of_tree.COPY / folder).rglob("*")):
            if path.is_file():
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _first_failing(programs: Sequence[str]) -> str:
    return next((it for name in programs if (it := copy_of_tree.failing(name))), "")


def _check_that_all_passes(programs: Sequence[str]) -> None:
    if not copy_of_tree.build(programs):
        sys.exit("the sources do not compile without a fault, either")
    if failed := _first_failing(programs):
        sys.exit(f"without a fault there is one that fails, too: {failed}")


def _plant(book: Book, until: float, only: str) -> int:
    faults = [it for it in planted() if only in it["what"]]
    _check_that_all_passes(sorted({name for it in faults for name in it["programs"]}))
    for fault in faults:
        what = fault["what"]
        if book.results.get(what) or time.monotonic() > until:
            continue
        before = (copy_of_tree.COPY / fault["file"]).read_text()
        with copy_of_tree.changed(fault["file"], before.replace(fault["old"], fault["new"])):
            if not copy_of_tree.build(fault["programs"]):
                sys.exit(f"{what}: it does not compile")
            book.note(what, _first_failing(fault["programs"]))
        by = book.results[what]
        print(f"found: {what}: {by}" if by else f"NOT FOUND: {what}", flush=True)
    tried = [it["what"] for it in faults if it["what"] in book.results]
    found = sum(bool(book.results[what]) for what in tried)
    left = len(faults) - len(tried)
    print(
        f"{found} of {len(tried)} planted faults are found"
        + f", {left} are to be tried" * bool(left)
    )
    return 0 if found == len(tried) else 1


def _untried(book: Book, seed: int) -> Iterator[mutants.Mutant]:
    every = mutants.every(copy_of_tree.COPY)
    random.Random(seed).shuffle(every)
    return (it for it in every if str(it) not in book.results)


def _mutate(book: Book, until: float, seed: int) -> int:
    _check_that_all_passes(_QUICK)
    for mutant in _untried(book, seed):
        if time.monotonic() > until:
            break
        with copy_of_tree.changed(mutant.file, mutant.text(copy_of_tree.COPY)):
            compiles = copy_of_tree.build(_QUICK)
            found = _first_failing(_QUICK) if compiles else "does not compile"
        book.note(str(mutant), found)
        print(f"{found or 'LIVES'}: {mutant}", flush=True)
    ran = [it for it in book.results.values() if it != "does not compile"]
    found_ones = sum(bool(it) for it in ran)
    print(f"{found_ones} of {len(ran)} mutants are found: {found_ones / max(1, len(ran)):.0%}")
    return 0


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("planted", "mutants"))
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="faults that have this in their words")
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    copy_of_tree.make()
    book = Book(given.what, _sources())
    if given.what == "planted":
        return _plant(book, until, given.only)
    return _mutate(book, until, given.seed)


if __name__ == "__main__":
    sys.exit(main())
