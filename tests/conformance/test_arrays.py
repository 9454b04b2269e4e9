"""GPU arrays from Python, on the CUDA stand-in."""

import contextlib
import copy
import os
import signal
import threading

import consumers
import memlease
import numpy as np
import pytest
from fakecuda_build import require_stand_in
from gpu_arrays import (
    COUNT,
    address_of,
    create,
    create_with,
    opened,
    publish,
    writer_and_reader,
)

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]


@pytest.mark.parametrize("parent_has_arrays", [False, True])
def test_a_forked_child_is_told_that_cuda_does_not_work_there(gpu, parent_has_arrays):
    gpu.process().run(create_with, 3)
    answers = gpu.run(use_in_forked_child, parent_has_arrays)
    assert len(answers) == 2
    for answer in answers:
        assert answer.startswith("ForkedClient: ")
        assert "CUDA cannot be used in a child that was forked" in answer
        assert '"spawn"' in answer


def use_in_forked_child(here, parent_has_arrays):
    if parent_has_arrays:
        here.client.create("mine", shape=1, dtype="u8", device="cuda", fill=1)
    output, child_output = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(child_output, "\n".join(errors_in_child(here.client.directory)).encode())
        finally:
            os._exit(0)
    os.close(child_output)
    with os.fdopen(output) as lines:
        answers = lines.read().splitlines()
    os.waitpid(child, 0)
    return answers


def errors_in_child(directory):
    with memlease.connect(directory, start=False) as client:
        for call in (
            lambda: client.create("b", shape=1, dtype="u8", device="cuda"),
            lambda: client.open("a").read(),
        ):
            try:
                call()
            except memlease.Error as error:
                yield f"{type(error).__name__}: {error}".replace("\n", " ")


def test_an_array_knows_its_gpu(gpu):
    gpu.run(look_at_the_device)


def look_at_the_device(here):
    array = create(here)
    assert array.device.startswith("GPU-")
    assert array.device_ordinal == 0
    assert array.device in repr(array)
    for device in ("cuda", array.device):
        assert here.client.create(f"b/{device}", shape=1, dtype="u8", device=device).device == (
            array.device
        )
    assert here.client.create("h", shape=1, dtype="u8").device_ordinal is None
    wrong = ["gpu", "cuda:", "cuda0", "cuda:01", "cuda:00", "cuda:+0", "cuda:-1", "cuda: 0"]
    for device in [*wrong, "cuda:0 ", "cuda:0x0", "cuda:99999999999", "Cuda:0"]:
        with pytest.raises(memlease.InvalidArgument, match="not a device"):
            here.client.create("c", shape=1, dtype="u8", device=device)
    with pytest.raises(memlease.Unsupported, match="cuda:99"):
        here.client.create("c", shape=1, dtype="u8", device="cuda:99")


def test_what_is_put_in_one_process_is_got_in_another(gpu):
    writer, reader = gpu.process(), gpu.process()
    writer.run(put_numbers, "C")
    reader.run(get_numbers, 0)
    writer.run(put_more)
    reader.run(get_numbers, 5)


def put_numbers(here, order):
    array = create(here, shape=(10, 100), order=order)
    assert array.put(np.arange(COUNT, dtype="u8").reshape(10, 100)) == 1


def put_more(here):
    assert here.kept["a"].put(np.arange(5, COUNT + 5, dtype="u8").reshape(10, 100)) == 2


def get_numbers(here, offset):
    expected = np.arange(offset, COUNT + offset).reshape(10, 100)
    assert (opened(here).get() == expected).all()
    assert (opened(here).get(np.empty((10, 100), "f8")) == expected).all()
    assert (opened(here).get(np.empty((10, 100), "u8", order="F")) == expected).all()


@pytest.mark.stand_in_only  # whose work takes as long as it is told
def test_what_has_been_put_stays_when_its_process_dies(gpu):
    reader, writer = writer_and_reader(gpu, slots=3, published=1)
    reader.run(sum_of_elements)
    gpu.world.set("delay_us", 100_000)
    writer.start(put_and_die)
    writer.kill(by_itself=True)
    gpu.world.set("delay_us", 0)
    assert reader.run(sum_of_elements) == (2, 2 * COUNT)


def sum_of_elements(here):
    array = opened(here)
    elements = array.get(timeout=20)
    return array.version, int(elements.sum())


def put_and_die(here):
    opened(here).put(np.full(COUNT, 2, "u8"))
    os.kill(os.getpid(), signal.SIGKILL)


def test_elements_may_stand_in_another_order(gpu):
    writer, reader = gpu.process(), gpu.process()
    writer.run(put_numbers, "F")
    reader.run(get_numbers, 0)


