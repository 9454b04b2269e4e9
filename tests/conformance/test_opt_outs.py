"""Leases that name no stream, and what the logger says of waits that are left out."""

import logging

import consumers
import memlease
import producers
import pytest
from fakecuda_build import require_stand_in
from gpu_arrays import COUNT, address_of, create, opened, publish, writer_and_reader
from importing import free, get_of

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]


@pytest.mark.parametrize("how", ["call", "environment"])
def test_a_lease_may_name_no_stream(gpu, monkeypatch, how):
    """R-CAI-13, R-SYNC-13: then nobody waits, and a library that would have does not either."""
    if how == "environment":
        monkeypatch.setenv("MEMLEASE_CUDA_NO_STREAM", "1")
    _, reader = writer_and_reader(gpu, published=1)
    reader.run(read_without_a_stream, {"no_stream": True} if how == "call" else {})
    assert "read after write" in gpu.findings()


def read_without_a_stream(here, options):
    """Keep all else of the contract: the lease ends when the GPU has nothing to do."""
    stream = here.stream("library")
    lease = opened(here).read()
    source = lease.cuda_array(**options)
    interface = source.__cuda_array_interface__
    assert (interface["version"], interface["stream"]) == (3, None)
    here.gate(stream)
    assert not here.is_idle(stream)
    consumers.numba_as_cuda_array(here, source, stream)
    here.ungate()
    consumers.cupy_asarray(here, source, stream).look(1)
    lease.release()
    assert here.is_idle(stream)


def test_the_end_of_such_a_lease_is_ordered(gpu):
    """R-SYNC-10, 13: an opt-out of the beginning leaves the end as it is."""
    writer, reader = writer_and_reader(gpu, published=1)
    reader.run(read_after_a_wait)
    writer.run(publish, 2)


def read_after_a_wait(here):
    with opened(here).read() as first:
        assert first.cuda_array(host_wait=True).__cuda_array_interface__["stream"] is None
    lease = opened(here).read()
    view = consumers.cupy_asarray(here, lease.cuda_array(no_stream=True), here.stream("library"))
    view.look(1)
    lease.release()


def test_a_write_lease_without_a_stream_is_published_complete(gpu):
    """R-SYNC-13: publishing waits for the GPU."""
    writer, reader = gpu.process(), gpu.process()
    writer.run(write_without_a_stream)
    assert (reader.run(get_of) == 9).all()


def write_without_a_stream(here):
    create(here)
    with here.kept["a"].write() as lease:
        source = lease.cuda_array(no_stream=True)
        consumers.cupy_asarray(here, source, here.stream("library")).fill(9)


def test_a_write_that_opted_out_leaves_the_next_one_its_waits(gpu):
    """R-SYNC-6, 13: nobody waited for the slot's reader, so that the next write has to."""
    writer, reader = writer_and_reader(gpu, published=1)
    reader.run(read_late)
    writer.run(write_without_a_wait)
    writer.run(publish, 2)
    assert reader.run(go_on) == 0


def read_late(here):
    stream = here.stream("late")
    here.gate(stream)
    with opened(here).read(stream=stream) as lease:
        here.look(address_of(lease), COUNT, 1, stream)


def write_without_a_wait(here):
    with opened(here).write() as lease:
        assert lease.cuda_array(no_stream=True).__cuda_array_interface__["stream"] is None


def go_on(here):
    here.ungate()
    return here.mismatches(here.stream("late"))


def test_the_host_waits_where_both_are_set(gpu, monkeypatch):
    """R-SYNC-14: the safe one of two settings wins, and a call wins over both."""
    monkeypatch.setenv("MEMLEASE_CUDA_NO_STREAM", "1")
    monkeypatch.setenv("MEMLEASE_CUDA_HOST_WAIT", "1")
    writer, reader = writer_and_reader(gpu)
    for value in (1, 2):
        writer.run(publish, value)
        reader.run(read_safely, value)


def read_safely(here, value):
    with opened(here).read() as lease:
        view = consumers.torch_as_tensor(
            here, lease.cuda_array(readonly_ok=True), here.stream("library")
        )
        view.look(value)
        named = lease.cuda_array(host_wait=False, no_stream=False).__cuda_array_interface__
        assert named["stream"] > 2
        with pytest.raises(memlease.InvalidArgument, match="contradict"):
            lease.cuda_array(host_wait=True, no_stream=True)
    assert here.mismatches() == 0


def test_opt_outs_are_logged_once(gpu):
    """R-SYNC-13: by the logger memlease, once for each; what is off is not."""
    gpu.process(new=True).run(listen_to_the_logger)


def listen_to_the_logger(here):
    heard = []

    class Listener(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    logger, listener = logging.getLogger("memlease"), Listener()
    logger.addHandler(listener)
    array = create(here, fill=1, slots=3)
    source = producers.Torch(here, COUNT)
    with array.read() as lease:
        _ = lease.__cuda_array_interface__
        _ = lease.cuda_array(host_wait=True).__cuda_array_interface__
        array.put(source)
        assert heard == []
        for _ in range(2):
            _ = lease.cuda_array(no_stream=True).__cuda_array_interface__
            array.put(source, ignore_stream=True)
    logger.removeHandler(listener)
    assert [text.partition(":")[0] for text in heard] == ["no_stream", "ignore_stream"]
    free(here, source)
