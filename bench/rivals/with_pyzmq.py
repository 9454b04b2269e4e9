"""pyzmq: a pair of UNIX sockets; neither process copies in Python, the system does."""

import os
import struct

import numpy as np
import zmq

from rivals.link import Answer, Inherited, Setting, Words, take


class Socket:
    def __init__(self, setting: Setting) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.PAIR)
        self.socket.linger = 0
        self.address = f"ipc://{os.path.join(setting.folder, setting.name)}"

    def close(self) -> None:
        self.socket.close()
        self.context.term()


class Producer(Socket):
    def __init__(self, setting: Setting, _inherited: Inherited) -> None:
        super().__init__(setting)
        self.socket.bind(self.address)
        self.words: Words = np.zeros(setting.words, np.float32)

    def prepare(self) -> Words:
        return self.words

    def publish(self) -> None:
        self.socket.send(self.words, copy=False)

    def answer(self) -> Answer:
        moment, total = struct.unpack("qq", self.socket.recv())
        return moment, total


class Consumer(Socket):
    def __init__(self, setting: Setting, _inherited: Inherited) -> None:
        super().__init__(setting)
        self.socket.connect(self.address)

    def hand_over(self) -> None:
        frame = self.socket.recv(copy=False)
        self.socket.send(struct.pack("qq", *take(np.frombuffer(frame.buffer, np.float32))))
