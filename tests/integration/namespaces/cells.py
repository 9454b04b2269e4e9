"""One cell of the matrix: a daemon and its clients, and what works between them."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from processes import BUILD, Daemon, Peer, Refused
from spaces import NAMES, unshared

# Who is in namespaces of its own. "each": the daemon and each client, in different ones.
SIDES = ("clients", "daemon", "each")
WORKS = "works"

# A program's command in namespaces of its own, where `folder` is shared.
Enter = Callable[..., list[str]]


@dataclass(frozen=True)
class Cell:
    side: str
    private: frozenset[str]

    def __str__(self) -> str:
        return f"{self.side}-{'+'.join(n for n in NAMES if n in self.private) or 'none'}"


@dataclass(frozen=True)
class Found:
    """`WORKS`, or the code of the error, for host arrays, and for GPU arrays with two drivers."""

    host: str
    gpu: str
    strict_gpu: str  # a driver that asks for one PID namespace and one /dev/shm


def all_cells() -> Iterator[Cell]:
    subsets = [
        frozenset(names)
        for count in range(len(NAMES) + 1)
        for names in itertools.combinations(NAMES, count)
    ]
    return (Cell(side, private) for private in subsets for side in SIDES)


def plain(folder: Path, *program: str | Path) -> list[str]:
    return unshared((), folder, *program)


def try_cell(cell: Cell) -> Found:
    def apart(folder: Path, *program: str | Path) -> list[str]:
        return unshared(cell.private, folder, *program)

    return try_between(
        plain if cell.side == "clients" else apart, plain if cell.side == "daemon" else apart
    )


def try_between(daemon_in: Enter, clients_in: Enter) -> Found:
    """Start a daemon and its clients, and say what they can do together."""
    with shared_folder() as folder, contextlib.ExitStack() as ends:
        fakecuda("create", folder / "world", 1)
        daemon = Daemon(folder, daemon_in(folder, BUILD / "bin/memleased"))
        ends.callback(daemon.end)

        def pair(program: str) -> Iterator[Peer]:
            for _ in range(2):
                peer = Peer(folder, clients_in(folder, BUILD / "tests" / program))
                ends.callback(peer.end)
                yield peer

        hosts, gpus = list(pair("memlease_peer")), list(pair("memlease_device_peer"))
        host = outcome(lambda: share_on_host(*hosts))
        gpu = outcome(lambda: share_on_gpu(*gpus, "mild"))
        fakecuda("set", folder / "world", "pid_namespace_matters", 1)
        fakecuda("set", folder / "world", "shm_matters", 1)
        gpus = list(pair("memlease_device_peer"))  # the first have all open
        return Found(host, gpu, outcome(lambda: share_on_gpu(*gpus, "strict")))


def outcome(work: Callable[[], None]) -> str:
    try:
        work()
    except Refused as refused:
        return refused.code
    return WORKS


def share_on_host(writer: Peer, reader: Peer) -> None:
    """Read what another wrote, sleep until it writes more, and go on when it is killed."""
    writer.say("connect")
    reader.ask("connect")
    writer.answer()
    writer.ask("create a 3 600 4096 persistent")
    writer.ask("put a 5000")
    assert reader.ask("read a 0 5000").split()[0] == "1"
    reader.say("read a 1 10000")  # sleeps
    writer.ask("put a 5000")
    assert reader.answer().split()[0] == "2"
    assert reader.ask("verify a") == "2"
    writer.ask("write a 5000")
    writer.kill()  # and its turn is over at once; version 3 there is none
    assert reader.ask("put a 5000").split()[0] == "4"


def share_on_gpu(writer: Peer, reader: Peer, array: str) -> None:
    """Compute on what another computes, in the order of the GPU."""
    for peer in (writer, reader):
        peer.ask("connect")
    writer.ask(f"create {array} 3 4096 cuda:0")
    for value in (5, 6):
        writer.ask(f"write {array} w")
        writer.ask(f"fill {array} {value} w")
        writer.ask(f"publish {array}")
        reader.ask(f"read {array} r")
        reader.ask(f"look {array} {value} r")
        reader.ask(f"release {array}")
        assert reader.ask("mismatches r") == "0"


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """Make a folder that a private /dev/shm does not hide, since it is bound into it."""
    folder = Path(tempfile.mkdtemp(prefix="memlease-spaces-", dir="/dev/shm"))
    (folder / "world").mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def fakecuda(*arguments: object) -> None:
    program = BUILD / "fakecuda/fakecuda"
    assert program.exists(), f"no CUDA stand-in in {program.parent}: CMake said why"
    subprocess.run([program, *map(str, arguments)], check=True)
