"""ADIOS2's SST: a stream between two processes, step by step.

A stream has one direction: the answer comes by a pipe, which takes little beside a step. The
reader fetches the data itself: where the writer sends them unasked, as it does to begin with, a
step takes 44 ms, which is TCP's delayed acknowledgement.
"""

import os
from typing import Any

import numpy as np
from adios2 import Adios, bindings

from rivals.link import Answer, Inherited, Setting, Words, take


class Stream:
    def __init__(self, setting: Setting, mode: Any) -> None:
        self.adios = Adios()
        self.io = self.adios.declare_io("arrays")
        self.io.set_engine("SST")
        self.io.set_parameters({"SpeculativePreloadMode": "OFF"})
        self.words: Words = np.zeros(setting.words, np.float32)
        self.engine = self.io.open(os.path.join(setting.folder, setting.name), mode)

    def close(self) -> None:
        self.engine.close()


class Producer(Stream):
    def __init__(self, setting: Setting, inherited: Inherited) -> None:
        super().__init__(setting, bindings.Mode.Write)
        self.answers = inherited.pipe
        count = [setting.words]
        self.variable = self.io.define_variable("words", self.words, count, [0], count)

    def prepare(self) -> Words:
        return self.words

    def publish(self) -> None:
        self.engine.begin_step()
        self.engine.put(self.variable, self.words)
        self.engine.end_step()

    def answer(self) -> Answer:
        answer: Answer = self.answers.recv()
        return answer


class Consumer(Stream):
    def __init__(self, setting: Setting, inherited: Inherited) -> None:
        super().__init__(setting, bindings.Mode.Read)
        self.answers = inherited.pipe

    def hand_over(self) -> None:
        if self.engine.begin_step() != bindings.StepStatus.OK:
            raise RuntimeError("the stream has no next step")
        self.engine.get(self.io.inquire_variable("words"), self.words)
        self.engine.end_step()
        self.answers.send(take(self.words))
