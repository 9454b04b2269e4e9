"""The examples, run as the README says."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
# About four seconds of a run on two cores: enough for a reader to leave and another to be killed.
SHORT = ("--duration", "3000", "--refinement", "3", "--pictures", "5", "--visits", "2")


def demo(out, *options, **popen):
    command = [sys.executable, str(EXAMPLES / "tsunami" / "run.py"), "--out", str(out)]
    return subprocess.Popen(
        [*command, *SHORT, "--window", "0.3", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **popen,
    )


def processes_with(variable):
    """Pids of processes whose environment has `variable`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.timeout(60)
def test_hello(memlease_daemon):
    program = shutil.which("hello", path=str(Path(os.environ["MEMLEASE_BUILD_DIR"], "bin")))
    reader = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "hello" / "hello.py")], stdout=subprocess.PIPE, text=True
    )
    subprocess.run([program], check=True, timeout=30)
    lines = reader.communicate(timeout=30)[0].splitlines()
    assert reader.returncode == 0
    assert lines.pop() == "the writer has ended"
    assert lines
    for line in lines:
        version, mean = line.removeprefix("version ").split(": mean ")
        assert int(version) <= float(mean) <= 50  # the step's number, and one may be skipped


def test_numbas_kernel_runs_by_its_simulator(memlease_daemon):
    pytest.importorskip("numba_cuda")
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / "gpu" / "add_index_tuple_numba.py"), "host"],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "version 2: 0 of 56 elements are wrong\n"


def test_hello_says_why_it_cannot_connect(tmp_path):
    program = shutil.which("hello", path=str(Path(os.environ["MEMLEASE_BUILD_DIR"], "bin")))
    nowhere = os.environ | {"MEMLEASE_DIR": str(tmp_path / "missing" / "run")}
    run = subprocess.run([program], capture_output=True, text=True, env=nowhere, timeout=30)
    assert run.returncode == 1
    assert "[ML015]" in run.stderr


def without(folder, *modules):
    """Return an environment whose Python does not find these modules."""
    folder.mkdir()
    for name in modules:
        line = f"raise ModuleNotFoundError('there is no {name} here', name='{name}')"
        (folder / f"{name}.py").write_text(line)
    return os.environ | {"PYTHONPATH": str(folder)}


@pytest.mark.no_asan  # about what it imports
@pytest.mark.timeout(180)
def test_tsunami_needs_no_framework(tmp_path):
    bare = without(tmp_path / "bare", "torch", "jax", "ray", "pyarrow")
    run = demo(tmp_path, env=bare | {"DEMO_TEST": str(os.getpid())})
    text = run.communicate(timeout=150)[0]
    assert run.returncode == 0, text
    assert "gauges (NumPy)" in text
    assert "100%" in text
    assert "kill -9 of a reader" in text
    assert "Nothing is left behind" in text
    for name in ("tsunami.png", "tsunami.gif", "gauges.png", "gauges.csv"):
        assert (tmp_path / name).stat().st_size > 1000
        assert name in text
    gauges = json.loads((tmp_path / "gauges.json").read_text())
    rank = json.loads((tmp_path / "rank0.json").read_text())
    assert 0 < gauges["versions"] <= rank["versions"]
    assert set(gauges["pages"]["0"]) <= set(rank["pages"]["0"])
    assert gauges["copies"] == rank["copies"] == 0
    assert processes_with(f"DEMO_TEST={os.getpid()}") == []


def test_the_gauges_say_that_pytorch_is_missing(tmp_path):
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / "tsunami" / "gauges.py"), "--library", "torch"],
        capture_output=True, text=True, env=without(tmp_path / "bare", "torch"), timeout=60,
    )  # fmt: skip
    assert run.returncode == 1
    assert "PyTorch was asked for and is not installed" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.timeout(60)
def test_the_gauges_read_the_same_with_pytorch_and_numpy(memlease_client, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES / "tsunami"))
    from gauges import chosen_levels

    surface = np.arange(12, dtype="f4").reshape(3, 4)
    parts = [memlease_client.put(f"rank{rank}", surface * rank) for rank in (1, 2)]
    seen = {}
    for library in ("numpy", "auto"):
        levels = chosen_levels(library)
        with levels.within([]), parts[0].read() as south, parts[1].read() as north:
            levels.look([south, north], [(0, 1, 2), (1, 0, 3)])
        seen[levels.library] = levels.table().tolist()
    assert seen == {"NumPy": [[6, 6]], "PyTorch": [[6, 6]]}


@pytest.mark.timeout(120)
def test_tsunami_interrupted(tmp_path):
    mark = f"{os.getpid()} {time.monotonic_ns()}"
    run = demo(tmp_path, "--duration", "9000", env=os.environ | {"DEMO_TEST": mark})
    seen = next(line for line in run.stdout if "version" in line)
    run.send_signal(signal.SIGINT)
    text = run.communicate(timeout=60)[0]
    assert run.returncode == 130, seen + text
    assert "Nothing is left behind" in text
    assert processes_with(f"DEMO_TEST={mark}") == []