def test_the_first_version_may_be_given_at_once(gpu):
    gpu.run(fill_arrays)


def fill_arrays(here):
    assert create(here, fill=3).get().tolist() == [3] * COUNT
    assert here.client.put("p", np.arange(4.0), device="cuda").get().tolist() == [0, 1, 2, 3]
    assert here.client.put("p", np.ones(4)).device.startswith("GPU-")
    half = here.client.create("b", shape=2, dtype="bfloat16", device="cuda", fill=1.5)
    assert half.get().tolist() == [1.5, 1.5]
    rows = here.client.create(
        "r", shape=(2, 3), dtype="f4", device="cuda", order="F", fill=[1, 2, 3]
    )
    assert rows.get().tolist() == [[1, 2, 3]] * 2
    for wrong in ([1, 2], "text", 1j):
        with pytest.raises(memlease.InvalidArgument):
            here.client.create("w", shape=3, dtype="f4", device="cuda", fill=wrong)
        assert not here.client.exists("w")


def test_streams_order_the_work_of_processes(gpu):
    """R-SYNC-3, 5, 6: by the leases' own streams."""
    writer, reader = writer_and_reader(gpu, slots=2)
    for value in (1, 2, 3, 4):
        writer.run(publish, value)
        assert reader.run(read_on_a_stream, value) == 0


def read_on_a_stream(here, value):
    stream = here.stream("r")
    with opened(here).read(stream=stream) as lease:
        here.look(address_of(lease), COUNT, value, stream)
    return here.mismatches(stream)


def test_a_reader_that_keeps_versions_does_not_stop_the_writer(gpu):
    writer, reader = writer_and_reader(gpu, slots=2)
    for value in range(1, 21):
        writer.run(publish, value)
        reader.run(keep, value)
    assert writer.run(current_version) == 20
    assert reader.run(look_at_all_kept) == 0


def keep(here, value):
    stream = here.stream("r")
    lease = opened(here).read(stream=stream)
    here.look(address_of(lease), COUNT, value, stream)
    here.kept.setdefault("leases", {})[value] = lease


def current_version(here):
    return opened(here).version


def look_at_all_kept(here):
    stream = here.stream("r")
    for value, lease in here.kept.pop("leases").items():
        here.look(address_of(lease), COUNT, value, stream)
        lease.release(stream=stream)
    return here.mismatches(stream)


def test_each_step_of_a_follower_is_ordered(gpu):
    writer, reader = writer_and_reader(gpu, slots=2, published=1)
    reader.run(begin_to_follow)
    for value in (1, 2, 3):
        assert reader.run(follow, value) == 0
        writer.run(publish, value + 1)
    reader.run(end_to_follow)


def begin_to_follow(here):
    here.kept["follower"] = opened(here).follow(timeout=10, stream=here.stream("r"))


def follow(here, value):
    lease = next(here.kept["follower"])
    here.look(address_of(lease), COUNT, value, here.stream("r"))
    return here.mismatches(here.stream("r"))


def end_to_follow(here):
    here.kept.pop("follower").close()


def test_an_update_begins_with_the_current_version(gpu):
    assert gpu.run(update_twice) == 0


def update_twice(here):
    array, stream = create(here, fill=1), here.stream()
    with array.update(stream=stream) as lease:
        here.add(address_of(lease), COUNT, 2, stream)
    with array.update() as lease:
        here.add(address_of(lease), COUNT, 4, stream)
        lease.publish(stream)
    return read_on_a_stream(here, 7)


def test_a_dropped_write_leaves_the_version(gpu):
    assert gpu.run(drop_writes) == 0


def drop_writes(here):
    array, stream = create(here, fill=1), here.stream()
    for told in (None, stream):
        lease = array.write(stream=stream)
        here.fill(address_of(lease), COUNT, 9, stream)
        lease.drop(told)
    with contextlib.suppress(ZeroDivisionError), array.write(stream=stream) as lease:
        here.fill(address_of(lease), COUNT, 9, stream)
        raise ZeroDivisionError
    return read_on_a_stream(here, 1)


def test_the_wrong_stream_is_found(gpu):
    """R-SYNC-5, 9: a control; the kernel is on another stream than the one that is told."""
    writer, reader = gpu.process(), gpu.process()
    writer.run(publish_on_the_wrong_stream)
    reader.run(read_on_a_stream, 7)
    assert "read after write" in gpu.findings()


