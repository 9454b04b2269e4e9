"""Ctrl-C in calls that wait for the GPU: they end, and nothing is lost."""

import os
import signal
import threading

import numpy as np
import producers
import pytest
from fakecuda_build import require_stand_in
from gpu_arrays import COUNT, create, opened, publish

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]


def interrupt(here, call):
    """Send SIGINT once the call waits."""
    looks = here.looks()

    def send():
        here.await_wait(looks)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    sender.join()


def lose_nothing(here, array, version, wait, *, only_slot_written=False):
    """Interrupt a call. With one slot a lease that was left would keep the others from writing."""
    interrupt(here, wait)
    assert array.version == (0 if only_slot_written else version)
    array.write(wait=0).drop()
    here.ungate()
    assert array.put(np.full(COUNT, 8, "u8")) > version
    assert array.get().tolist() == [8] * COUNT


# ---- What waits for a version that is not complete.


def get(array, source):
    array.get()


def update(array, source):
    array.update()


def put_from_the_host(array, source):
    array.put(np.zeros(COUNT, "u8"))


def put_from_the_gpu(array, source):
    array.put(source)


def fill_a_lease(array, source):
    with array.write() as lease:
        lease[...] = source


def ask_for_the_interface(array, source):
    with array.read() as lease:
        _ = lease.cuda_array(host_wait=True).__cuda_array_interface__


@pytest.mark.parametrize(
    "wait",
    [get, update, put_from_the_host, put_from_the_gpu, fill_a_lease, ask_for_the_interface],
)
def test_ctrl_c_ends_a_wait_for_a_version(gpu, wait):
    gpu.run(wait_for_a_version, wait)


def wait_for_a_version(here, wait):
    array = create(here, slots=2 if wait is update else 1, fill=0)  # with one it copies nothing
    source = producers.Numba(here, COUNT, here.stream("library"))
    here.gate(here.stream())
    publish(here, 1)
    writes = wait in (put_from_the_host, put_from_the_gpu, fill_a_lease)
    lose_nothing(here, array, 2, lambda: wait(array, source), only_slot_written=writes)
    source.free()


# ---- What waits for work on a source.


@pytest.mark.parametrize("library", [producers.Torch, producers.CuPyInterface])
@pytest.mark.parametrize(
    ("device", "wait"),
    [("cuda", put_from_the_gpu), ("cuda", fill_a_lease), ("host", put_from_the_gpu)],
)
def test_ctrl_c_ends_a_wait_for_a_source(gpu, library, device, wait):
    gpu.run(wait_for_a_source, library, device, wait)


def wait_for_a_source(here, library, device, wait):
    array = create(here, slots=1, fill=0, device=device)
    source = library(here, COUNT, here.stream("library"))
    here.gate(source.stream)
    source.fill(7)
    lose_nothing(here, array, 1, lambda: wait(array, source), only_slot_written=True)
    source.free()


# ---- Ends of leases that wait.


def publish_untouched(array):
    array.write(wait=0).publish()


def leave_untouched(array):
    with array.write(wait=0):
        pass


@pytest.mark.parametrize("end", [publish_untouched, leave_untouched])
def test_ctrl_c_in_a_publish_gives_the_write_up(gpu, end):
    """The array is not locked afterwards, neither here nor for another process."""
    here, other = gpu.process(), gpu.process()
    here.run(interrupt_a_publish, end)
    other.run(write_elsewhere)


def interrupt_a_publish(here, end):
    array = create(here, slots=1, fill=0, lifetime="persistent")
    here.gate(here.stream())
    publish(here, 1)
    interrupt(here, lambda: end(array))
    here.ungate()
    here.synchronize()
    array.write(wait=1).drop()


def write_elsewhere(here):
    assert opened(here).put(np.full(COUNT, 8, "u8"), wait=5) > 2
    assert here.kept["a"].get().tolist() == [8] * COUNT


@pytest.mark.parametrize("end", ["release", "leave"])
def test_ctrl_c_in_a_release_keeps_no_slot(gpu, end):
    """It is given up by the next call that can tell that the GPU is done."""
    gpu.run(interrupt_a_release, end)


def interrupt_a_release(here, end):
    array = create(here, slots=1, fill=0)
    here.gate(here.stream())
    publish(here, 1)
    lease = array.read(stream=here.stream("one"))
    capsule = lease.__dlpack__(stream=here.stream("two"), max_version=(1, 1))
    del capsule  # with two streams nobody knows where the work ends
    interrupt(here, lease.release if end == "release" else lambda: lease.__exit__(None, None, None))
    assert lease.released
    here.ungate()
    assert array.put(np.full(COUNT, 8, "u8"), wait=5) == 3
