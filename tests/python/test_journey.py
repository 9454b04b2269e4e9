"""Parts 3 and 4 of a run on hardware, on the stand-in with the libraries' twins."""

from __future__ import annotations

import ast
import concurrent.futures
import os

import pytest
from fakecuda_build import require_stand_in
from gpu_libraries import KERNELS, LIBRARIES
from part_script import HARDWARE, MODULES, ROOT, said_by, world

require_stand_in()
pytestmark = pytest.mark.no_asan  # what it goes through, tests/conformance does with ASan

JOURNEYS = [
    *LIBRARIES,
    *(f"example_{it}" for it in LIBRARIES),
    *(f"kernel_{it}" for it in KERNELS),
]
FIGURES = [
    "handed_over_at_once",
    "handed_over_behind_work",
    "first_opening",
    "opening_in_a_cached_segment",
    "put_64_mib",
    "get_64_mib",
    "bandwidth_of_a_kernel",
    "add_index_tuple_beside_a_copy",
    "add_index_tuple_beside_itself",
    "refresh_to_a_gpu_64_mib",
    "refresh_to_the_host_64_mib",
]


def said(script, name, *changes, path=None):
    """Return what a script says of one check, with a folder of other modules in front."""
    more = {"PYTHONPATH": os.pathsep.join([str(path), *MODULES])} if path else {}
    with world(*changes) as folder:
        (line,), status = said_by(script, name, FAKECUDA_WORLD=folder, **more)
    assert status == 0
    return line


@pytest.fixture(scope="module")
def done():
    """Do all of both parts, some at once."""
    asked = [("journey.py", it) for it in JOURNEYS] + [("figures.py", it) for it in FIGURES]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return dict(zip(asked, pool.map(lambda case: said(*case), asked), strict=True))


def test_the_checks_are_these():
    assert said_by("journey.py")[0] == [JOURNEYS]
    assert said_by("figures.py")[0] == [FIGURES]


def test_each_figure_is_measured_by_a_function():
    trees = [ast.parse(it.read_text()) for it in HARDWARE.glob("measuring*.py")]
    found = {it.name for tree in trees for it in tree.body if isinstance(it, ast.FunctionDef)}
    assert {*FIGURES} <= found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", JOURNEYS)
def test_a_journey_ends_well(done, name):
    line = done["journey.py", name]
    assert line["check"] == f"journey::{name}"
    assert line["result"] == "passed", line["why"]
    assert line["why"].endswith("all values were right")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_its_counts_and_its_spread(done, name):
    line = done["figures.py", name]
    assert line["figure"] == name
    assert not isinstance(line["is"], str), line["is"]
    sides = dict(line["is"])
    assert sides.pop("ratio") > 0
    assert len(sides) == (3 if name.startswith("handed_over") else 2)
    for side, numbers in sides.items():
        assert side.endswith((", us", ", ms", ", GB/s"))
        assert numbers["n"] >= 5
        assert numbers["min"] <= numbers["median"] <= numbers["p90"]


@pytest.mark.parametrize(
    ("name", "error", "result"),
    [
        ("cupy", "ModuleNotFoundError(\"No module named 'cupy'\")", "skipped"),
        ("example_jax", "ModuleNotFoundError(\"No module named 'jax'\")", "skipped"),
        ("torch", "ImportError('libtorch_cuda.so: undefined symbol')", "failed"),
    ],
)
def test_a_library_that_is_missing_or_broken_is_said(tmp_path, name, error, result):
    (tmp_path / f"{name.removeprefix('example_')}.py").write_text(f"raise {error}\n")
    line = said("journey.py", name, path=tmp_path)
    assert line["result"] == result
    assert error.split("(")[1][1:-2] in line["why"]


def test_a_wrong_value_is_found(tmp_path):
    twin = (ROOT / "tests/support/gpu/twins/torch.py").read_text()
    (tmp_path / "torch.py").write_text(f"{twin}\nArray.max = lambda self: self.min() + 1\n")
    line = said("journey.py", "torch", path=tmp_path)
    assert line["result"] == "failed"
    assert line["why"] == "worker 1: version 1 has 1.0 to 2.0"


def test_a_kernel_that_computes_something_else_is_found(tmp_path):
    twin = (ROOT / "tests/support/gpu/twins/cupy.py").read_text()
    assert "values +=" in twin
    (tmp_path / "cupy.py").write_text(twin.replace("values +=", "values -="))
    line = said("journey.py", "kernel_cupy", path=tmp_path)
    assert line["result"] == "failed"
    assert line["why"] == "it ended with 0: version 2: 55 of 56 elements are wrong"


def test_a_publisher_that_fails_is_named_with_what_it_said():
    line = said("journey.py", "torch", "cudaLaunchKernel!209")
    assert line["result"] == "failed"
    assert line["why"].startswith("the publisher has ended with 1 | a kernel: 209 ")


def test_a_figure_that_cannot_be_measured_says_why():
    line = said("figures.py", "first_opening", "cudaIpcOpenMemHandle!201")
    assert line["is"].startswith("failed: ")
