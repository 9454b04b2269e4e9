"""What the hot calls cost from Python, against a C call that does nothing and against rivals.

Each case that hands a view over has a twin that reads all of its bytes.
"""

import multiprocessing
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import shared_memory
from typing import Any

import effort
import memlease
import numpy as np

SHAPE = (1024,)


def ns_of(
    statement: str,
    names: dict[str, Any],
    rounds: int,
    clock: Callable[[], int] = time.thread_time_ns,
) -> float:
    """Nanoseconds of one execution of a statement, less those of the loop around it.

    In processor time, which other load on the machine disturbs less; for what waits for another
    process give time.perf_counter_ns. The statement stands in the loop itself: a function around
    it would cost more than some of the statements.
    """
    loop, empty = (
        timeit.Timer(text, timer=clock, globals=names).timeit(rounds)
        for text in (statement, "pass")
    )
    return (loop - empty) / rounds


# (series, statement, how many fewer rounds than for the cheapest).
STATEMENTS = [
    ("noop", "noop()", 1),
    ("hold", "read().release()", 10),
    ("with", "with read(): pass", 10),
    ("with.view", "with read() as lease: lease.array", 10),
    ("with.sum", "with read() as lease: lease.array.sum()", 20),
    ("publish", "write().publish()", 10),
    ("try_read", "try_read(newer_than=last)", 10),
    ("put", "put(elements)", 10),
    ("get", "get(elements)", 10),
    ("put.by_name", "client.put('bench/py/named', elements)", 100),
    ("get.by_name", "client.get('bench/py/named', elements)", 100),
]


@contextmanager
def shared_memory_case(sums: bool) -> Iterator[Callable[[], Any]]:
    """Attach to a block of multiprocessing.shared_memory, make an array over it, let go."""
    block = shared_memory.SharedMemory(create=True, size=int(np.prod(SHAPE)) * 4)

    def attach() -> None:
        mine = shared_memory.SharedMemory(block.name)
        array = np.ndarray(SHAPE, np.float32, mine.buf)
        if sums:
            array.sum()
        del array
        mine.close()

    try:
        yield attach
    finally:
        block.close()
        block.unlink()


def echo(incoming: Any, outgoing: Any) -> None:
    """Send back what comes, until nothing does."""
    while (item := incoming.get()) is not None:
        outgoing.put(item[0].item())


@contextmanager
def torch_case() -> Iterator[Callable[[], Any]]:
    """Send a tensor through a queue of torch.multiprocessing, and one number back."""
    import torch
    from torch import multiprocessing as torch_multiprocessing

    context = torch_multiprocessing.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    worker = context.Process(target=echo, args=(there, back), daemon=True)
    worker.start()
    tensor = torch.zeros(SHAPE, dtype=torch.float32).share_memory_()

    def round_trip() -> None:
        there.put(tensor)
        back.get()

    try:
        round_trip()  # the worker has started
        yield round_trip
    finally:
        there.put(None)
        worker.join()


def answer(directory: str, there: str, back: str) -> None:
    """Publish each version of one array's first number as a version of another, until one is -1."""
    with memlease.connect(directory, start=False) as client:
        incoming, outgoing = client.wait_for(there), client.wait_for(back)
        for lease in incoming.follow():
            with lease:
                value = float(lease.array[0])
            with outgoing.write() as reply:
                reply.array[0] = value
            if value < 0:
                return


@contextmanager
def round_trip_case(client: memlease.Client, directory: str) -> Iterator[Callable[[], Any]]:
    """Do the same through two arrays."""
    there = client.create("bench/py/there", shape=SHAPE, dtype="float32")
    back = client.create("bench/py/back", shape=SHAPE, dtype="float32")
    worker = multiprocessing.get_context("spawn").Process(
        target=answer, args=(directory, there.name, back.name), daemon=True
    )
    worker.start()
    last = 0

    def round_trip(value: float = 1.0) -> None:
        nonlocal last
        with there.write() as lease:
            lease.array[0] = value
        with back.read(newer_than=last) as lease:
            last = lease.version

    try:
        round_trip()
        yield round_trip
    finally:
        round_trip(-1.0)
        worker.join()


def main() -> None:
    directory = effort.directory()
    rounds = effort.pick(1_000_000, 100_000, 100)
    slow_rounds = effort.pick(2_000, 300, 3)
    series: dict[str, list[float]] = {}
    notes: dict[str, str] = {}
    client = memlease.connect(directory, start=False)
    array = client.create("bench/py", shape=SHAPE, dtype="float32")
    elements = np.zeros(SHAPE, np.float32)
    array.put(elements)
    names = {
        "noop": [].__len__, "read": array.read, "write": array.write, "try_read": array.try_read,
        "put": array.put, "get": array.get, "client": client, "elements": elements, "last": 1 << 48,
    }  # fmt: skip
    rivals: list[tuple[str, Any]] = [
        ("shared_memory.attach", shared_memory_case(False)),
        ("shared_memory.attach.sum", shared_memory_case(True)),
        ("round_trip", round_trip_case(client, directory)),
    ]
    try:
        import torch  # noqa: F401

        rivals.append(("torch.round_trip", torch_case()))
    except ImportError:
        notes["torch.multiprocessing"] = "not installed"
    with ExitStack() as stack:
        entered = [(name, stack.enter_context(case)) for name, case in rivals]
        for _ in range(effort.blocks()):
            for name, statement, fewer in STATEMENTS:
                ns = ns_of(statement, names, rounds // fewer)
                series.setdefault(name, []).append(ns)
            for name, call in entered:
                ns = ns_of("call()", {"call": call}, slow_rounds, time.perf_counter_ns)
                series.setdefault(name, []).append(ns)
    effort.print_report("bench_py", series, notes)


if __name__ == "__main__":
    main()
