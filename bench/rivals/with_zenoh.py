"""zenoh, with its shared memory between two peers that know each other.

Its Python package gives no view of that memory: one copy goes in, one comes out.
"""

import json
import os
import struct
import time
from typing import Any

import numpy as np
import zenoh
from zenoh import shm

from rivals.link import Answer, Inherited, Setting, Words, take


def open_session(setting: Setting, endpoints: str) -> Any:
    """Of a peer that looks for nobody else: it listens, or connects."""
    address = f"unixsock-stream/{os.path.join(setting.folder, setting.name)}"
    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("listen/endpoints", "[]")
    config.insert_json5(endpoints, json.dumps([address]))
    config.insert_json5("transport/shared_memory/enabled", "true")
    return zenoh.open(config)


def open_publisher(session: Any, key: str) -> Any:
    """Return it when it has its subscriber."""
    publisher = session.declare_publisher(
        key, congestion_control=zenoh.CongestionControl.BLOCK, express=True
    )
    while not publisher.matching_status.matching:
        time.sleep(0.01)
    return publisher


class Producer:
    def __init__(self, setting: Setting, _inherited: Inherited) -> None:
        self.session = open_session(setting, "listen/endpoints")
        self.answers = self.session.declare_subscriber("answers")
        self.arrays = open_publisher(self.session, "arrays")
        self.memory = shm.ShmProvider.default_backend(2 * setting.size + 2**16)
        self.when_full = shm.BlockOn(shm.GarbageCollect())
        self.bytes = bytearray(setting.size)
        self.words: Words = np.frombuffer(self.bytes, np.float32)

    def prepare(self) -> Words:
        return self.words

    def publish(self) -> None:
        buffer = self.memory.alloc(len(self.bytes), self.when_full)
        buffer[0 : len(self.bytes)] = self.bytes
        self.arrays.put(buffer)

    def answer(self) -> Answer:
        moment, total = struct.unpack("qq", self.answers.recv().payload.to_bytes())
        return moment, total

    def close(self) -> None:
        self.session.close()
        del self.memory


class Consumer:
    def __init__(self, setting: Setting, _inherited: Inherited) -> None:
        # The producer may not listen yet: zenoh goes on trying.
        self.session = open_session(setting, "connect/endpoints")
        self.arrays = self.session.declare_subscriber("arrays")
        self.answers = open_publisher(self.session, "answers")

    def hand_over(self) -> None:
        payload = self.arrays.recv().payload
        if payload.as_shm() is None:
            raise RuntimeError("the bytes did not come by shared memory")
        answer = take(np.frombuffer(payload.to_bytes(), np.float32))
        self.answers.put(struct.pack("qq", *answer))

    def close(self) -> None:
        self.session.close()
