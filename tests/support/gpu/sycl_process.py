"""A process with a SYCL runtime, which runs a test's functions, for one pytest module.

The runtime is that of the CPU: `dpctl`, and `intel-opencl-rt`, which has to be named before a
process starts (requirements/sycl.txt). A module has it with ``pytest_plugins = ["sycl_process"]``.
"""

import gc
import importlib.metadata
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_process import Process


class Here:
    """What a test's function has in that process."""

    def __init__(self) -> None:
        self.queue: Any = None
        self.client: Any = None
        self.kept: dict[str, Any] = {}

    def close(self) -> None:
        """Let go of all that the test has kept."""
        self.kept.clear()
        if self.client is not None:
            self.client.close()


def begin(here: Here, directory: str) -> str:
    """Load the runtime, and connect; return why it cannot be loaded, if so."""
    import memlease

    try:
        import dpctl

        here.queue = here.queue or dpctl.SyclQueue("opencl:cpu")
    except Exception as error:  # of several libraries and their loaders
        return f"the SYCL runtime cannot be loaded: {type(error).__name__}: {error}"
    here.client = memlease.connect(directory, start=False)
    return ""


def end(here: Here) -> None:
    """Leave nothing to the daemon: errors that a test has caught keep leases in circles."""
    gc.collect()
    here.close()
    here.client = None


def opencl_of_the_cpu() -> str:
    """Return the path of its OpenCL library; skip where it is not installed."""
    try:
        files = importlib.metadata.files("intel-opencl-rt") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("intel-opencl-rt is not installed: pip install -r requirements/sycl.txt")
    return str(next(Path(it.locate()).resolve() for it in files if it.name == "libintelocl.so"))


@pytest.fixture(scope="module")
def sycl_process() -> Iterator[Process]:
    """Start it, once a module: to load the runtime takes a second."""
    library = opencl_of_the_cpu()
    pytest.importorskip("dpctl", reason="dpctl is not installed: see requirements/sycl.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCL_ICD_FILENAMES", library)
        paths = [os.path.dirname(library), os.environ.get("LD_LIBRARY_PATH", "")]
        patch.setenv("LD_LIBRARY_PATH", ":".join(filter(None, paths)))
        process = Process(Here)  # type: ignore[arg-type]
    try:
        yield process
        process.close()
    finally:
        process.kill()


@pytest.fixture
def sycl(sycl_process: Process, memlease_daemon: Any) -> Iterator[Process]:
    """Give the test that process, connected to the test's daemon."""
    if why := sycl_process.run(begin, memlease_daemon.directory):
        pytest.skip(why)
    yield sycl_process
    sycl_process.run(end)