def publish_on_the_wrong_stream(here):
    with create(here).write(stream=here.stream("told")) as lease:
        here.order(here.stream("told"), here.stream("used"))
        here.fill(address_of(lease), COUNT, 7, here.stream("used"))
        here.drain(here.stream("used"))


def test_two_clients_of_one_process_share_an_array(gpu):
    """R-SYNC-12: each opens the same memory and events; the daemon has exported them."""
    assert gpu.run(share_in_a_process) == 0


def share_in_a_process(here):
    array = create(here, slots=2)
    with memlease.connect(start=False) as other:
        same = other.open("a")
        for value in (1, 2, 3):
            stream = here.stream("writer")
            with array.write(stream=stream) as lease:
                here.fill(address_of(lease), COUNT, value, stream)
            stream = here.stream("reader")
            with same.read(stream=stream) as lease:
                here.look(address_of(lease), COUNT, value, stream)
    return here.mismatches(here.stream("reader"))


def test_each_thread_has_its_own_default_stream(gpu):
    """R-SYNC-4, 6: both say 2, and the writer waits for both."""
    writer, reader = writer_and_reader(gpu, slots=2, published=1)
    reader.run(read_in_two_threads)
    writer.run(publish, 2)
    writer.run(publish, 3)
    reader.run(end_threads)


def read_in_two_threads(here):
    opened(here)
    here.kept["ends"] = threading.Event()
    here.kept["threads"] = []
    for gated in (True, False):
        has_read = threading.Event()
        thread = threading.Thread(target=read_in_thread, args=(here, gated, has_read))
        thread.start()
        has_read.wait()
        here.kept["threads"].append(thread)


def read_in_thread(here, gated, has_read):
    if gated:
        here.gate(2)
    with opened(here).read(stream=2) as lease:
        if gated:
            here.look(address_of(lease), COUNT, 1, 2)
    has_read.set()
    here.kept["ends"].wait()


def end_threads(here):
    here.ungate()
    here.kept.pop("ends").set()
    for thread in here.kept.pop("threads"):
        thread.join()
    assert here.mismatches() == 0


def test_streams_that_cannot_be_waited_for(gpu):
    gpu.run(try_streams)


def try_streams(here):
    array = create(here, fill=1)
    for call in (array.read, array.write, array.update, array.read().release):
        with pytest.raises(memlease.InvalidArgument, match="stream 0 is ambiguous"):
            call(stream=0)
    array.read().release(1)
    array.read(stream=2).release()


def test_the_host_cannot_touch_what_is_on_a_gpu(gpu):
    gpu.run(touch_on_the_host)


def touch_on_the_host(here):
    array = create(here, fill=1)
    with array.read() as lease:
        ways = "torch.from_dlpack"
        with pytest.raises(memlease.Unsupported, match=ways):
            _ = lease.array
        with pytest.raises(memlease.Unsupported, match=ways):
            _ = lease[0]
        with pytest.raises(memlease.Unsupported, match=ways):
            np.asarray(lease)
        with pytest.raises(memlease.Unsupported, match=ways):
            copy.copy(lease)
        with pytest.raises(BufferError, match=ways):
            memoryview(lease)
        with pytest.raises(AttributeError, match=ways):
            _ = lease.__array_interface__
        assert lease.release()
    with array.write() as lease:
        with pytest.raises(memlease.Unsupported, match=ways):
            lease[...] = 1
        lease.drop()


def test_waiting_for_the_gpu_lets_other_threads_run(gpu):
    """Each of them would stand still for ever, were the GIL not given up."""
    assert gpu.run(wait_in_many_ways) == 0


def wait_in_many_ways(here):
    array, stream = create(here, slots=2), here.stream()
    publish(here, 1)
    for wait in (release, leave_to_die, publish_untold, get, update):
        here.gate(stream)
        looks = here.looks()
        lease = array.read(stream=stream)
        here.look(address_of(lease), COUNT, 1, stream)
        lease.release()
        publish(here, 1)
        assert not here.has_waited(looks)
        thread = threading.Thread(target=wait, args=(here, array))
        thread.start()
        here.await_wait(looks)
        assert thread.is_alive(), wait
        here.ungate()
        thread.join()
        publish(here, 1)
    return here.mismatches()


def release(here, array):
    lease = array.read()
    consumers.cuda_core_view(here, lease, here.stream()).look(1)
    lease.release()


def leave_to_die(here, array):
    consumers.cuda_core_view(here, array.read(), here.stream()).look(1)


def publish_untold(here, array):
    with array.write() as lease:
        consumers.cuda_core_view(here, lease, here.stream()).fill(1)


def get(here, array):
    array.get()


def update(here, array):
    array.update().publish()
