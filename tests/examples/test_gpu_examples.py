"""The examples of examples/gpu, run as a user would.

On the CUDA stand-in twins of the libraries take the leases (tests/support/gpu/twins); in a run on
hardware the libraries themselves do, those that are installed.
"""

import pytest
from fakecuda_build import require_stand_in
from gpu_libraries import (
    EXAMPLES,
    KERNELS,
    LIBRARIES,
    fault_of,
    follow_the_publisher,
    run_the_kernel,
    start,
)

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]


def test_each_worker_has_its_library_here():
    assert {it.stem.removeprefix("worker_") for it in EXAMPLES.glob("worker_*.py")} == {*LIBRARIES}


def require(library):
    state, why = fault_of(library)
    if state == "skipped":
        pytest.skip(f"no {library} with a GPU: {why}")
    assert not state, why


@pytest.mark.timeout(180)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_worker_follows_the_publisher(gpu, library):
    require(library)
    assert follow_the_publisher(library) >= 3


@pytest.mark.parametrize("library", KERNELS)
def test_a_kernel_makes_the_next_version(gpu, library):
    require(library)
    run_the_kernel(library)


@pytest.mark.parametrize("library", KERNELS)
def test_a_kernels_sample_says_in_a_line_that_there_is_no_such_gpu(gpu, library):
    require(library)
    program = f"add_index_tuple_{library}.py"
    with start(program, "cuda:99") as sample:
        (line,) = sample.communicate(timeout=60)[0].splitlines()
    assert sample.returncode == 1
    assert line.startswith(f"{program}: there is no cuda:99")


def test_the_publisher_says_in_a_line_that_there_is_no_such_gpu(gpu):
    with start("publisher.py", "cuda:99") as publisher:
        (line,) = publisher.communicate(timeout=60)[0].splitlines()
    assert publisher.returncode == 1
    assert line.startswith("publisher.py: there is no cuda:99")
    assert line.endswith("[ML019]")
