"""A Python producer fills 1 KiB to 1 GiB, a consumer gets it and sums it, with rivals."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import shared_memory
from multiprocessing.connection import Connection
from typing import Any

import effort
import memlease
import numpy as np

Words = np.ndarray[Any, np.dtype[np.int64]]
# A sender: prepare() gives the words to fill, send() sends them. A receiver: receive(use) calls
# use(words) while they are there.
Sender = tuple[Callable[[], Words], Callable[[], None]]
Receiver = Callable[[Callable[[Words], None]], None]

SIZES = {"1KiB": 10, "32KiB": 15, "1MiB": 20, "16MiB": 24, "256MiB": 28, "1GiB": 30}


@contextmanager
def memlease_sender(name: str, words: int, _pipe: Connection, _queue: Any) -> Iterator[Sender]:
    client = memlease.connect(effort.directory(), start=False)
    array = client.create(f"bench/{name}", shape=(words,), dtype="int64", slots=2)
    lease: Any = None

    def prepare() -> Words:
        nonlocal lease
        lease = array.write()
        filled: Words = lease.array
        return filled

    yield prepare, lambda: lease.publish()
    array.close()


@contextmanager
def memlease_receiver(name: str, _words: int, _pipe: Connection, _queue: Any) -> Iterator[Receiver]:
    client = memlease.connect(effort.directory(), start=False)
    array = client.wait_for(f"bench/{name}")
    last = 0

    def receive(use: Callable[[Words], None]) -> None:
        nonlocal last
        with array.read(newer_than=last) as lease:
            last = lease.version
            use(lease.array)

    yield receive


@contextmanager
def shared_memory_sender(_: str, words: int, pipe: Connection, _queue: Any) -> Iterator[Sender]:
    """Send the block's name; its bytes stay where they are."""
    block = shared_memory.SharedMemory(create=True, size=words * 8)
    yield lambda: np.ndarray((words,), np.int64, block.buf), lambda: pipe.send(block.name)
    block.close()
    block.unlink()


@contextmanager
def shared_memory_receiver(_: str, words: int, pipe: Connection, _queue: Any) -> Iterator[Receiver]:
    def receive(use: Callable[[Words], None]) -> None:
        block = shared_memory.SharedMemory(pipe.recv())
        use(np.ndarray((words,), np.int64, block.buf))
        block.close()

    yield receive


@contextmanager
def pipe_sender(_: str, words: int, pipe: Connection, _queue: Any) -> Iterator[Sender]:
    array = np.zeros(words, np.int64)
    yield lambda: array, lambda: pipe.send_bytes(array)


@contextmanager
def pipe_receiver(_: str, words: int, pipe: Connection, _queue: Any) -> Iterator[Receiver]:
    array = np.zeros(words, np.int64)

    def receive(use: Callable[[Words], None]) -> None:
        pipe.recv_bytes_into(array)
        use(array)

    yield receive


@contextmanager
def torch_sender(_: str, words: int, _pipe: Connection, queue: Any) -> Iterator[Sender]:
    import torch

    tensor = torch.zeros(words, dtype=torch.int64).share_memory_()
    yield tensor.numpy, lambda: queue.put(tensor)


@contextmanager
def torch_receiver(_: str, _words: int, _pipe: Connection, queue: Any) -> Iterator[Receiver]:
    yield lambda use: use(queue.get().numpy())


ENDS: dict[str, tuple[Any, Any]] = {
    "memlease": (memlease_sender, memlease_receiver),
    "shared_memory": (shared_memory_sender, shared_memory_receiver),
    "pipe": (pipe_sender, pipe_receiver),
    "torch": (torch_sender, torch_receiver),
}


def sizes(kinds: list[str]) -> Iterator[tuple[str, int, list[str]]]:
    """(name, words, kinds), in the order that both ends keep."""
    for size, exponent in SIZES.items():
        bounded = [k for k in kinds if k != "pipe" or exponent <= 28]
        if exponent <= effort.pick(30, 24, 30):
            yield size, 2 ** (effort.pick(exponent, exponent, 10) - 3), bounded


def steps(words: int, kinds: list[str]) -> Iterator[tuple[str, int, int]]:
    """(kind, messages, block); block -1 maps the pages."""
    rounds = min(max(effort.pick(2**24, 2**22, 1) // words, 1), effort.pick(100, 20, 1))
    for block in range(-1, effort.blocks()):
        for kind in kinds:
            yield kind, 2 if block < 0 else rounds, block


def consume(all_kinds: list[str], pipe: Connection, acks: Connection, queue: Any) -> None:
    """Receive, and answer with (ns when it was here, ns when it was summed)."""
    for size, words, kinds in sizes(all_kinds):
        with ExitStack() as stack:
            ends = {
                kind: stack.enter_context(ENDS[kind][1](f"{kind}/{size}", words, pipe, queue))
                for kind in kinds
            }
            for kind, messages, block in steps(words, kinds):
                for _ in range(messages):
                    acks.send(take(ends[kind], words, block + 2))


def take(receive: Receiver, words: int, value: int) -> tuple[int, int]:
    moments = [0, 0]

    def use(array: Words) -> None:
        moments[0] = time.perf_counter_ns()
        total = int(array.sum())
        moments[1] = time.perf_counter_ns()
        if total != value * words:
            raise ValueError("a message brought other bytes")

    receive(use)
    return moments[0], moments[1]


def produce(
    all_kinds: list[str], pipe: Connection, acks: Connection, queue: Any
) -> dict[str, list[float]]:
    """Send everything; the series."""
    series: dict[str, list[float]] = {}
    for size, words, kinds in sizes(all_kinds):
        with ExitStack() as stack:
            ends = {
                kind: stack.enter_context(ENDS[kind][0](f"{kind}/{size}", words, pipe, queue))
                for kind in kinds
            }
            for kind, messages, block in steps(words, kinds):
                samples = []
                for _ in range(messages):
                    ends[kind][0]()[:] = block + 2
                    start = time.perf_counter_ns()
                    ends[kind][1]()
                    samples.append(np.array(acks.recv()) - start)
                if block < 0:
                    continue
                for what, ns in zip(("get", "get_and_sum"), np.median(samples, 0), strict=True):
                    series.setdefault(f"{kind}.{what}.{size}", []).append(float(ns))
    return series


def main() -> None:
    kinds = list(ENDS)
    notes = {}
    context: Any = multiprocessing.get_context("spawn")
    try:
        from torch import multiprocessing as torch_multiprocessing

        context = torch_multiprocessing.get_context("spawn")
    except ImportError:
        kinds.remove("torch")
        notes["torch.multiprocessing"] = "not installed"
    queue = context.Queue()
    there, mine = context.Pipe(duplex=False)
    answers, acks = context.Pipe(duplex=False)
    worker = context.Process(target=consume, args=(kinds, there, acks, queue), daemon=True)
    worker.start()
    series = produce(kinds, mine, answers, queue)
    worker.join()
    effort.print_report("bench_py_bytes", series, notes)


if __name__ == "__main__":
    main()
