"""torch.multiprocessing: a shared tensor, handed over by a queue; a pipe for the answer.

Its queue is that of multiprocessing: torch.multiprocessing teaches it how to send a tensor.
"""

import torch
import torch.multiprocessing

from rivals.link import Answer, Inherited, Setting, Words, take


class Producer:
    def __init__(self, setting: Setting, inherited: Inherited) -> None:
        self.inherited = inherited
        self.tensor = torch.zeros(setting.words, dtype=torch.float32).share_memory_()

    def prepare(self) -> Words:
        words: Words = self.tensor.numpy()
        return words

    def publish(self) -> None:
        self.inherited.queue.put(self.tensor)

    def answer(self) -> Answer:
        answer: Answer = self.inherited.pipe.recv()
        return answer

    def close(self) -> None:
        del self.tensor


class Consumer:
    def __init__(self, _setting: Setting, inherited: Inherited) -> None:
        self.inherited = inherited

    def hand_over(self) -> None:
        self.inherited.pipe.send(take(self.inherited.queue.get().numpy()))

    def close(self) -> None:
        pass
