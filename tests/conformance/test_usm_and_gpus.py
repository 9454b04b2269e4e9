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
