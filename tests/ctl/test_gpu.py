"""What memleasectl says of GPUs, on the CUDA stand-in."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import clean_environment, program
from fakecuda_build import require_stand_in
from test_terminal import on_terminal

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

CLIENT = """
import sys, memlease
directory, name, size, device = sys.argv[1:]
memlease.connect(directory, start=False).create(
    name, shape=int(size), dtype="u1", slots=2, device=device, lifetime="persistent"
)
"""


def create(daemon, name, megabytes, device, check=True):
    """Create an array of two slots in a process; what that wrote to stderr."""
    command = [sys.executable, "-c", CLIENT, daemon.directory, name, str(megabytes << 20), device]
    result = subprocess.run(command, check=check, capture_output=True, text=True,
                            env=clean_environment())  # fmt: skip
    return result.stderr


@pytest.fixture
def with_array(fake_cuda, stand_in_path, start_daemon):
    """Start a daemon with an array of two slots of 1 MiB on a GPU."""
    daemon = start_daemon("--gpu-memory-limit-bytes=96MiB", "--gpu-quota-bytes=3MiB")
    create(daemon, "a", 1, "cuda:0")
    yield daemon
    daemon.ctl("withdraw", "a")


def check(result, name):
    return next(each for each in json.loads(result.stdout)["checks"] if each["name"] == name)


def test_status_has_a_line_for_each_gpu_in_use(with_array):
    status = with_array.json("status")
    assert status["array_bytes"] == 0
    (gpu, *others) = [each for each in status["gpus"] if each["array_bytes"]]
    assert not [each for each in others if each["memory_bytes"]]
    assert gpu["array_bytes"] == 2 << 20
    assert gpu["memory_bytes"] == 64 << 20
    assert gpu["memory_limit_bytes"] == 96 << 20
    assert gpu["total_bytes"] > 0
    assert gpu["name"]
    (quota,) = status["gpu_quotas"]
    assert (quota["device"], quota["bytes"]) == (gpu["device"], 2 << 20)
    assert quota["bytes_limit"] == 3 << 20
    assert gpu["device"] in with_array.ctl("status").stdout


def test_a_gpu_has_a_short_name_in_tables_on_a_terminal_alone(with_array):
    uuid = with_array.json("ls")["arrays"][0]["device"]
    for command in ("ls", "status"):
        on_screen = on_terminal(with_array, command)
        assert f" {uuid[:12]}... " in on_screen.replace("\n", " ")
        assert uuid not in on_screen
        assert uuid in with_array.ctl(command).stdout
    assert uuid in on_terminal(with_array, "info", "a")


def gpu_of(daemon, refusal):
    """Return the UUID of the GPU that a refusal names."""
    (gpu,) = [each["device"] for each in daemon.json("status")["gpus"] if each["device"] in refusal]
    return gpu


def test_the_quota_of_a_gpu_is_apart_from_the_hosts(with_array):
    refusal = create(with_array, "b", 2, "cuda:0", check=False)
    assert "QuotaExceeded" in refusal
    assert "gpu_quota_bytes" in refusal
    assert f"bytes on {gpu_of(with_array, refusal)}," in refusal
    create(with_array, "b", 2, "host")


def test_the_memory_limit_of_a_gpu_is_apart_from_the_hosts(fake_cuda, stand_in_path, start_daemon):
    daemon = start_daemon("--gpu-memory-limit-bytes=96MiB")
    refusal = create(daemon, "b", 50, "cuda:0", check=False)
    assert "OutOfMemory" in refusal
    assert "gpu_memory_limit_bytes" in refusal
    assert f"do not fit on {gpu_of(daemon, refusal)}:" in refusal
    create(daemon, "b", 50, "host")


def test_doctor_lists_the_gpus(fake_cuda, stand_in_path, daemon):
    result = daemon.ctl("doctor", "--json")
    assert check(result, "gpu")["result"] == "ok"
    assert "cuda:0" in check(result, "gpu")["reason"]
    assert daemon.json("status")["gpus"] == []


def test_the_plug_in_is_found_beside_the_program_alone(fake_cuda, stand_in_path, tmp_path):
    """Called by its bare name, from a folder whose owner may be anybody."""
    for folder in (tmp_path / "lib", tmp_path / "here"):
        folder.mkdir()
        (folder / "libmemlease_cuda.so").write_text("not this one")
    path = Path(program("memleasectl")).parent
    result = subprocess.run(["memleasectl", "doctor", "--json"], cwd=tmp_path / "here", text=True,
                            env=clean_environment(PATH=str(path)), capture_output=True,
                            check=False)  # fmt: skip
    assert check(result, "gpu")["result"] == "ok", result.stdout


def test_doctor_shares_an_array_on_each_gpu_if_asked(fake_cuda, stand_in_path, daemon):
    result = daemon.ctl("doctor", "--json", "--gpu")
    assert check(result, "gpu_sharing")["result"] == "ok", result.stdout
    assert daemon.json("status")["gpus"] != []
    assert daemon.json("ls") == {"arrays": []}
    assert daemon.json("sessions") == {"sessions": []}


def test_without_a_gpu_doctor_says_so(daemon):
    assert check(daemon.ctl("doctor", "--json"), "gpu")["result"] == "note"
    result = daemon.ctl("doctor", "--json", "--gpu")
    sharing = check(result, "gpu_sharing")
    assert sharing["result"] == "failed"
    assert result.returncode == 1
    seen = check(result, "gpu")
    assert seen["reason"].startswith("no GPU arrays: no NVIDIA driver was found")
    assert seen["remedy"] != ""
    assert sharing["remedy"] == 'See the line "gpu".', "a reason is told once"


def test_a_daemon_that_sees_no_driver_is_named(fake_cuda, stand_in_path, start_daemon, monkeypatch):
    world = os.environ["FAKECUDA_WORLD"]
    monkeypatch.delenv("FAKECUDA_WORLD")
    daemon = start_daemon()
    monkeypatch.setenv("FAKECUDA_WORLD", world)
    reason = f"the daemon (pid {daemon.process.pid}) has no GPU: no NVIDIA driver was found"
    refusal = create(daemon, "a", 1, "cuda:0", check=False)
    assert "Unsupported" in refusal
    assert reason in refusal
    result = daemon.ctl("doctor", "--json", "--gpu")
    assert check(result, "gpu")["result"] == "ok"
    assert check(result, "gpu_sharing")["reason"] == f"cuda:0: {reason}"
    assert "restart it where it sees the driver" in check(result, "gpu_sharing")["remedy"]


@pytest.mark.parametrize("world", ["without a driver", "without a visible GPU"])
def test_doctor_prints_what_to_do_about_gpus(request, daemon, world):
    if world == "without a visible GPU":
        for fixture in ("fake_cuda", "stand_in_path"):
            request.getfixturevalue(fixture)
    lines = daemon.ctl("doctor", "--gpu", CUDA_VISIBLE_DEVICES="").stdout.splitlines()
    found = [i for i, line in enumerate(lines) if line.split()[1] in ("gpu", "gpu_sharing")]
    assert [lines[i].split()[0] for i in found] == ["note", "FAILED"]
    assert all(lines[i + 1].strip().startswith("-> ") for i in found)


def test_a_failure_to_share_says_once_why_and_what_to_do(fake_cuda, stand_in_path, start_daemon):
    """The GPU has room for no segment of the daemon's."""
    daemon = start_daemon("--gpu-memory-limit-bytes=1MiB")
    sharing = check(daemon.ctl("doctor", "--json", "--gpu"), "gpu_sharing")
    assert sharing["result"] == "failed"
    assert sharing["reason"].startswith("cuda:0: ")
    assert sharing["reason"].count("do not fit on GPU-") == 1
    assert "gpu_memory_limit_bytes" in sharing["remedy"]
    assert sharing["remedy"] not in sharing["reason"]
