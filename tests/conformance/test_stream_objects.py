"""Streams that are given to leases: how long their objects live, and when a wrong one is told."""

import ctypes

import memlease
import numpy as np
import pytest
from fakecuda_build import require_stand_in
from gpu_arrays import COUNT, create

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]


class Owned:
    """A stream that goes with its object, as those of libraries do."""

    def __init__(self, here):
        self.here, self.handle = here, ctypes.c_void_p()
        here.call("cudaStreamCreateWithFlags", ctypes.byref(self.handle), 1)
        here.kept.setdefault("alive", set()).add(self.handle.value)

    def __cuda_stream__(self):
        return 0, self.handle.value

    def __del__(self):
        self.here.kept["alive"].discard(self.handle.value)
        self.here.call("cudaStreamDestroy", self.handle)


@pytest.mark.parametrize("how", ["read", "write", "update", "follow"])
def test_a_lease_keeps_its_streams_object(gpu, how):
    """The lease ends by the stream, which nobody else keeps."""
    gpu.run(lease_by_a_stream_of_nobody, how)


def lease_by_a_stream_of_nobody(here, how):
    array = create(here, fill=1)
    taken = getattr(array, how)(stream=Owned(here))
    lease = next(taken) if how == "follow" else taken
    assert len(here.kept["alive"]) == 1
    lease.release() if how in ("read", "follow") else lease.publish()
    del lease, taken
    assert not here.kept["alive"]
    array.put(np.full(COUNT, 2, "u8"))


@pytest.mark.stand_in_only
@pytest.mark.parametrize("how", ["read", "follow"])
def test_a_wrong_stream_is_told_before_a_wait(gpu, how):
    """There is no version, and there may never be one."""
    gpu.run(wait_by_a_stream_of_another_gpu, how)


def wait_by_a_stream_of_another_gpu(here, how):
    array = create(here, device="cuda:1")
    with pytest.raises(memlease.InvalidArgument, match="is one of cuda:0"):
        array.read(stream=here.stream()) if how == "read" else next(
            array.follow(stream=here.stream())
        )
