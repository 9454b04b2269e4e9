"""iceoryx2: samples on loan, without a copy; an event wakes the receiver, unless it polls.

The payload is a slice of bytes: of a slice of floats, version 0.10.0 gives the size in bytes as
the number of its elements.
"""

import ctypes
from typing import Any

import iceoryx2
import numpy as np

from rivals.link import Answer, Inherited, Setting, Words, take


def open_node(setting: Setting) -> Any:
    """Files get names of their own. Those of sockets must be short: 77 characters follow these."""
    iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
    config = iceoryx2.config.default()
    config.global_cfg.root_path = iceoryx2.Path.new(setting.folder)
    config.global_cfg.prefix = iceoryx2.FileName.new(setting.tag)
    return iceoryx2.NodeBuilder.new().config(config).create(iceoryx2.ServiceType.Ipc)


def open_services(node: Any, name: str) -> tuple[Any, Any]:
    """One direction: its samples, and its event."""
    samples = (
        node.service_builder(iceoryx2.ServiceName.new(name))
        .publish_subscribe(iceoryx2.Slice[ctypes.c_uint8])
        .payload_alignment(iceoryx2.Alignment.new(8))
        .max_publishers(1)
        .max_subscribers(1)
        .subscriber_max_buffer_size(1)
        .subscriber_max_borrowed_samples(1)
        .open_or_create()
    )
    return samples, node.service_builder(iceoryx2.ServiceName.new(name)).event().open_or_create()


class Sender:
    def __init__(self, node: Any, name: str, size: int) -> None:
        samples, event = open_services(node, name)
        builder = samples.publisher_builder().initial_max_slice_len(size).max_loaned_samples(1)
        self.size = size
        self.publisher = builder.create()
        self.notifier = event.notifier_builder().create()
        self.sample: Any = None

    def loan(self) -> memoryview:
        self.sample = self.publisher.loan_slice_uninit(self.size)
        view: memoryview = self.sample.payload().as_memory_view()
        return view

    def send(self) -> None:
        self.sample.assume_init().send()
        self.notifier.notify()


class Receiver:
    def __init__(self, node: Any, name: str, polls: bool) -> None:
        samples, event = open_services(node, name)
        self.polls = polls
        self.subscriber = samples.subscriber_builder().create()
        self.listener = event.listener_builder().create()

    def receive(self) -> Any:
        while (sample := self.subscriber.receive()) is None:
            if not self.polls:
                self.listener.blocking_wait()
        return sample


class Producer:
    def __init__(self, setting: Setting, _inherited: Inherited) -> None:
        self.node = open_node(setting)
        self.arrays = Sender(self.node, f"{setting.name}/arrays", setting.size)
        self.answers = Receiver(self.node, f"{setting.name}/answers", setting.polls)

    def prepare(self) -> Words:
        return np.frombuffer(self.arrays.loan(), np.float32)

    def publish(self) -> None:
        self.arrays.send()

    def answer(self) -> Answer:
        sample = self.answers.receive()
        moment, total = np.frombuffer(sample.payload().as_memory_view(), np.int64).tolist()
        sample.delete()
        return moment, total

    def close(self) -> None:
        del self.arrays, self.answers, self.node


class Consumer:
    def __init__(self, setting: Setting, _inherited: Inherited) -> None:
        self.node = open_node(setting)
        self.arrays = Receiver(self.node, f"{setting.name}/arrays", setting.polls)
        self.answers = Sender(self.node, f"{setting.name}/answers", 16)

    def hand_over(self) -> None:
        sample = self.arrays.receive()
        answer = take(np.frombuffer(sample.payload().as_memory_view(), np.float32))
        sample.delete()
        np.frombuffer(self.answers.loan(), np.int64)[:] = answer
        self.answers.send()

    def close(self) -> None:
        del self.arrays, self.answers, self.node
