"""What a user reads where GPUs cannot serve: containers apart, an old driver, no CUDA runtime."""

import os
import re
import subprocess

import pytest
from conftest import clean_environment, program
from fakecuda_build import BUILD, require_stand_in
from test_gpu import check, create

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]
pytestmark = [
    pytest.mark.stand_in_only,
    pytest.mark.usefixtures("fake_cuda", "stand_in_path"),
]

IN_A_PID_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")


def sharing(daemon, *before):
    """Return what doctor --gpu says of sharing, perhaps started by another program."""
    command = [*before, program("memleasectl"), "--directory", daemon.directory, "doctor", "--gpu"]
    result = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60,
                            env=clean_environment(), check=False)  # fmt: skip
    assert result.returncode == 1, result.stderr
    return check(result, "gpu_sharing")


@pytest.mark.parametrize(
    ("call", "error", "remedy"),
    [
        ("cudaIpcOpenMemHandle", 201, "--pid=host"),
        ("cudaIpcOpenMemHandle", 205, "--pid=host"),
        ("cudaIpcOpenMemHandle", 400, "--pid=host"),
        ("cudaIpcOpenMemHandle", 801, "no CUDA IPC"),
    ],
)
def test_what_does_not_open_usually_lies_in_another_container(
    fake_cuda, daemon, call, error, remedy
):
    fake_cuda.fail(call, error, 1, -1)
    refusal = create(daemon, "a", 1, "cuda:0", check=False)
    assert f"({error})" in refusal
    assert remedy in refusal
    assert "Unsupported" in refusal
    said = sharing(daemon)
    assert f"({error})" in said["reason"]
    assert remedy in said["remedy"]


def test_another_error_is_not_put_down_to_containers(fake_cuda, daemon):
    """A control."""
    fake_cuda.fail("cudaIpcOpenMemHandle", 719, 1, -1)
    refusal = create(daemon, "a", 1, "cuda:0", check=False)
    assert "Internal" in refusal
    assert "host" not in refusal
    assert "restarted" in refusal


def test_a_private_dev_shm_is_no_obstacle(fake_cuda, daemon):
    """CUDA's events of other processes would need a common one."""
    fake_cuda.set("events_private", 1)
    assert check(daemon.ctl("doctor", "--json", "--gpu"), "gpu_sharing")["result"] == "ok"


def test_a_private_pid_namespace_is_named(fake_cuda, daemon):
    fake_cuda.set("pid_namespace_matters", 1)
    assert "--pid=host" in sharing(daemon, *IN_A_PID_NAMESPACE)["remedy"]
    assert check(daemon.ctl("doctor", "--json", "--gpu"), "gpu_sharing")["result"] == "ok"


OLD = "the NVIDIA driver is too old: it serves CUDA 12.8, and GPU arrays need 13.0"
NO_GPU = "there is no GPU to share an array on"  # the line above says why


def test_an_old_driver_is_named_with_both_versions(fake_cuda, daemon):
    fake_cuda.set("driver_version", 12080)
    refusal = create(daemon, "a", 1, "cuda:0", check=False)
    assert f"Unsupported: {OLD} (Install driver 580" in refusal
    seen = check(daemon.ctl("doctor", "--json"), "gpu")
    assert seen["reason"] == f"no GPU arrays: {OLD}"
    assert "driver 580" in seen["remedy"]
    assert sharing(daemon)["reason"] == NO_GPU


def of_the_daemon(daemon):
    """Return its refusal to make an array on a GPU that the client does not look for."""
    refusal = create(daemon, "a", 1, "GPU-0", check=False)
    assert f"Unsupported: the daemon (pid {daemon.process.pid}) has no GPU: " in refusal
    return refusal


def test_a_daemon_with_an_old_driver_says_so(fake_cuda, daemon):
    fake_cuda.set("driver_version", 12080)
    assert OLD in of_the_daemon(daemon)


@pytest.fixture
def plugin_without_a_runtime(tmp_path, monkeypatch):
    """Make a plug-in that needs a runtime which no machine has, for all that starts from now on."""
    plugin = tmp_path / "lib" / "libmemlease_cuda.so"
    plugin.parent.mkdir()
    made = (BUILD / "lib" / plugin.name).read_bytes()
    plugin.write_bytes(made.replace(b"libcudart.so.13", b"libcudart.so.00"))
    monkeypatch.setenv("MEMLEASE_CUDA_PLUGIN", str(plugin))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere/a:/nowhere/b")
    return plugin


def test_a_missing_runtime_is_said_to_be_missing_where_it_was_looked_for(
    plugin_without_a_runtime, daemon
):
    seen = check(daemon.ctl("doctor", "--json"), "gpu")
    for words in (seen["reason"], create(daemon, "a", 1, "cuda:0", check=False),
                  of_the_daemon(daemon)):  # fmt: skip
        assert (
            "libcudart.so.00 was not found: not in LD_LIBRARY_PATH (/nowhere/a:/nowhere/b)" in words
        )
        (listed,) = re.findall(rf"RUNPATH of {plugin_without_a_runtime} \((.+?)\)", words)
        assert listed.split(", ") == folders_of(plugin_without_a_runtime)
    assert "pip install 'nvidia-cuda-runtime" in seen["remedy"]
    assert sharing(daemon)["reason"] == NO_GPU


def folders_of(library):
    """Return its RUNPATH as binutils read it."""
    dump = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True)
    (path,) = re.findall(r"\(RUNPATH\).+\[(.+)\]", dump.stdout)
    folders = path.replace("$ORIGIN", str(library.parent)).split(":")
    return [os.path.normpath(it) for it in folders if it]


def test_without_ld_library_path_it_says_that(plugin_without_a_runtime, daemon, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH")
    reason = check(daemon.ctl("doctor", "--json"), "gpu")["reason"]
    assert "not in LD_LIBRARY_PATH (not set)" in reason
