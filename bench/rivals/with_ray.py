"""Ray: the producer puts into the object store, its actor gets; the call's result is the answer."""

import logging
from typing import Any

import numpy as np
import ray

from rivals.link import Answer, Inherited, Setting, Words, take


@ray.remote
class Actor:
    def hand_over(self, references: list[Any]) -> Answer:
        """Take the array; its reference is in a list, so that the call does not resolve it."""
        return take(ray.get(references[0]))


class Producer:
    def __init__(self, setting: Setting, _inherited: Inherited) -> None:
        if not ray.is_initialized():
            ray.init(
                num_cpus=2,
                object_store_memory=2**30,
                include_dashboard=False,
                logging_level=logging.ERROR,
                log_to_driver=False,
                _temp_dir=setting.folder,
            )
        self.actor = Actor.remote()
        self.words: Words = np.zeros(setting.words, np.float32)

    def prepare(self) -> Words:
        return self.words

    def publish(self) -> None:
        self.result = self.actor.hand_over.remote([ray.put(self.words)])

    def answer(self) -> Answer:
        answer: Answer = ray.get(self.result)
        return answer

    def close(self) -> None:
        """End the actor; the local cluster ends with the process."""
        ray.kill(self.actor)


class Consumer:
    """The consumer is the actor, which Ray has in a process of its own."""

    def __init__(self, _setting: Setting, _inherited: Inherited) -> None:
        pass

    def hand_over(self) -> None:
        pass

    def close(self) -> None:
        pass
