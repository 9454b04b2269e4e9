"""What orders the copy of an array of others, and the races without it."""

import producers
import pytest
from fakecuda_build import require_stand_in
from gpu_arrays import COUNT, create
from importing import free, stream_of

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]


@pytest.mark.parametrize("stream", [None, "own"])
def test_their_stream_waits_for_the_copy(gpu, stream):
    """R-CAI-14: what the library does next on its stream comes behind the copy."""
    gpu.run(put_and_overwrite, stream, None)
    assert gpu.findings() == ""


@pytest.mark.parametrize("how", ["call", "environment"])
def test_whoever_ignores_the_stream_races(gpu, monkeypatch, how):
    """R-CAI-15, R-SYNC-13: a control of the waits in both directions."""
    if how == "environment":
        monkeypatch.setenv("MEMLEASE_CUDA_IGNORE_STREAM", "1")
    gpu.run(put_and_overwrite, "own", True if how == "call" else None)
    found = gpu.findings()
    assert "read after write" in found
    assert "write after read" in found


def put_and_overwrite(here, stream, ignore_stream):
    array, source = create(here), producers.CuPyInterface(here, COUNT, here.stream("library"))
    source.fill(1)
    here.drain(source.stream)
    on = stream_of(here, stream)
    if on:
        here.gate(on)  # so that the call does not learn of the copy's end
    assert array.put(source, stream=on, ignore_stream=ignore_stream) == 1
    here.ungate()
    if on:
        here.drain(on)
    source.fill(2)
    here.synchronize()
    assert array.get().tolist() == [1] * COUNT
    source.free()


def test_an_asserted_order_is_not_asked_for(gpu):
    """R-SYNC-13, R-DLP-18: -1 is passed to those whose elements are said to be ready."""
    gpu.run(put_what_is_ready)


def put_what_is_ready(here):
    array, source = create(here), producers.Torch(here, COUNT, here.stream("library"))
    source.fill(1)
    here.synchronize()
    array.put(source, ignore_stream=True)
    assert [asked["stream"] for asked in source.asked] == [-1]
    assert source.deleted == 1
    free(here, source)


def test_a_producer_that_ignores_our_stream_races(gpu):
    """R-DLP-18: cuda.core's views say nothing of their stream: a control of DLPack's wait."""
    gpu.run(put_a_view, False)
    assert "read after write" in gpu.findings()


def test_such_a_producers_user_orders(gpu):
    """R-DLP-18: the given stream is where the copy is, so that its user can."""
    gpu.run(put_a_view, True)


def put_a_view(here, order):
    array, source = create(here), producers.CudaCore(here, COUNT, here.stream("library"))
    source.fill(3)
    here.drain(source.stream)
    if order:
        here.order(source.stream, here.stream("mine"))
    array.put(source, stream=here.stream("mine"))
    assert array.get().tolist() == [3] * COUNT
    free(here, source)


def test_below_version_3_the_user_orders(gpu):
    """R-CAI-16: there is no stream to wait for, whatever the dict says; a control of the wait."""
    gpu.run(put_an_old_interface, 2)
    assert "read after write" in gpu.findings()


def test_version_3_names_the_order(gpu):
    """R-CAI-14, 16: the same with a version that has a stream."""
    gpu.run(put_an_old_interface, 3)


def put_an_old_interface(here, version):
    array, source = create(here), producers.Described(here, COUNT, here.stream("library"))
    source.changes = {"version": version}
    source.fill(3)
    here.drain(source.stream)
    array.put(source, stream=here.stream("mine"))
    free(here, source)
