"""One array on a GPU and on the host, from Python."""

import asyncio
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import consumers
import memlease
import numpy as np
import pytest
from fakecuda_build import require_stand_in
from gpu_arrays import COUNT, address_of, create, opened, publish, read_with, writer_and_reader
from memlease.references import forget_clients

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]


def test_a_gpu_array_is_read_as_numpy_takes_it(gpu):
    writer, reader = writer_and_reader(gpu, slots=3, published=7)
    assert reader.run(read_on_the_host) == (1, 7 * COUNT)
    writer.run(publish, 8)
    assert reader.run(read_on_the_host) == (2, 8 * COUNT)


def read_on_the_host(here):
    with opened(here).on("host").read() as lease:
        return lease.version, int(np.asarray(lease).sum())


def test_a_host_array_is_read_by_kernels(gpu):
    assert gpu.run(read_on_the_gpu) == 0


def read_on_the_gpu(here):
    here.client.put("h", np.full(COUNT, 5, "u8"))
    here.kept["a"] = here.client.open("h").on("cuda:0")
    return read_with(here, consumers.cupy_asarray, 5)


def test_large_arrays_are_refreshed_both_ways(gpu):
    """Their slots on the host are registered with CUDA for that, unless it refuses."""
    gpu.run(refresh_both_ways)


def refresh_both_ways(here):
    large = np.zeros(1 << 14)
    for device, there in (("host", "cuda:0"), ("cuda:0", "host")):
        array = here.client.create(device[:4], shape=large.shape, dtype="f8", device=device)
        replica = array.on(there)
        for value in range(6):
            array.put(large + value)
            assert (replica.get() == value).all()
    assert here.client.refused_registrations == 0


def test_a_write_in_part_never_begins_with_an_old_version(gpu):
    gpu.run(write_in_part)


def write_in_part(here):
    for device, there in (("host", "cuda:0"), ("cuda:0", "host")):
        array = here.client.create(device[:4], shape=4, dtype="f8", device=device, fill=1)
        replica = array.on(there)
        assert replica.get().tolist() == [1] * 4
        writer, host = (replica, array) if device == "host" else (array, replica)
        writer.put(np.arange(4.0))
        for compute in (lambda w: w.__setitem__(0, 9.0), lambda w: w * 2):
            with pytest.raises(memlease.InvalidArgument, match="update"), host.write() as w:
                compute(w)
        with host.update() as w:
            w[0] = 9
        assert array.get().tolist() == [9, 1, 2, 3]


def test_it_is_one_array(gpu):
    gpu.run(look_at_both)


def look_at_both(here):
    array = create(here, fill=1, attributes={"units": "K"})
    host = array.on("host")
    assert host.attributes == array.attributes == {"units": "K"}
    assert (host.name, host.id, host.version) == ("a", array.id, 1)
    assert (host.device, host.shape, host.dtype) == ("host", (COUNT,), array.dtype)
    assert array.on("cuda:0") is array
    assert host.on("cpu") is host
    assert host.on("cuda:0").device == array.device
    with host.write() as lease:
        lease.array[:] = 2
    assert array.version == 2
    assert (array.get() == 2).all()
    assert here.client.list() == ["a"]
    with pytest.raises(memlease.InvalidArgument, match="only names of replicas"):
        here.client.open("a@host")


def test_a_handle_there_pickles(gpu):
    writer, reader = writer_and_reader(gpu, slots=3, published=7)
    pickled = writer.run(pickled_on_the_host)
    assert reader.run(read_pickled, pickled) == ("host", 7 * COUNT)
    assert writer.run(type_of_error_after_withdrawal, pickled) == "Withdrawn"


def pickled_on_the_host(here):
    return pickle.dumps(opened(here).on("host"))


def read_pickled(here, pickled):
    with pickle.loads(pickled) as array:
        found = array.device, int(array.get().sum())
    forget_clients(here.client.directory)
    return found


def type_of_error_after_withdrawal(here, pickled):
    here.client.withdraw("a")
    create(here, fill=1)
    name = "nothing"
    try:
        pickle.loads(pickled).get()
    except memlease.Error as error:  # whose frames keep the array
        name = type(error).__name__
    forget_clients(here.client.directory)
    return name


def test_waits_see_versions_that_are_written_elsewhere(gpu):
    writer, reader = writer_and_reader(gpu, slots=3, published=7)
    reader.run(read_on_the_host)
    reader.start(wait_on_the_host)
    writer.run(publish, 8)
    assert reader.result() == (2, 8 * COUNT)


def wait_on_the_host(here):
    host = opened(here).on("host")
    assert memlease.wait([host], newer_than=[1], timeout=30) == [host]
    with host.read(newer_than=1) as lease:
        return lease.version, int(np.asarray(lease).sum())


