"""Ways to hand an array from one process to another: memlease and its rivals, each in a module."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One way. Its module of this folder has a Producer and a Consumer, as link.py says."""

    module: str
    package: str  # to import
    distribution: str  # to install
    label: str
    polls: bool = False  # looks again and again instead of sleeping


KINDS = {
    "memlease": Kind("with_memlease", "memlease", "memlease", "memlease"),
    "memlease_polls": Kind("with_memlease", "memlease", "memlease", "memlease, polls", polls=True),
    "posix_ipc": Kind("with_posix_ipc", "posix_ipc", "posix_ipc", "posix_ipc, by hand"),
    "iceoryx2": Kind("with_iceoryx2", "iceoryx2", "iceoryx2", "iceoryx2"),
    "iceoryx2_polls": Kind("with_iceoryx2", "iceoryx2", "iceoryx2", "iceoryx2, polls", polls=True),
    "pyzmq": Kind("with_pyzmq", "zmq", "pyzmq", "pyzmq"),
    "zenoh": Kind("with_zenoh", "zenoh", "eclipse-zenoh", "zenoh"),
    "torch": Kind("with_torch", "torch", "torch", "torch.multiprocessing"),
    "ray": Kind("with_ray", "ray", "ray", "Ray"),
    "adios2": Kind("with_adios2", "adios2", "adios2", "ADIOS2, SST"),
}
SIZES = {"4KiB": 2**12, "1MiB": 2**20, "16MiB": 2**24, "64MiB": 2**26}


def beside(kind: str) -> str:
    """Which way of memlease a rival is compared with: the one that waits as the rival does."""
    return "memlease_polls" if KINDS[kind].polls else "memlease"
