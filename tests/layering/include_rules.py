"""Who may include whom: the architecture as a table, and what breaks it.

An include names its file from the root of the tree, or a header of the public API. A layer is a
folder; it may include itself and the layers beside it here. Every folder
with C++ in it must be known, so that a new one is a decision and not an accident.
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

WIRE = {"wire", "absl", "fmt", "system"}
RPC = WIRE | {"wire/grpc", "generated", "grpc"}
SERVER_ADAPTER = WIRE | {"server/core", "server/loop"}
# Each client layer, with those under it.
SLOTS = WIRE | {"wire/hooks"}
SESSION = WIRE | {"wire/hooks", "client/include"}
ORDERING = SESSION | {"client/slots", "client/session"}
ARRAYS = ORDERING | {"client/ordering"}
API = ARRAYS | {"client/arrays"}

# Layer -> what it may include beside itself and the C++ standard library.
ALLOWED: dict[str, set[str]] = {
    "wire": WIRE,
    "wire/hooks": set(),
    "wire/grpc": WIRE | {"generated", "grpc"},
    "cuda": WIRE,
    # libmemlease_cuda.so: needs nothing of ours but its table.
    "cuda/plugin": {"cuda", "cudart", "system"},
    "server/core": WIRE | {"wire/hooks"},
    "server/loop": WIRE,
    "server/telemetry": WIRE | {"spdlog"},
    "server/config": WIRE | {"server/core", "server/telemetry", "cli11", "toml"},
    "server/scrape": WIRE | {"server/loop"},
    "server/gate": SERVER_ADAPTER,
    "server/device": SERVER_ADAPTER | {"cuda"},
    "server/channel": SERVER_ADAPTER,
    "server/rpc": SERVER_ADAPTER | RPC | {"server/telemetry", "server/gate"},
    # What operators are shown of all the others.
    "server/report": SERVER_ADAPTER
    | {"server/rpc", "server/gate", "server/telemetry", "server/config", "server/scrape"},
    # The composition root: main.cc and the daemon.
    "server": SERVER_ADAPTER
    | {"server/device", "server/channel", "server/rpc", "server/telemetry", "server/config"}
    | {"server/report", "server/scrape"},
    "client/include": {"cuda headers"},  # by nvcc alone
    "client/slots": SLOTS,
    "client/session": SESSION,
    "client/ordering": ORDERING,
    "client/arrays": ARRAYS,
    "client/api": API,
    "client/socket": WIRE,
    "client/channel": SESSION | {"client/session", "client/socket"},
    "client/rpc": SESSION | RPC | {"client/session", "client/socket"},
    "client/cuda": ORDERING | {"client/ordering", "cuda"},
    # The composition root: connect.cc, and the sessions that it has made.
    "client": API | {"client/api", "client/channel", "client/cuda", "client/rpc", "client/socket"},
    "client/admin": WIRE | RPC | {"client/socket"},
    "client/views": {"client/include", "dlpack"},
    # The admin stub answers in messages, so that whoever prints them knows their types.
    "client/ctl": WIRE
    | {"client/include", "client/admin", "client/socket", "cuda"}
    | {"wire/grpc", "generated", "cli11"},
    "python/bindings": {"client/include", "client/views", "dlpack", "pybind11", "system"},
}

# First part of an include's path -> the library that it belongs to.
LIBRARIES = {
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
        return "generated"
    if name.startswith("cuda/std/") or re.fullmatch(r"cuda_(fp16|bf16|fp8)\.h", name):
        return "cuda headers"
    if first == "memlease":
        return "client/include"
    if first in LIBRARIES:
        return LIBRARIES[first]
    if "/" in name:
        return layer_of(name)
    if bracket == "<":
        return "system" if name.endswith(".h") else "standard"
    return None


def violations(root: Path) -> Iterator[Violation]:
    # A header and its source count as one file.
    includes: dict[str, set[str]] = {}
    files: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        parts = name.split("/")
        if path.suffix not in SOURCES or parts[0] in NOT_OURS or parts[0].startswith("."):
            continue
        layer = layer_of(name)
        if layer is None:
            yield Violation(name, 0, "is in no known layer: give it one in include_rules.py")
        elif layer not in FREE:
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
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line)
        if found is None:
            continue
        target = target_of(found[1], found[2])
        if target is None:
            yield Violation(name, number, f"includes {found[2]}, which is in no known layer")
        elif target not in {layer, "standard"} | ALLOWED[layer]:
            yield Violation(name, number, f"{layer} may not include {target} ({found[2]})")
