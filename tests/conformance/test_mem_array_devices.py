"""MemArray between processes and devices: made, changed by a kernel and read, each elsewhere."""

import memlease
import numpy as np
from fakecuda_build import require_stand_in
from gpu_arrays import address_of
from gpu_process import Cells

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

SHAPE = (2, 4, 7)
INDEX_SUMS = np.indices(SHAPE).sum(axis=0)


def test_four_processes_share_one_of_which_one_dies(gpu):
    creator, victim, worker, reader = (gpu.process() for _ in range(4))
    creator.run(create_and_fill)
    victim.run(lock_on_the_device)
    victim.kill()
    assert worker.run(add_index_tuple_on_the_device) == "device"
    assert reader.run(elements_on_the_host) == (np.arange(56).reshape(SHAPE) + INDEX_SUMS).tolist()
    creator.run(look_once_more)


def create_and_fill(here):
    mem_array = memlease.MemArray(SHAPE, "u8", name="m", client=here.client)
    here.kept["m"] = mem_array
    mem_array.move_memory(2)
    assert mem_array.on_device
    mem_array.read_numpy_array(np.arange(56, dtype="u8").reshape(SHAPE))
    with mem_array.get_dlpack(1) as dlpack:
        assert np.from_dlpack(dlpack)[1, 3, 6] == 55


def face(here):
    if "m" not in here.kept:
        here.kept["m"] = memlease.MemArray.of(here.client.open("m"))
    return here.kept["m"]


def lock_on_the_device(here):
    mem_array = face(here)
    mem_array.move_memory("cuda:0", stream=here.stream())
    here.kept["lock"] = mem_array.lock(stream=here.stream())
    here.fill(address_of(here.kept["lock"]), 56, 99, here.stream())


def add_index_tuple_on_the_device(here):
    mem_array = face(here)
    stream = here.stream()
    mem_array.move_memory("cuda", stream=stream)
    with mem_array.lock(stream=stream) as lock:
        here.add_index_tuple(Cells.compact(mem_array.shape, address_of(lock)), stream)
    here.synchronize(stream)
    return "device" if mem_array.on_device else "host"


def elements_on_the_host(here):
    with face(here).get_dlpack("host") as dlpack:
        return np.from_dlpack(dlpack).tolist()


def look_once_more(here):
    mem_array = here.kept["m"]
    assert mem_array[1, 3, 6] == 55 + 10
    assert mem_array.device == "host", "where this process had it last"
