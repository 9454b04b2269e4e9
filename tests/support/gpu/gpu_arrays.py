"""What most tests do with the GPU array "a" in the processes that they start."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import memlease
from consumers import View
from gpu_process import Here, Process

if TYPE_CHECKING:
    from gpu_fixture import Gpu

COUNT = 1000  # elements, uint64

Consumer = Callable[[Here, Any, int], View]


def create(here: Here, **options: Any) -> memlease.Array:
    options = {"shape": COUNT, "dtype": "u8", "device": "cuda", **options}
    here.kept["a"] = here.client.create("a", **options)
    return here.kept["a"]


def create_with(here: Here, slots: int) -> None:
    create(here, slots=slots)


def opened(here: Here) -> memlease.Array:
    if "a" not in here.kept:
        here.kept["a"] = here.client.open("a")
    return here.kept["a"]


def address_of(lease: Any) -> int:
    return lease.__cuda_array_interface__["data"][0]


class _PointerAttributes(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("device_pointer", ctypes.c_void_p),
        ("host_pointer", ctypes.c_void_p),
        ("reserved", ctypes.c_long * 8),
    )


def device_of(here: Here, address: int) -> int:
    """Return the number of the device whose memory CUDA says this is."""
    device_memory = 2
    attributes = _PointerAttributes()
    here.call("cudaPointerGetAttributes", ctypes.byref(attributes), ctypes.c_void_p(address))
    assert (attributes.type, attributes.device_pointer) == (device_memory, address)
    return attributes.device


def publish(here: Here, value: int) -> None:
    """Write a version with a kernel on a stream of the writer's."""
    stream = here.stream()
    with opened(here).write(stream=stream) as lease:
        here.fill(address_of(lease), COUNT, value, stream)


def writer_and_reader(gpu: Gpu, slots: int = 1, published: int = 0) -> tuple[Process, Process]:
    """Start both, with the array and, unless it is 0, a version whose elements are `published`.

    With one slot each version has to wait for those who use the last one.
    """
    writer, reader = gpu.process(), gpu.process()
    writer.run(create_with, slots)
    if published:
        writer.run(publish, published)
    return writer, reader


def read_with(
    here: Here, consumer: Consumer, expected: int, export: Callable[[Any], Any] | None = None
) -> int:
    """Read as a library does it, from the lease or what `export` makes of it.

    Return how many elements were wrong.
    """
    with opened(here).read() as lease:
        source = export(lease) if export else lease
        view = consumer(here, source, here.stream("library"))
        view.look(expected)
        del view
        assert lease.release()
    return here.mismatches()
