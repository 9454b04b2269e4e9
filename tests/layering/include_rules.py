"""Who may include whom: what docs/architecture.md draws, and the libraries of each layer.

An include names its file from the root of the tree, or a header of the public API. A layer is a
folder; it may include itself and what is drawn beside it. Every folder
with C++ in it must be drawn, so that a new one is a decision and not an accident.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".h", ".cc", ".c", ".cpp", ".hpp", ".cu", ".cuh"}
NOT_OURS = {"build", "dist", "node_modules"}

# Folders that may include anything.
FREE = ("tests", "bench", "examples")

DRAWING = Path(__file__).resolve().parents[2] / "docs/architecture.md"
ARROW = re.compile(r"^([\w/]+) +->((?:(?:,\n|,)? +[\w/]+)*)$", re.MULTILINE)

# Layer -> the libraries that it may include beside the C++ standard library.
LIBRARIES: dict[str, set[str]] = {
    "wire": {"absl", "fmt", "system"},
    "wire/hooks": set(),
    "wire/grpc": {"absl", "fmt", "grpc", "system"},
    "cuda": {"absl", "fmt", "system"},
    "cuda/plugin": {"cudart", "system"},
    "server/core": {"absl", "fmt", "system"},
    "server/loop": {"absl", "fmt", "system"},
    "server/telemetry": {"fmt", "spdlog", "system"},
    "server/config": {"absl", "cli11", "fmt", "system", "toml"},
    "server/scrape": {"absl", "fmt", "system"},
    "server/gate": {"absl", "system"},
    "server/device": {"absl", "fmt", "system"},
    "server/channel": {"absl", "fmt", "system"},
    "server/rpc": {"absl", "fmt", "grpc", "system"},
    "server/report": {"fmt", "system"},
    "server": {"absl", "fmt", "system"},
    "client/include": {"cuda headers"},  # by nvcc alone
    "client/slots": {"absl", "system"},
    "client/session": {"absl", "fmt", "system"},
    "client/ordering": {"absl", "fmt"},
    "client/arrays": {"absl", "fmt", "system"},
    "client/api": {"absl", "fmt", "system"},
    "client/socket": {"absl", "fmt", "system"},
    "client/channel": {"absl", "fmt", "system"},
    "client/rpc": {"absl", "fmt", "grpc", "system"},
    "client/cuda": {"absl", "fmt"},
    "client": {"absl", "fmt", "system"},
    "client/admin": {"absl", "grpc", "system"},
    "client/views": {"dlpack"},
    "client/ctl": {"absl", "cli11", "fmt", "system"},
    "python/bindings": {"pybind11", "system"},
}


def drawn(page: str) -> dict[str, set[str]]:
    """Read a page's drawing: of each layer, those of ours that it may include."""
    blocks = page.split("```")[1::2]
    arrows = (arrow for block in blocks for arrow in ARROW.finditer(block))
    return {arrow[1]: set(re.findall(r"[\w/]+", arrow[2])) for arrow in arrows}


# Layer -> what it may include beside itself and the C++ standard library.
ALLOWED = {
    layer: included | LIBRARIES[layer] for layer, included in drawn(DRAWING.read_text()).items()
}

# First part of an include's path -> the library that it belongs to.
LIBRARY_OF = {
    "absl": "absl",
    "fmt": "fmt",
    "grpc": "grpc",
    "grpcpp": "grpc",
    "google": "grpc",
    "spdlog": "spdlog",
    "CLI": "cli11",
    "toml++": "toml",
    "dlpack": "dlpack",
    "pybind11": "pybind11",
    "Python.h": "pybind11",
    "cuda_runtime_api.h": "cudart",
    "sys": "system",
    "linux": "system",
    "netinet": "system",
    "arpa": "system",
}


@dataclasses.dataclass(frozen=True)
class Violation:
    file: str
    line: int  # 0: the file itself
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def layer_of(path: str) -> str | None:
    """Tell the layer of a file of ours, by its path from the root; None if it is in none."""
    for whole in (*FREE, "client/include"):
        if path.startswith(whole + "/"):
            return whole
    folder = path.rpartition("/")[0]
    return folder if folder in ALLOWED else None


def target_of(bracket: str, name: str) -> str | None:
    """Tell the layer or library that an include leads to; None if it is not known."""
    first = name.partition("/")[0]
    if name.startswith("memlease/v1/"):
        return "proto"
    if name.startswith("cuda/std/") or re.fullmatch(r"cuda_(fp16|bf16|fp8)\.h", name):
        return "cuda headers"
    if first == "memlease":
        return "client/include"
    if first in LIBRARY_OF:
        return LIBRARY_OF[first]
    if "/" in name:
        return layer_of(name)
    if bracket == "<":
        return "system" if name.endswith(".h") else "standard"
    return None


def layered(root: Path) -> Iterator[tuple[Path, str | None]]:
    """Find our files of C and C++ with their layers, without those that may include anything."""
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        top = name.partition("/")[0]
        if path.suffix not in SOURCES or top in NOT_OURS or top.startswith("."):
            continue
        if (layer := layer_of(name)) not in FREE:
            yield path, layer


def violations(root: Path) -> Iterator[Violation]:
    # A header and its source count as one file.
    includes: dict[str, set[str]] = {}
    files: dict[str, str] = {}
    for path, layer in layered(root):
        name = path.relative_to(root).as_posix()
        if layer is None:
            yield Violation(name, 0, "is in no known layer: draw one in docs/architecture.md")
        else:
            lines = path.read_text().splitlines()
            yield from violations_in(name, layer, lines)
            found = (match[2] for line in lines if (match := INCLUDE.match(line)) is not None)
            includes.setdefault(_unit(name), set()).update(map(_unit, found))
            files.setdefault(_unit(name), name)
    for circle in circles(includes):
        yield Violation(files[circle[0]], 0, f"is in a circle of includes: {', '.join(circle)}")


def _unit(name: str) -> str:
    name = name.rpartition(".")[0]
    return f"client/include/{name}" if name.startswith("memlease/") else name


def circles(includes: dict[str, set[str]]) -> Iterator[list[str]]:
    """Find the sets of files that include each other, perhaps by way of others."""
    reached: dict[str, set[str]] = {}
    for start in includes:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            for included in includes.get(ahead.pop(), set()) - seen:
                seen.add(included)
                ahead.append(included)
        reached[start] = seen
    told: set[str] = set()
    for name in sorted(includes):
        circle = sorted(it for it in includes if it in reached[name] and name in reached[it])
        if len(circle) > 1 and name not in told:
            told.update(circle)
            yield circle


def violations_in(name: str, layer: str, lines: list[str]) -> Iterator[Violation]:
    for number, included, target in targets_in(lines):
        if target is None:
            yield Violation(name, number, f"includes {included}, which is in no known layer")
        elif target not in {layer, "standard"} | ALLOWED[layer]:
            yield Violation(name, number, f"{layer} may not include {target} ({included})")


def targets_in(lines: list[str]) -> Iterator[tuple[int, str, str | None]]:
    """Find a file's includes: each one's line, name, and layer or library."""
    for number, line in enumerate(lines, 1):
        if (found := INCLUDE.match(line)) is not None:
            yield number, found[2], target_of(found[1], found[2])


def unused(root: Path) -> dict[str, set[str]]:
    """Tell what each layer may include and no file of it does."""
    left = {layer: set(allowed) for layer, allowed in ALLOWED.items()}
    for path, layer in layered(root):
        for _, _, target in targets_in(path.read_text().splitlines()):
            if layer is not None and target is not None:
                left[layer].discard(target)
    return {layer: targets for layer, targets in left.items() if targets}
