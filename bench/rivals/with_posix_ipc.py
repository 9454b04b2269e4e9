"""By hand: a block of shared memory, and two semaphores that say whose turn it is."""

import contextlib
import mmap
import os

import numpy as np
import posix_ipc

from rivals.link import Answer, Inherited, Setting, Words, take


class Block:
    """The bytes, the answer behind them, and the semaphores: either process may be the first."""

    def __init__(self, setting: Setting) -> None:
        self.name = f"/{setting.name}"
        size = setting.size + 16
        memory = posix_ipc.SharedMemory(self.name, posix_ipc.O_CREAT, size=size)
        self.map = mmap.mmap(memory.fd, size)
        os.close(memory.fd)
        self.words: Words = np.frombuffer(self.map, np.float32, setting.words)
        self.answer = np.frombuffer(self.map, np.int64, 2, setting.size)
        self.filled = posix_ipc.Semaphore(f"{self.name}_filled", posix_ipc.O_CREAT)
        self.answered = posix_ipc.Semaphore(f"{self.name}_answered", posix_ipc.O_CREAT)

    def close(self) -> None:
        del self.words, self.answer
        self.map.close()
        for semaphore in (self.filled, self.answered):
            semaphore.close()
            with contextlib.suppress(posix_ipc.ExistentialError):
                semaphore.unlink()
        with contextlib.suppress(posix_ipc.ExistentialError):
            posix_ipc.unlink_shared_memory(self.name)


class Producer:
    def __init__(self, setting: Setting, _inherited: Inherited) -> None:
        self.block = Block(setting)

    def prepare(self) -> Words:
        return self.block.words

    def publish(self) -> None:
        self.block.filled.release()

    def answer(self) -> Answer:
        self.block.answered.acquire()
        moment, total = self.block.answer.tolist()
        return moment, total

    def close(self) -> None:
        self.block.close()


class Consumer:
    def __init__(self, setting: Setting, _inherited: Inherited) -> None:
        self.block = Block(setting)

    def hand_over(self) -> None:
        self.block.filled.acquire()
        self.block.answer[:] = take(self.block.words)
        self.block.answered.release()

    def close(self) -> None:
        self.block.close()
