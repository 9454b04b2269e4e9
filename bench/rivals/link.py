"""What every way to hand an array over has, so that all do the same work.

Its module has two classes, each used by a process of its own, and made at the same time:

    Producer(setting, inherited)
        prepare()    the array to fill, of `setting.words` float32
        publish()    hands it over
        answer()     waits for the consumer's answer, and returns it
        close()
    Consumer(setting, inherited)
        hand_over()  waits for the array, gives it to take(), and answers with what that returns
        close()

Whatever fails may raise.
"""

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

Words = np.ndarray[Any, np.dtype[np.float32]]
Answer = tuple[int, int]  # when the consumer had the array, in ns of perf_counter; its sum


@dataclass(frozen=True)
class Inherited:
    """What both processes have from their start, for rivals without such means of their own."""

    queue: Any  # multiprocessing's
    pipe: Connection  # this process's end


@dataclass(frozen=True)
class Setting:
    """Of one pair of processes and one size."""

    directory: str  # of the sockets of a memlease daemon
    folder: str  # for files and sockets of all pairs; removed at the end
    tag: str  # short; files of /dev/shm whose names begin with it are removed at the end
    name: str  # begins with the tag, and no other pair and size has it
    words: int
    polls: bool

    @property
    def size(self) -> int:
        return 4 * self.words


def take(words: Words) -> Answer:
    """Read all bytes; what the consumer answers."""
    moment = time.perf_counter_ns()
    return moment, int(words.sum())
