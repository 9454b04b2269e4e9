"""Part 1 of a run on hardware: what it says of a machine on which something is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import without_calls
from fakecuda_build import FOLDER, require_stand_in
from part_script import HARDWARE, MODULES, said_by, world

require_stand_in()
pytestmark = pytest.mark.no_asan  # asks CUDA and Linux alone

LINUX = ["pidfd_open", "futex_waitv", "sealed_memfds", "descriptors"]
CUDA = ["runtime", "driver", "devices", "malloc", "kernel", "error_names"]
WITHOUT_CALLS = Path(without_calls.__file__)


def smoke(*changes, devices=2, **more):
    """Return {check: (result, why)} and the exit status."""
    with world(*changes, devices=devices) as folder:
        said, status = said_by("smoke.py", "all", **{"FAKECUDA_WORLD": folder, **more})
    checks = {it["check"].removeprefix("smoke::"): it for it in said if "check" in it}
    return {name: (it["result"], it["why"]) for name, it in checks.items()}, status


def test_all_is_well():
    found, status = smoke()
    assert status == 0
    assert list(found) == LINUX + CUDA
    assert {result for result, _ in found.values()} == {"passed"}
    assert found["devices"][1].count("fakecuda device, 9.0") == 2


@pytest.mark.parametrize(
    ("check", "why", "changes", "more"),
    [
        ("driver", "no NVIDIA driver", [], {"FAKECUDA_WORLD": ""}),
        ("driver", "the driver is for CUDA 12.4, too old for 13.0", ["driver_version=12040"], {}),
        ("devices", "cudaGetDeviceCount: 100 cudaErrorNoDevice", [], {"devices": 0}),
        ("malloc", "cudaMalloc: 2 cudaErrorMemoryAllocation", ["cudaMalloc!2"], {}),
        ("kernel", "has no image for this GPU", ["cudaLaunchKernel!209"], {}),
        ("kernel", "a toolkit newer than this driver", ["cudaLaunchKernel!222"], {}),
    ],
)
def test_what_is_missing_is_said_and_the_rest_is_not_tried(check, why, changes, more):
    found, status = smoke(*changes, **more)
    nth = CUDA.index(check)
    assert status == 1
    assert [found[it][0] for it in LINUX + CUDA[:nth]] == ["passed"] * (len(LINUX) + nth)
    assert found[check][0] == "failed"
    assert why in found[check][1]
    assert {found[it] for it in CUDA[nth + 1 :]} <= {("skipped", f"{check} has failed")}


@pytest.mark.parametrize(
    ("library", "check"), [("libcudart.so.13", "runtime"), ("libtest_kernels.so", "kernel")]
)
def test_a_library_that_cannot_be_loaded(tmp_path, library, check):
    (tmp_path / library).write_text("no library")
    found, status = smoke(LD_LIBRARY_PATH=f"{tmp_path}:{FOLDER}")
    assert status == 1
    assert found[check][0] == "failed"
    assert "LD_LIBRARY_PATH is /" in found[check][1]


def test_system_calls_that_a_sandbox_refuses_are_said_and_the_rest_goes_on():
    refused = {"pidfd_open": 434, "futex_waitv": 449}
    numbers = ",".join(map(str, refused.values()))
    with world() as folder:
        before = (sys.executable, str(WITHOUT_CALLS), numbers)
        said, status = said_by("smoke.py", "all", before=before, FAKECUDA_WORLD=folder)
    assert status == 0
    for it in (it for it in said if "check" in it):
        name = it["check"].removeprefix("smoke::")
        assert it["result"] == ("failed" if name in refused else "passed")
        assert ("Function not implemented" in it["why"]) == (name in refused)


def test_an_error_with_another_name_is_said_and_does_not_end_a_run(tmp_path):
    script = tmp_path / "otherwise.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(HARDWARE)!r})\nimport smoke\n"
        "smoke._ERROR_NAMES[700] = 'cudaErrorOther'\nsys.exit(smoke.main())\n"
    )
    with world() as folder:
        said, status = said_by(str(script), "all", FAKECUDA_WORLD=folder)
    assert status == 0
    (failed,) = [it for it in said if it.get("result") == "failed"]
    assert failed["check"] == "smoke::error_names"
    assert "cudaErrorIllegalAddress" in failed["why"]


@pytest.mark.parametrize("script", ["smoke.py", "probes.py", "journey.py", "figures.py"])
def test_a_parts_script_lists_its_checks_without_what_may_be_missing(tmp_path, script):
    for name in ("numpy", "memlease", "pytest"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not here')")
    path = os.pathsep.join([str(tmp_path), *MODULES])
    (listed,), status = said_by(script, LD_LIBRARY_PATH="", PYTHONPATH=path)
    assert status == 0
    assert listed
