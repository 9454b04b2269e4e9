"""What marks of tests do, besides being names (pytest.ini)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_asan  # runs pytest alone

LINKING = Path(__file__).with_name("test_linking.py")


def selected(build_dir, grpc):
    """Return how many of the tests of linking are selected, and of how many."""
    (build_dir / "CMakeCache.txt").write_text(f"# Whose\nMEMLEASE_GRPC:STRING={grpc}\nA:STRING=1\n")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", LINKING]
    environment = {**os.environ, "MEMLEASE_BUILD_DIR": str(build_dir)}
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    found = re.search(r"(\d+)(?:/(\d+))? tests collected|no tests collected \((\d+)", ended.stdout)
    assert found, ended.stdout
    some, of, none = found.groups()
    return (0, int(none)) if none else (int(some), int(of or some))


def test_tests_of_a_private_grpc_are_left_out_where_it_is_shared(tmp_path):
    everything = selected(tmp_path, "private")
    assert everything[0] == everything[1] > 0
    assert selected(tmp_path, "shared") == (0, everything[1])
