"""DLPack tensors that outlive the Python interpreter which exported them."""

import os
import re
import subprocess
import sys

import pytest
from fakecuda_build import BUILD, IS_STAND_IN, require_stand_in
from gpu_arrays import create

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

KEEP = """
import ctypes, sys
path, loaded, kept = sys.argv[1:]
if loaded == "first":
    library = ctypes.CDLL(path)
import dlpack_structs, memlease
lease = memlease.connect(start=False).open("a").read()
capsule = lease.__dlpack__(max_version=(1, 0))
managed = dlpack_structs.look(capsule)
if loaded == "last":
    library = ctypes.CDLL(path)
if kept == "ours":
    dlpack_structs.take(capsule)
    deleter = ctypes.c_void_p(managed.deleter)
    library.keep_to_the_end(ctypes.c_void_p(ctypes.addressof(managed)), deleter)
elif kept == "python's":
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(print)
    library.keep_to_the_end(None, deleter)
else:
    sys.kept = capsule
"""


def end_with(loaded, kept):
    """Export a tensor in a process that ends before the tensor is deleted; how that ended."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    library = BUILD / "tests" / "liblate_deleter.so"
    command = [sys.executable, "-c", KEEP, library, loaded, kept]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("device", ["host", "cuda"])
@pytest.mark.parametrize("loaded", ["first", "last"])
def test_the_deleter_runs_after_the_interpreter(gpu, device, loaded):
    """R-DLP-21: by a library that ends after CUDA and ours, or before them."""
    writer = gpu.process()
    writer.run(create_and_fill, device)
    run = end_with(loaded, "ours")
    assert (run.returncode, run.stderr, run.stdout) == (0, "", "deleted\n")
    writer.run(fill_again)
    expect_what_is_kept(gpu, device)


@pytest.mark.parametrize("device", ["host", "cuda"])
def test_the_capsule_dies_with_the_interpreter(gpu, device):
    """R-DLP-21: with nobody who has taken the tensor over."""
    writer = gpu.process()
    writer.run(create_and_fill, device)
    run = end_with("never", "in sys")
    assert (run.returncode, run.stderr, run.stdout) == (0, "", "")
    writer.run(fill_again)
    expect_what_is_kept(gpu, device)


def test_a_deleter_that_needs_the_interpreter_fails(gpu):
    """R-DLP-21: a control; it is not enough that the process ends."""
    gpu.run(create_and_fill, "host")
    run = end_with("last", "python's")
    assert run.returncode != 0
    assert "deleted" not in run.stdout


def create_and_fill(here, device):
    create(here, device=device, slots=1, fill=1)


def fill_again(here):
    here.kept["a"].write(wait=0).drop()


# A tensor without a lease does not tell where its work ends: until the process has ended, nothing
# is closed that a kernel might still use. The end is what closes it.
KEPT = (
    r"leak: process \d+ \(python\) ended and kept 1 open memory handles, 2 pinned host buffers\n"
    r"1 findings .*"
)


def expect_what_is_kept(gpu, device):
    if IS_STAND_IN:
        assert re.fullmatch(KEPT if device == "cuda" else "", gpu.findings().strip())