def test_a_wait_sees_the_first_version_that_is_written_elsewhere(gpu):
    writer, reader = writer_and_reader(gpu, slots=3, published=7)
    reader.start(wait_at_home)
    writer.run(write_on_the_host)
    assert reader.result() == (2, 9 * COUNT)


def wait_at_home(here):
    array = opened(here)
    assert memlease.wait([array.follow(after=1)], timeout=30)
    return array.version, int(array.get().sum())


def write_on_the_host(here):
    opened(here).on("host").put(9)


def test_a_read_at_home_has_its_turn_though_a_process_writes_elsewhere_without_a_pause(gpu):
    """By leases that last: between two of them nobody could copy home."""
    writer, reader = writer_and_reader(gpu, slots=3, published=7)
    reader.run(create_enough)
    writer.start(write_without_a_pause)
    reader.run(read_six_versions)
    assert writer.result() > 3


def test_a_read_at_home_has_its_turn_though_a_thread_writes_elsewhere_without_a_pause(gpu):
    gpu.run(write_and_read)


def write_and_read(here):
    create(here, slots=3, fill=7)
    create_enough(here)
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write_without_a_pause, here)
        read_six_versions(here)
        assert writing.result() > 3


def test_a_task_that_reads_at_home_has_its_turn_likewise(gpu):
    gpu.run(write_and_read_by_a_task)


def write_and_read_by_a_task(here):
    array = create(here, slots=3, fill=7)
    create_enough(here)

    async def read():
        passed = []
        for _ in range(4):
            seen = array.version
            async with array.read_async(newer_than=seen, timeout=20) as lease:
                passed.append(lease.version - seen)
        return passed

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write_without_a_pause, here)
        passed = asyncio.run(read())
        here.client.open("enough").put(1)
        assert writing.result() > 3
    assert max(passed) <= 8, passed


def test_a_task_that_is_cancelled_in_its_turn_leaves_nothing_behind(gpu):
    writer, reader = writer_and_reader(gpu, slots=3, published=7)
    writer.run(begin_another_write_there)
    reader.run(cancel_reads)
    writer.run(end_write_there)
    assert reader.run(read_by_tasks) == [2, 2]


def begin_another_write_there(here):
    here.kept["there"] = opened(here).on("host")
    here.kept["there"].put(8)
    here.kept["lease"] = here.kept["there"].write()


def cancel_reads(here):
    array = opened(here)

    async def cancel():
        begun = time.monotonic()
        for _ in range(5):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(array.read_async(newer_than=1, timeout=20), 0.05)
        follower = array.follow(after=1, timeout=20)
        for _ in range(5):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(follower), 0.05)
        with pytest.raises(memlease.Timeout, match="could be copied"):
            await array.read_async(newer_than=1, timeout=0.05)
        here.kept["follower"] = follower
        assert time.monotonic() - begun < 15

    asyncio.run(cancel())
    assert not [thread for thread in threading.enumerate() if thread.name == "memlease-read"]


def end_write_there(here):
    here.kept.pop("lease").drop()


def read_by_tasks(here):
    async def read():
        async with opened(here).read_async(newer_than=1, timeout=20) as lease:
            first = lease.version
        return [first, (await anext(here.kept["follower"])).version]

    return asyncio.run(read())


def create_enough(here):
    here.client.create("enough", shape=1, dtype="u1")


def write_without_a_pause(here):
    enough = here.client.open("enough")
    there = opened(here).on("host")
    lease = there.write()
    while enough.version == 0:
        time.sleep(0.01)  # its work
        lease[...] = 9
        version = lease.publish()
        lease = there.write(wait=30)
    lease.drop()
    return version


def read_six_versions(here):
    array = opened(here)
    passed = []
    for _ in range(6):
        seen = array.version
        with array.read(newer_than=seen, timeout=20) as lease:
            passed.append(lease.version - seen)
    here.client.open("enough").put(1)
    assert max(passed) <= 8, passed  # mostly 3: one for which it waits, and one before its turn


def test_the_writers_work_has_its_time_from_the_readers_timeout(gpu):
    gpu.run(read_what_is_not_complete)


def read_what_is_not_complete(here):
    array = create(here, slots=3, fill=1)
    host = array.on("host")
    assert host.get()[0] == 1
    stream = here.stream()
    here.gate(stream)
    with array.write(stream=stream) as lease:
        here.fill(address_of(lease), COUNT, 7, stream)
    assert host.try_read() is None
    for timeout in (0, 0.05):
        with pytest.raises(memlease.Timeout, match="version 2 of 'a' was not complete"):
            host.get(timeout=timeout)
    with host.read(version=1, timeout=0) as lease:
        assert int(np.asarray(lease)[0]) == 1
    here.ungate()
    assert (host.get() == 7).all()


