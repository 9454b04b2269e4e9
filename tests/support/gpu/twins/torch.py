"""PyTorch's twin."""

from contextlib import AbstractContextManager
from typing import Any

import consumers
from twin import Array, current, here, new_stream, working_on


class cuda:  # noqa: N801
    class Stream:
        def __init__(self, device: int) -> None:
            self.cuda_stream = new_stream(device)

    @staticmethod
    def stream(stream: Stream) -> AbstractContextManager[None]:
        return working_on(stream.cuda_stream)


def from_dlpack(producer: Any) -> Array:
    return Array(consumers.torch_from_dlpack(here, producer, current[-1]))
