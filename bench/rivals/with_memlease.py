"""memlease: one array for the bytes, one for the answer."""

from typing import Any

import memlease

from rivals.link import Answer, Inherited, Setting, Words, take


class Newest:
    """Waits for an array's next version: asleep, or by looking again and again."""

    def __init__(self, array: Any, polls: bool) -> None:
        self.array = array
        self.polls = polls
        self.last = 0

    def read(self) -> Any:
        lease = None if self.polls else self.array.read(newer_than=self.last)
        while lease is None:
            lease = self.array.try_read(newer_than=self.last)
        self.last = lease.version
        return lease


class Producer:
    def __init__(self, setting: Setting, _inherited: Inherited) -> None:
        self.client = memlease.connect(setting.directory, start=False)
        self.array = self.client.create(setting.name, (setting.words,), "float32", slots=2)
        answers = self.client.wait_for(f"{setting.name}_answer")
        self.answers = Newest(answers, setting.polls)

    def prepare(self) -> Words:
        self.lease = self.array.write()
        return self.lease.array

    def publish(self) -> None:
        self.lease.publish()

    def answer(self) -> Answer:
        with self.answers.read() as lease:
            moment, total = lease.array.tolist()
        return moment, total

    def close(self) -> None:
        self.client.close()


class Consumer:
    def __init__(self, setting: Setting, _inherited: Inherited) -> None:
        self.client = memlease.connect(setting.directory, start=False)
        self.answers = self.client.create(f"{setting.name}_answer", (2,), "int64", slots=2)
        self.arrays = Newest(self.client.wait_for(setting.name), setting.polls)

    def hand_over(self) -> None:
        with self.arrays.read() as lease:
            answer = take(lease.array)
        with self.answers.write() as lease:
            lease.array[:] = answer

    def close(self) -> None:
        self.client.close()
