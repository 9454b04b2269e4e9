"""The tsunami example with its surfaces on a GPU: the CUDA stand-in runs the example's kernels."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import dlpack_structs
import numpy as np
import pytest
from fakecuda_build import FOLDER, require_stand_in

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tsunami"
sys.path.append(str(EXAMPLE))
from surface import SurfaceReader, on_host  # noqa: E402

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

RANKS = 2
PROGRAMS = FOLDER / "bin"  # where tsunami_simulation has its kernels from the stand-in


@pytest.fixture
def ground(memlease_daemon):
    """Share a coast that rises to the east, with waves where the example's earthquake is."""
    longitude, latitude = np.linspace(-126, -122, 60), np.linspace(48, 50, 41)
    bed = 700 * (longitude + 123) + 40 * np.sin(9 * latitude)[:, None]
    with memlease_daemon.connect() as client:
        for name, values in (("bed", bed), ("longitude", longitude), ("latitude", latitude)):
            client.put(f"tsunami/{name}", values.astype("f4") if name == "bed" else values)
        yield


@contextlib.contextmanager
def simulation(device, gpus="0"):
    """Run the ranks; they keep their last step until the end of the block."""
    command = ["mpirun", "-n", str(RANKS), "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    command += ["--mca", "btl_vader_single_copy_mechanism", "none"]
    command += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command += [str(PROGRAMS / "tsunami_simulation"), "--linger", "--duration", "600"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": gpus}
    ranks = subprocess.Popen(
        [*command, "--device", device],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment,
    )  # fmt: skip
    try:
        yield
        output = ranks.communicate("", timeout=60)[0]
        assert ranks.returncode == 0, output
    finally:
        ranks.kill()
        ranks.wait()


def read_surfaces(here):
    """Return each whole step that the example's reader sees, as bytes."""

    def stream_on(gpu):
        here.call("cudaSetDevice", gpu)
        return here.stream(f"gpu {gpu}")

    reader = SurfaceReader(here.client, RANKS, "test", stream_on)
    seen = {}
    for frame in reader.frames():
        if {part.version for part in frame.parts} == {frame.version}:
            seen[frame.version] = b"".join(on_host(part).tobytes() for part in frame.parts)
    return seen


@pytest.mark.timeout(120)
@pytest.mark.parametrize("gpus", ["0", "0,1"], ids=["ranks share a GPU", "a GPU for each rank"])
def test_a_gpus_surfaces_are_bit_for_bit_those_of_the_host(gpu, ground, gpus):
    """As one source is compiled for both. On hardware two functions, of friction, may differ."""
    gpu.world.set("delay_us", 500)
    seen = {}
    for device in ("cuda:0", "host"):
        reader = gpu.process()
        reader.start(read_surfaces)
        with simulation(device, gpus):
            seen[device] = reader.result()
    both = seen["cuda:0"].keys() & seen["host"].keys()
    last = max(seen["host"])
    assert last > 20
    assert last in both
    assert all(seen["cuda:0"][version] == seen["host"][version] for version in both)
    heights = np.frombuffer(seen["host"][last], "f4")
    assert np.isnan(heights).any()
    assert np.nanmax(np.abs(heights)) > 0.5


@pytest.mark.timeout(120)
def test_a_reader_that_does_not_wait_is_found(gpu, ground):
    """The negative control of the test above."""
    reader = gpu.process()
    reader.start(look_without_waiting)
    with simulation("cuda:0"):
        reader.result()
    findings = gpu.findings()
    assert any(
        " tk_check " in finding and " surface " in finding
        for finding in findings.split("nothing orders them")
    ), findings


def look_without_waiting(here):
    surface = here.client.wait_for("tsunami/rank0/surface", 60)
    with surface.read(timeout=60) as lease:
        capsule = lease.__dlpack__(stream=-1, max_version=(1, 0))  # -1: it sees to the order
        here.look(dlpack_structs.look(capsule).tensor.data, 100, 0, here.stream())
        del capsule
        lease.release(here.stream())


@pytest.mark.timeout(180)
def test_the_demo(fake_cuda, stand_in_path, monkeypatch, tmp_path):
    """All of it, with readers that have no CUDA of their own: they take copies, and say so."""
    fake_cuda.set("delay_us", 3000)  # a pace that readers can come and go at
    monkeypatch.setenv("PATH", f"{PROGRAMS}:{os.environ['PATH']}")
    short = ("--duration", "3000", "--refinement", "2", "--pictures", "5", "--visits", "2")
    text, status = demo("--out", tmp_path, "--device", "cuda:0", *short, "--window", "0.2")
    assert status == 0, text
    assert "from the GPU to the host, for gauges, render" in text
    gauges = json.loads((tmp_path / "gauges.json").read_text())
    assert gauges["copies"] >= gauges["versions"] > 1
    assert json.loads((tmp_path / "rank0.json").read_text())["copies"] == 0
    assert (tmp_path / "tsunami.gif").stat().st_size > 1000


def test_the_demo_says_at_once_what_a_gpu_would_need(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    text, status = demo("--out", tmp_path, "--device", "cuda:0")
    assert status == 1, text
    assert "leave --device out" in text
    assert "Traceback" not in text
    assert not (tmp_path / "gauges.log").exists()  # nothing else has been started


def demo(*options):
    run = subprocess.run(
        [sys.executable, EXAMPLE / "run.py", *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=150, check=False,
    )  # fmt: skip
    return run.stdout, run.returncode
