"""Arrays on a GPU and memory in USM: by the host, on the stand-ins of CUDA and of dpctl."""

import sys

import fake_dpctl
import memlease
import numpy as np
import pytest
from fake_dpctl import SyclQueue, describe
from fakecuda_build import require_stand_in

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]


def test_a_gpus_array_meets_usm_by_the_host(gpu):
    """R-SYCL-4, 7: a lease of it is not exported, nor filled; the errors say how to do it."""
    gpu.run(there_and_back)
    assert gpu.findings() == ""


def there_and_back(here):
    sys.modules.update(fake_dpctl.modules())
    queue = SyclQueue()
    array = here.client.create("a", shape=(2, 3), dtype="f4", device="cuda:0")
    source, target = np.arange(6, dtype="f4").reshape(2, 3), np.zeros((2, 3), "f4")
    queue.sycl_context.know(source)
    queue.sycl_context.know(target)
    array.put(describe(source, queue))
    array.get(out=describe(target, queue))
    assert (target == source).all()
    with array.read() as lease, pytest.raises(memlease.Unsupported, match=r"array.on\('host'\)"):
        lease.sycl_usm(queue)
    with pytest.raises(memlease.Unsupported, match=r"array.put\(\)"), array.write() as lease:
        lease[...] = describe(source, queue)
    with array.on("host").read() as lease:
        view = lease.sycl_usm(queue)
    assert (here.client.put("b", view).get() == source).all()


def test_a_context_that_knows_a_gpus_memory_is_given_it(gpu):
    """R-SYCL-8: where copy=False asks for it; the view keeps the slot, and waits for the queue."""
    gpu.run(give_it_to_sycl)
    assert gpu.findings() == ""


def give_it_to_sycl(here):
    sys.modules.update(fake_dpctl.modules())
    queue = SyclQueue()
    array = here.client.create("a", shape=(2, 3), dtype="f4", device="cuda:0", slots=1, fill=1)
    with array.read() as lease:
        with pytest.raises(memlease.Unsupported, match="CUDA backend"):
            lease.sycl_usm(queue, copy=False)
        address = lease.cuda_array(host_wait=True).__cuda_array_interface__["data"][0]
        queue.sycl_context.known.append((address, lease.nbytes, "device"))
        with pytest.raises(memlease.Unsupported, match="copy=False"):
            lease.sycl_usm(queue)
        view = lease.sycl_usm(queue, copy=False)
    assert (view.copied, view.usm_type, view.sycl_queue) == (False, "device", queue)
    assert view.__sycl_usm_array_interface__ == {
        "version": 1,
        "typestr": "<f4",
        "shape": (2, 3),
        "strides": None,
        "data": (address, True),
        "offset": 0,
        "syclobj": queue,
    }
    with pytest.raises(memlease.Busy, match="only slot"):  # which the view keeps
        array.write()
    queue.log.clear()
    del view
    assert queue.log == ["wait"]
    with array.write() as lease, pytest.raises(memlease.Unsupported, match="only for reading"):
        lease.sycl_usm(queue, copy=False)
    empty = here.client.create("b", shape=(0, 3), dtype="f4", device="cuda:0", fill=1)
    with empty.read() as lease, pytest.raises(memlease.Unsupported, match="no elements"):
        lease.sycl_usm(queue, copy=False)
