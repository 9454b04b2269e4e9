"""CuPy's twin."""

from contextlib import ExitStack
from typing import Any

import consumers
from twin import Array, current, here, new_stream, working_on


class cuda:  # noqa: N801
    class Device(ExitStack):
        def __init__(self, device: int) -> None:
            super().__init__()
            here.call("cudaSetDevice", device)

    class Stream(ExitStack):
        def __init__(self, *, non_blocking: bool) -> None:
            super().__init__()
            assert non_blocking
            self.ptr = new_stream(0)

        def __enter__(self) -> "cuda.Stream":
            self.enter_context(working_on(self.ptr))
            return self


def from_dlpack(producer: Any) -> Array:
    return Array(consumers.cupy_from_dlpack(here, producer, current[-1]))
