"""The guide's example of SYCL, on the CPU's runtime."""

from pathlib import Path

import numpy as np

pytest_plugins = ["sycl_process"]

GUIDE = Path(__file__).parents[2] / "docs/using.md"
VALUES = np.arange(24, dtype="f4").reshape(4, 6)


def test_the_guides_example_runs(sycl, memlease_client):
    field = memlease_client.put("u", VALUES)
    example = (
        GUIDE.read_text().partition("## SYCL\n")[2].partition("```py\n")[2].partition("```")[0]
    )
    assert "lease.sycl_usm(queue)" in example
    assert (sycl.run(run_example, example) == VALUES * 2).all()
    assert (field.get() == VALUES * 2).all()


def run_example(here, example):
    import dpnp

    names = {"field": here.client.open("u"), "queue": here.queue, "dpnp": dpnp}
    exec(example, names)
    return dpnp.asnumpy(names["x"])