def test_who_copies_to_the_arrays_device_is_no_writer(gpu):
    writer, reader = writer_and_reader(gpu, slots=3, published=7)
    reader.run(open_it)
    writer.run(write_on_the_host)
    assert reader.run(copy_home) == (9 * COUNT, True)
    writer.run(close_client)
    assert reader.run(copy_again_and_follow) == (False, [2])


def open_it(here):
    opened(here)


def copy_home(here):
    array = opened(here)
    return int(np.asarray(array.on("host").read()).sum()), array.has_writer


def close_client(here):
    here.client.close()


def copy_again_and_follow(here):
    array = opened(here)
    assert array.get()[0] == 9  # a copy to the GPU
    seen = [lease.version for lease in array.follow(until_writer_gone=True, timeout=30)]
    return array.has_writer, seen


def test_who_asks_for_a_number_that_is_lost_is_told_at_once(gpu):
    """Also at home, for what was to be written elsewhere, and who waits for it already."""
    _, reader = writer_and_reader(gpu, slots=3, published=7)
    other = gpu.process()
    assert reader.run(read_on_the_host) == (1, 7 * COUNT)
    other.run(begin_a_write, "cuda:0")
    reader.start(error_of_version, "host", 2)
    other.kill()
    assert reader.result() == "ProducerDied"
    assert reader.run(error_of_version, "host", 2) == "ProducerDied"

    home = gpu.process()
    reader.run(write_on_the_host)
    assert home.run(version_at_home) == 3
    reader.run(begin_a_write, "host")
    home.start(error_of_version, "cuda:0", 4)
    reader.kill()
    assert home.result() == "ProducerDied"
    assert home.run(error_of_version, "cuda:0", 4) == "ProducerDied"


def begin_a_write(here, device):
    here.kept["lease"] = opened(here).on(device).write()


def version_at_home(here):
    with opened(here).read() as lease:
        return lease.version


def error_of_version(here, device, version):
    try:
        opened(here).on(device).read(version=version, timeout=8)
    except memlease.Error as error:
        return type(error).__name__
    return "nothing"


def test_followers_are_told_of_each_newest_version(gpu):
    writer, reader = writer_and_reader(gpu, slots=3, published=7)
    reader.start(follow_on_the_host)
    for value in (8, 9):
        writer.run(publish, value)
    assert reader.result() == 9 * COUNT


def follow_on_the_host(here):
    for lease in opened(here).on("host").follow(timeout=30):
        if lease.version == 3:
            return int(np.asarray(lease).sum())
    return None


def test_a_version_is_brought_ahead_of_its_use(gpu):
    """A prefetch: a task brings it while others go on, and who reads it then waits for nothing."""
    gpu.run(bring_ahead)


def bring_ahead(here):
    host = create(here, fill=7).on("host")
    turns = []

    async def bring():
        (await host.read_async(timeout=30)).release()

    async def meanwhile():
        turns.append("another task")

    async def both():
        await asyncio.gather(bring(), meanwhile())

    asyncio.run(both())
    assert turns == ["another task"]
    copies = here.client.copies
    with host.read(timeout=0) as lease:
        assert int(np.asarray(lease).sum()) == 7 * COUNT
    assert here.client.copies == copies


@pytest.mark.stand_in_only
@pytest.mark.parametrize("home", ["host", "cuda:0"])
def test_a_stream_of_another_gpu_moves_nothing(gpu, home):
    gpu.run(move_by_a_stream_of_another_gpu, home)


def move_by_a_stream_of_another_gpu(here, home):
    moving = memlease.MemArray(COUNT, "u8", name="m", device=home, client=here.client)
    moving.read_numpy_array(np.full(COUNT, 7, "u8"))
    array = here.client.open("m")
    there = array.on("cuda:1")
    before = moving.device, array.version, here.client.copies
    for call in (
        lambda: moving.move_memory("cuda:1", stream=here.stream()),
        lambda: there.read(stream=here.stream()),
        lambda: next(there.follow(stream=here.stream())),
    ):
        with pytest.raises(memlease.InvalidArgument, match="is one of cuda:0"):
            call()
    assert (moving.device, array.version, here.client.copies) == before
    moving.move_memory("cuda:1")
    assert moving.device == there.device
    assert (there.get() == 7).all()


def test_bad_devices_are_refused(gpu):
    gpu.run(ask_for_bad_devices)


def ask_for_bad_devices(here):
    array = create(here, fill=1)
    for device, error in (
        ("gpu", memlease.InvalidArgument),
        ("cuda:9", memlease.Unsupported),
        ("GPU-0", memlease.Unsupported),
    ):
        with pytest.raises(error):
            array.on(device)
    for wrong in (0, None):
        with pytest.raises(memlease.InvalidArgument, match="is not a string"):
            array.on(wrong)
