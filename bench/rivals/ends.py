"""The two processes of a pair: each does what it is told, and says how it went."""

import importlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from rivals.link import Inherited, Setting

Block = tuple[float, float]  # medians: ns until the consumer has the array; ns of a whole hand-over


class Producing:
    """Runs in the producer's process."""

    def __init__(self, module: Any, inherited: Inherited) -> None:
        self.module = module
        self.inherited = inherited
        self.value = 0

    def open(self, setting: Setting) -> None:
        self.setting = setting
        self.end = self.module.Producer(setting, self.inherited)

    def run(self, hand_overs: int) -> Block:
        blocks = [self._hand_over() for _ in range(hand_overs)]
        got, whole = zip(*blocks, strict=True)
        return statistics.median(got), statistics.median(whole)

    def _hand_over(self) -> tuple[int, int]:
        self.value = self.value % 200 + 1  # small: float32 sums it exactly
        start = time.perf_counter_ns()
        self.end.prepare()[:] = self.value
        filled = time.perf_counter_ns()
        self.end.publish()
        moment, total = self.end.answer()
        whole = time.perf_counter_ns() - start
        if total != self.value * self.setting.words:
            raise ValueError("other bytes came than were sent")
        return moment - filled, whole

    def close(self) -> None:
        self.end.close()
        del self.end


class Consuming:
    """Runs in the consumer's process."""

    def __init__(self, module: Any, inherited: Inherited) -> None:
        self.module = module
        self.inherited = inherited

    def open(self, setting: Setting) -> None:
        self.end = self.module.Consumer(setting, self.inherited)

    def run(self, hand_overs: int) -> None:
        for _ in range(hand_overs):
            self.end.hand_over()

    def close(self) -> None:
        self.end.close()
        del self.end


def serve(role: Callable[..., Any], module: str, orders: Connection, inherited: Inherited) -> None:
    """Take orders until there are no more; an answer is (failure or "", result)."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the report has standard output to itself
    end = None
    with suppress(EOFError, ConnectionError):
        while True:
            order, *arguments = orders.recv()
            failure, result = "", None
            try:
                end = end or role(importlib.import_module(module), inherited)
                result = getattr(end, order)(*arguments)
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
            orders.send((failure, result))
