"""What memleasectl says of GPUs, on the CUDA stand-in."""

import json
import subprocess
import sys

import pytest
from conftest import clean_environment
from fakecuda_build import require_stand_in

require_stand_in()
pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]

CLIENT = """
import sys, memlease
client = memlease.connect(sys.argv[1], start=False)
client.create("a", shape=(1 << 20,), dtype="u1", slots=2, device="cuda:0", lifetime="persistent")
"""


@pytest.fixture
def with_array(fake_cuda, stand_in_path, start_daemon):
    """Start a daemon with an array of two slots of 1 MiB on a GPU."""
    daemon = start_daemon("--gpu-memory-limit-bytes=96MiB", "--gpu-quota-bytes=3MiB")
    subprocess.run([sys.executable, "-c", CLIENT, daemon.directory], check=True,
                   env=clean_environment())  # fmt: skip
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


@pytest.mark.parametrize(
    ("shape", "option"), [("2 << 20,", "gpu_quota_bytes"), ("200 << 20,", "gpu_quota_bytes")]
)
def test_the_quota_of_a_gpu_is_apart_from_the_hosts(with_array, shape, option):
    code = CLIENT.replace("1 << 20,", shape).replace('"a"', '"b"')
    result = subprocess.run([sys.executable, "-c", code, with_array.directory], check=False,
                            capture_output=True, text=True, env=clean_environment())  # fmt: skip
    assert "QuotaExceeded" in result.stderr
    assert option in result.stderr
    host = code.replace("cuda:0", "host")
    subprocess.run([sys.executable, "-c", host, with_array.directory], check=True,
                   env=clean_environment())  # fmt: skip


def test_doctor_lists_the_gpus(fake_cuda, stand_in_path, daemon):
    result = daemon.ctl("doctor", "--json")
    assert check(result, "gpu")["result"] == "ok"
    assert "cuda:0" in check(result, "gpu")["reason"]
    assert daemon.json("status")["gpus"] == []


def test_doctor_shares_an_array_on_each_gpu_if_asked(fake_cuda, stand_in_path, daemon):
    result = daemon.ctl("doctor", "--json", "--gpu")
    assert check(result, "gpu_sharing")["result"] == "ok", result.stdout
    assert daemon.json("status")["gpus"] != []
    assert daemon.json("ls") == {"arrays": []}
    assert daemon.json("sessions") == {"sessions": []}


def test_without_a_gpu_doctor_says_so(daemon):
    assert check(daemon.ctl("doctor", "--json"), "gpu")["result"] == "note"
    result = daemon.ctl("doctor", "--json", "--gpu")
    assert check(result, "gpu_sharing")["result"] == "failed"
    assert result.returncode == 1
