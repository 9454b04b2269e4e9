"""Arrays of others that are refused: clear errors, and nothing is lost."""

import ctypes

import memlease
import numpy as np
import producers
import pytest
from dlpack_structs import take
from fakecuda_build import require_stand_in
from gpu_arrays import COUNT, create, opened
from gpu_process import Here
from importing import free, refused

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]


def test_interfaces_that_are_refused(gpu):
    """R-CAI-6, 14, 16: what breaks the rules, or cannot be copied, and says so."""
    gpu.run(put_bad_interfaces)


def put_bad_interfaces(here):
    create(here, fill=1)
    source = producers.Described(here, COUNT, here.stream("library"))
    invalid, unsupported = memlease.InvalidArgument, memlease.Unsupported
    host = np.zeros(COUNT, "u8")
    for changes, error, match in (
        ({"stream": 0}, invalid, "stream is 0.*per-thread"),
        ({"stream": -1}, invalid, "stream=-1"),
        ({"stream": "1"}, invalid, "stream='1'"),
        ({"stream": True}, invalid, "stream=True"),
        ({"mask": object()}, unsupported, "mask"),
        ({"version": 4}, unsupported, "version 4"),
        ({"version": "3"}, invalid, "version='3'"),
        ({"version": ...}, invalid, "no 'version'"),
        ({"typestr": ...}, invalid, "no 'typestr'"),
        ({"typestr": ">u8"}, invalid, ">u8"),
        ({"typestr": "<f8"}, invalid, "float64"),
        ({"shape": (COUNT + 1,)}, invalid, "give one of shape"),
        ({"shape": (-1,)}, invalid, "shape"),
        ({"shape": (2**62, 2**62)}, invalid, "less than 2.63 bytes"),
        ({"data": ...}, invalid, "no 'data'"),
        ({"data": (0, False)}, invalid, "data"),
        ({"data": (host.ctypes.data, False)}, invalid, "no GPU's memory"),
        ({"strides": (8, 8)}, invalid, "strides"),
        ({"strides": (16,)}, unsupported, "contiguous"),
        ({"strides": "8"}, invalid, "strides"),
    ):
        source.changes = changes
        refused(here, source, error, match)
    assert opened(here).get().tolist() == [1] * COUNT
    source.free()


def test_tensors_that_are_refused(gpu):
    """R-DLP-10, 18: names, versions, types and devices; a newer one is only deleted."""
    gpu.run(put_bad_tensors)


def put_bad_tensors(here):
    create(here, fill=1)
    source = producers.Handed(here, COUNT)
    deleted = []

    def hand_over(major=1, **changes):
        tensor = source.tensor()
        for field, value in changes.items():
            setattr(tensor, field, value)
        exported = producers.Exported(
            tensor, versioned=True, major=major, on_delete=lambda: deleted.append(major)
        )
        source.capsule = exported.capsule

    hand_over(major=2, ndim=-5, shape=None)  # nothing of it is looked at
    refused(here, source, BufferError, "version 2")
    assert deleted == [2]
    hand_over(lanes=4)
    refused(here, source, memlease.Unsupported, "4 lanes")
    hand_over(code=17)
    refused(here, source, memlease.Unsupported, "code 17")
    hand_over(device_type=1)
    refused(here, source, BufferError, "type 1")
    assert deleted == [2, 1, 1, 1]
    hand_over()
    take(source.capsule)
    refused(here, source, ValueError, "incorrect name")
    source.capsule = "no capsule"
    refused(here, source, TypeError, "")
    source.strides = (16,)
    hand_over()
    refused(here, source, memlease.Unsupported, "contiguous")
    source.__dlpack_device__ = lambda: (1, 0)
    hand_over(device_type=10)  # ROCm's
    refused(here, source, BufferError, "type 10")
    source.free()


def test_errors_of_producers_pass(gpu):
    """R-DLP-18: BufferError passes; after TypeError less is asked for, but always the stream."""
    gpu.run(meet_errors)


class Failing(producers.ByDLPack):
    error: type[Exception]

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        raise self.error("not today")


def meet_errors(here):
    create(here, fill=1)
    source = producers.Torch(here, COUNT)
    refused(here, source, BufferError, "per-thread", stream=2)
    failing = Failing(here, COUNT)
    failing.error = BufferError
    refused(here, failing, BufferError, "not today")
    assert len(failing.asked) == 1
    failing.error, failing.asked = TypeError, []
    refused(here, failing, TypeError, "not today")
    assert [sorted(keywords) for keywords in failing.asked] == [
        ["copy", "dl_device", "max_version", "stream"],
        ["copy", "dl_device", "stream"],
        ["stream"],
    ]
    assert len({keywords["stream"] for keywords in failing.asked}) == 1
    source.free()
    failing.free()


def test_another_gpu_is_refused(gpu):
    """R-DLP-8, R-CAI-18: copies stay on one GPU."""
    process = gpu.process()
    if process.run(Here.devices) < 2:
        pytest.skip("there is one GPU")
    process.run(put_from_another_gpu)


def put_from_another_gpu(here):
    create(here, fill=1)
    for library in (producers.Torch, producers.Numba):
        source = library(here, COUNT, device=1)
        source.has_stream = False
        refused(here, source, memlease.InvalidArgument, "is on cuda:1, and 'a' on cuda:0")
        source.free()
    source = producers.Torch(here, COUNT, device=1)
    mine = here.stream("mine")
    refused(here, source, memlease.InvalidArgument, "one of cuda:0", stream=mine)
    assert source.asked == []
    source.free()


def test_streams_that_capture_are_refused(gpu):
    """R-SYNC-15: ours and theirs, and nobody is asked for a tensor then."""
    gpu.run(put_while_capturing)


def put_while_capturing(here):
    create(here, fill=1)
    torch = producers.Torch(here, COUNT)
    numba = producers.Numba(here, COUNT, here.stream("library"))
    stream = ctypes.c_void_p(here.stream("mine"))
    theirs = producers.Numba(here, COUNT, here.stream("mine"))
    here.call("cudaStreamBeginCapture", stream, 2)
    for source in (torch, numba, np.zeros(COUNT, "u8")):
        refused(
            here, source, memlease.InvalidArgument, "capturing a graph", stream=here.stream("mine")
        )
    refused(here, theirs, memlease.InvalidArgument, "capturing a graph")
    host = here.client.create("h", shape=COUNT, dtype="u8", fill=1)
    refused(here, theirs, memlease.InvalidArgument, "capturing a graph", array=host)
    assert torch.asked == []
    graph = ctypes.c_void_p()
    here.call("cudaStreamEndCapture", stream, ctypes.byref(graph))
    for source in (torch, numba, theirs):
        source.free()


def test_an_error_of_the_gpu_loses_nothing(gpu):
    """R-CAI-17: a copy that fails is waited for, and its write is dropped."""
    array_of = gpu.process()
    array_of.run(create_filled)
    gpu.world.fail("cudaMemcpyAsync", 1)
    array_of.run(meet_a_failed_copy)


def create_filled(here):
    create(here, fill=1)


def meet_a_failed_copy(here):
    source = producers.Torch(here, COUNT)
    refused(here, source, memlease.Internal, "cudaErrorInvalidValue", stream=here.stream("mine"))
    opened(here).put(source)
    free(here, source)
