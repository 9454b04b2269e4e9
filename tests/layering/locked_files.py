"""Print the files that see a wire::Mutex, in what they include, too; Clang checks them in lint.

With --libraries: include lines for the headers of abseil and fmt that these files include, and for
standard headers that most of them have. Clang reads those once for all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import include_rules

FOLDERS = ("client", "server", "wire", "cuda", "python/bindings")
LIBRARIES = ("absl/", "fmt/")
STANDARD = ("chrono", "functional", "mutex", "string", "unordered_map", "vector")


def includes(root: Path) -> dict[str, set[str]]:
    """Return each source file's includes, by their paths from the root where they are ours."""
    found: dict[str, set[str]] = {}
    for folder in FOLDERS:
        for path in (root / folder).rglob("*"):
            if path.suffix in {".h", ".cc"}:
                lines = map(include_rules.INCLUDE.match, path.read_text().splitlines())
                names = {line[2] for line in lines if line is not None}
                found[path.relative_to(root).as_posix()] = {
                    f"client/include/{name}" if name.startswith("memlease/") else name
                    for name in names
                }
    return found


def reached(file: str, of: dict[str, set[str]]) -> set[str]:
    """Everything that a file includes, by way of others, too."""
    seen: set[str] = set()
    ahead = [file]
    while ahead:
        new = of.get(ahead.pop(), set()) - seen
        seen |= new
        ahead += new
    return seen


def locked_files(root: Path) -> dict[str, set[str]]:
    """Return the sources that see a mutex, with what they include."""
    of = includes(root)
    all_of = {file: reached(file, of) for file in sorted(of) if file.endswith(".cc")}
    return {file: names for file, names in all_of.items() if "wire/mutex.h" in names}


def main() -> None:
    found = locked_files(Path(__file__).resolve().parents[2])
    if sys.argv[1:] == ["--libraries"]:
        names = {name for names in found.values() for name in names if name.startswith(LIBRARIES)}
        print("\n".join(f"#include <{name}>" for name in sorted(names | set(STANDARD))))
    else:
        print("\n".join(found))


if __name__ == "__main__":
    main()
