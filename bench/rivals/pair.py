"""A producer and a consumer, two processes that can fail and hang without harm to the others."""

import multiprocessing
import os
import re
import signal
import time
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rivals.ends import Consuming, Producing, serve
from rivals.link import Inherited

SHARED = Path("/dev/shm")


class PairError(Exception):
    """A pair is of no more use; says why."""


def unnamed_files(pid: int | None) -> set[str]:
    """Name what a process has mapped of /dev/shm under names of zenoh's choice, which leaves it."""
    with suppress(OSError):
        return set(re.findall(rf"{SHARED}/\d+\.zenoh\b", Path(f"/proc/{pid}/maps").read_text()))
    return set()


def descendants(pid: int) -> list[int]:
    """List a process's children, theirs, and so on: Ray has a cluster of them."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found


class Pair:
    """The processes of one kind. Every order goes to both, and both answer."""

    def __init__(self, module: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.files: set[str] = set()  # to remove at the end
        self.processes: list[Any] = []
        self.orders: list[Connection] = []
        self.queue = context.Queue()  # it must outlive the start of those who inherit it
        for role, pipe in zip((Producing, Consuming), context.Pipe(), strict=True):
            mine, theirs = context.Pipe()
            arguments = (role, module, theirs, Inherited(self.queue, pipe))
            process = context.Process(target=serve, args=arguments)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.orders.append(mine)

    def begin(self, *order: Any) -> None:
        """Give an order: a method's name, and its arguments."""
        for orders in self.orders:
            with suppress(ConnectionError):
                orders.send(order)

    def end(self, limit: float) -> Any:
        """Wait for both answers; the producer's."""
        deadline = time.monotonic() + limit
        answers: dict[Connection, Any] = {}
        while missing := [orders for orders in self.orders if orders not in answers]:
            ready = wait(missing, max(deadline - time.monotonic(), 0))
            if not ready:
                raise PairError(f"no answer in {limit:.0f} s")
            for orders in ready:
                answers[orders] = self._answer(orders)
        self.files |= {f for process in self.processes for f in unnamed_files(process.pid)}
        return answers[self.orders[0]]

    def _answer(self, orders: Any) -> Any:
        try:
            failure, result = orders.recv()
        except (EOFError, ConnectionError):
            process = self.processes[self.orders.index(orders)]
            process.join(5)
            raise PairError(f"a process ended with {process.exitcode}") from None
        if failure:
            raise PairError(" ".join(failure.split())[:200])
        return result

    def order(self, limit: float, *order: Any) -> Any:
        self.begin(*order)
        return self.end(limit)

    def stop(self, patience: float) -> None:
        """End the processes and theirs, and remove files that nobody else knows of."""
        others: list[int] = []
        for pid in (pid for process in self.processes for pid in descendants(process.pid)):
            with suppress(ProcessLookupError):
                others.append(os.pidfd_open(pid))
        for orders in self.orders:
            orders.close()
        deadline = time.monotonic() + patience
        for process in self.processes:
            process.join(max(deadline - time.monotonic(), 0))
            process.kill()
            process.join()
        for other in others:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(other, signal.SIGKILL)
            os.close(other)
        for file in self.files:
            Path(file).unlink(missing_ok=True)
