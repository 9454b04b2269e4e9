"""Which mutexes there are, and whether docs/locks.md has a row for each of them.

One that says it may be held over a wait (wire/held_mutexes.h) is among the page's exceptions, too.
One that says it may be held over other locks has its place among these in the row, too, and the
row says which: each of them comes later, or is a leaf. Each other row says "leaf".

A row's first cell names the mutex as `Class::member_`, or `name` where it belongs to no class, or
`function`'s where it is a static variable of a function; and its file, or that of the row above.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = "docs/locks.md"
FOLDERS = ("client", "server", "wire", "cuda", "python/bindings")
# spdlog wants a standard mutex.
STANDARD = ("wire/mutex.h", "server/telemetry/log.cc")

MUTEX = re.compile(
    r"^(\s*)(?:static |mutable )*wire::Mutex&? (\w+)"
    r"(?: = [^;]*| ABSL_\w+\(.*\)|\{([^}]*)\})?;"
)
PLACE = re.compile(r"HeldOverLocks\((\d+)\)")
OTHER = re.compile(r"std::(?:\w+_)?mutex\b|absl::Mutex\b|pthread_mutex_t\b")
OWNER = re.compile(r"^(?:class|struct) (?:\w+\(?\)? )*?([\w:]+)(?: final)?(?: :.*)? \{$")
FUNCTION = re.compile(r"^[\w:<>*&][\w:<>*& ]*?\b([\w:]+)\([^;]*$")
ROW = re.compile(r"^\| (?!\*\*|mutex |---)(.*?) \|")


LEAF = sys.maxsize


@dataclasses.dataclass(frozen=True)
class Mutex:
    file: str
    line: int
    name: str  # as a row gives it
    held_over_waits: bool = False
    place: int = LEAF  # among those that are held over others


def _place(over: str) -> int:
    place = PLACE.search(over)
    return int(place[1]) if place else LEAF


def mutexes(root: Path) -> Iterator[Mutex]:
    for file, lines in _sources(root):
        owner = ""
        for number, line in enumerate(lines, 1):
            if line == "};" or line == "}":
                owner = ""
            elif (start := OWNER.match(line)) is not None:
                owner = f"{start[1]}::"
            elif (start := FUNCTION.match(line)) is not None:
                owner = f"{start[1]}("
            found = MUTEX.match(line)
            if found is None:
                continue
            indent, name, over = found.groups(default="")
            if not indent:
                named = f"`{name}`"
            elif owner.endswith("("):
                named = f"`{owner[:-1]}`'s"
            else:
                named = f"`{owner}{name}`"
            yield Mutex(file, number, named, "kHeldOverWaits" in over, _place(over))


@dataclasses.dataclass(frozen=True)
class Row:
    file: str
    name: str
    place: int
    under: tuple[str, ...]  # the names of those that are taken under it


def rows(page: str) -> Iterator[Row]:
    file = ""
    for line in page.splitlines():
        row = ROW.match(line)
        if row is None:
            continue
        if (path := re.search(r"`([\w/]+\.(?:h|cc))`", row[1])) is not None:
            file = path[1]
        name = re.match(r"`[\w:]+`(?:'s)?", row[1])
        if name is not None:
            under = line.rstrip(" |").rpartition(" | ")[2]
            place = re.match(r"(\d+)", under)
            names = tuple(re.findall(r"`[\w:]+`(?:'s)?", under))
            yield Row(file, name[0], int(place[1]) if place else LEAF, names)


def violations(root: Path) -> Iterator[str]:
    page = (root / PAGE).read_text()
    table = {(row.file, row.name): row for row in rows(page)}
    places = {row.name: row.place for row in table.values()}
    exceptions = page.partition("\n## Exceptions\n")[2]
    there = list(mutexes(root))
    for mutex in there:
        row = table.pop((mutex.file, mutex.name), None)
        if row is None:
            yield f"{mutex.file}:{mutex.line}: {mutex.name} has no row in {PAGE}"
        elif row.place != mutex.place:
            yield f"{mutex.file}:{mutex.line}: {mutex.name} has another place in {PAGE}"
        else:
            for under in row.under:
                if places.get(under, LEAF) <= row.place:
                    yield f"{mutex.file}:{mutex.line}: {mutex.name} comes after {under}"
        if mutex.held_over_waits and mutex.name not in exceptions:
            yield f"{mutex.file}:{mutex.line}: {mutex.name} is not among the exceptions of {PAGE}"
    for file, name in sorted(table):
        yield f"{PAGE}: {name} is not in {file}"
    for file, lines in _sources(root):
        if not file.startswith(STANDARD):
            for number, line in enumerate(lines, 1):
                if OTHER.search(line.partition("//")[0]):
                    yield f"{file}:{number}: not a wire::Mutex, so Clang does not check it"


def _sources(root: Path) -> Iterator[tuple[str, list[str]]]:
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".h", ".cc"}:
                yield path.relative_to(root).as_posix(), path.read_text().splitlines()
