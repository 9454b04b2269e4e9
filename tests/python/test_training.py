"""The example for PyTorch's DataLoader, with workers started in each of the three ways."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "training" / "dataloader.py"


# But for the fork, a worker is a client as any other.
@pytest.mark.parametrize(
    "method",
    ["fork", *(pytest.param(it, marks=pytest.mark.no_asan) for it in ("forkserver", "spawn"))],
)
def test_workers_of_a_data_loader_read_the_array_of_their_dataset(memlease_daemon, method):
    del memlease_daemon
    result = subprocess.run(
        # PyTorch warns where there are fewer processors than workers.
        [sys.executable, "-W", "error", "-W", "ignore::UserWarning", str(PROGRAM), method],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "memlease" not in result.stderr
    assert result.stdout == ("epoch 0: 4 workers, sum 32640.0\nepoch 1: 4 workers, sum 32896.0\n")
