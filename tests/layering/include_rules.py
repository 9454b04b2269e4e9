"""Who may include whom: the architecture as a table, and what breaks it.

An include names its file from the root of the tree, or a header of the public API. A layer is a
folder, or some files of one; it may include itself and what stands beside it here. Every folder
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

# Parts of a folder that are layers of their own: the file without its extension -> layer.
FILES = {
    "proto/wire/convert": "proto/wire/convert",
    "cuda/loader": "cuda/loader",
    "cuda/run_path": "cuda/loader",
    "server/acceptor": "server/loop",
    "server/event_loop": "server/loop",
    "server/background": "server/config",
    "server/config": "server/config",
    "server/config_file": "server/config",
    "server/config_flags": "server/config",
    "server/config_option": "server/config",
    "server/directory": "server/config",
    "server/daemon": "server/daemon",
    "server/main": "server/main",
    "client/connect": "client/connect",
    "client/daemon_starter": "client/connect",
    "client/version": "client/version",
    "client/rpc/admin_stub": "client/rpc/admin_stub",
    "client/core/directory": "client/core/directory",
    "client/core/connect_socket": "client/core/connect_socket",
}
# Two files of the client's core that memleasectl shares with it.
PLACES = {"client/core/directory", "client/core/connect_socket"}

WIRE = {"proto/wire", "absl", "fmt", "system"}
RPC = WIRE | {"proto/wire/convert", "generated", "grpc"}
SERVER_ADAPTER = WIRE | {"server/core", "server/loop"}
CLIENT_ADAPTER = WIRE | {"client/core", "client/include"} | PLACES

# Layer -> what it may include beside itself and the C++ standard library.
ALLOWED: dict[str, set[str]] = {
    "proto/wire": WIRE,
    "proto/wire/convert": WIRE | {"generated", "grpc"},
    # libmemlease_cuda.so: needs nothing of ours.
    "cuda": {"cudart", "system"},
    "cuda/loader": WIRE | {"cuda"},
    "server/core": WIRE,
    "server/loop": WIRE,
    "server/telemetry": {"fmt", "spdlog", "system"},
    "server/config": WIRE | {"server/telemetry", "cli11", "toml"},
    "server/device": SERVER_ADAPTER | {"cuda", "cuda/loader"},
    "server/channel": SERVER_ADAPTER,
    "server/rpc": SERVER_ADAPTER | RPC | {"server/telemetry"},
    "server/daemon": SERVER_ADAPTER
    | {"server/device", "server/channel", "server/rpc", "server/telemetry", "server/config"},
    "server/main": WIRE
    | {"server/daemon", "server/config", "server/loop", "server/telemetry", "systemd"},
    "client/include": set(),
    "client/version": {"client/include"},
    "client/core": WIRE | {"client/include"} | PLACES,
    "client/core/directory": WIRE | {"client/include", "client/core"} | PLACES,
    "client/core/connect_socket": WIRE | PLACES,
    "client/channel": CLIENT_ADAPTER,
    "client/rpc": CLIENT_ADAPTER | RPC,
    "client/rpc/admin_stub": WIRE | RPC | PLACES,
    "client/device": CLIENT_ADAPTER | {"cuda", "cuda/loader"},
    "client/connect": CLIENT_ADAPTER | {"client/channel", "client/device", "client/rpc"},
    "client/views": {"client/include", "dlpack"},
    # The admin stub answers in messages, so that whoever prints them knows their types.
    "client/ctl": WIRE
    | PLACES
    | {
        "client/include",
        "client/rpc/admin_stub",
        "proto/wire/convert",
        "generated",
        "cli11",
        "cuda",
        "cuda/loader",
    },
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
    "systemd": "systemd",
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
    exact = FILES.get(path.rpartition(".")[0])
    if exact is not None:
        return exact
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
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        parts = name.split("/")
        if path.suffix not in SOURCES or parts[0] in NOT_OURS or parts[0].startswith("."):
            continue
        layer = layer_of(name)
        if layer is None:
            yield Violation(name, 0, "is in no known layer: give it one in include_rules.py")
        elif layer not in FREE:
            yield from violations_in(name, layer, path.read_text().splitlines())


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
