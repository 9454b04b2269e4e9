"""Names of devices: memlease's own, and those of PyTorch's devices."""

from typing import Any, Protocol

from memlease.arguments import require_text


class TorchDevice(Protocol):
    """A `torch.device`."""

    @property
    def type(self) -> str:
        """What it is, such as ``"cuda"``."""

    @property
    def index(self) -> int | None:
        """Which of them; None is the current one."""


def device_name(device: Any) -> str:
    """Name a device as the library does, of a text or a `torch.device`.

    Raises
    ------
    InvalidArgument
        It is neither.
    """
    kind = type(device)
    if (kind.__module__, kind.__name__) == ("torch", "device"):
        device = str(device)
    require_text("device", device)
    return "host" if device in ("cpu", "cpu:0") else device
