"""A rival that fails, hangs or dies ends without harm, and says why."""

import sys
import time
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from rivals import link, pair  # noqa: E402

RIVAL = """
import os, subprocess, time

class Producer:
    def __init__(self, setting, inherited):
        pass
    def prepare(self):
        {fault}
    def close(self):
        pass

class Consumer(Producer):
    def hand_over(self):
        pass
"""


@pytest.fixture
def pair_with(tmp_path, monkeypatch):
    """Return a call that makes a pair whose producer does so instead of filling an array."""
    monkeypatch.syspath_prepend(tmp_path)
    pairs = []

    def make(fault):
        (tmp_path / "faulty_rival.py").write_text(RIVAL.format(fault=fault))
        pairs.append(pair.Pair("faulty_rival"))
        setting = link.Setting(directory="", folder="", tag="", name="", words=1, polls=False)
        pairs[0].order(60, "open", setting)
        return pairs[0]

    yield make
    for each in pairs:
        each.stop(0)


@pytest.mark.parametrize(
    ("fault", "limit", "reason"),
    [
        ("raise OSError('no room')", 60, "OSError: no room"),
        ("os._exit(3)", 60, "a process ended with 3"),
        ("os.abort()", 60, "a process ended with -6"),
        ("time.sleep(600)", 0.2, "no answer in 0 s"),
    ],
)
def test_a_fault_is_told(pair_with, fault, limit, reason):
    faulty = pair_with(fault)
    with pytest.raises(pair.PairError, match=reason):
        faulty.order(limit, "run", 1)


def runs(pid):
    """Tell a process from one that is gone, or only left for somebody to collect."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_what_a_rival_has_started_ends_with_it(pair_with):
    faulty = pair_with("subprocess.Popen(['sleep', '600']); time.sleep(600)")
    faulty.begin("run", 1)
    producer = faulty.processes[0]
    deadline = time.monotonic() + 30
    while not (children := pair.descendants(producer.pid)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    faulty.stop(0)
    assert not producer.is_alive()
    while any(runs(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_missing_package_has_a_note(monkeypatch):
    import rivals

    monkeypatch.setattr(sys, "argv", ["bench_rivals.py", "nowhere", "--tiny"])
    import bench_rivals

    absent = rivals.Kind("rivals.with_absent", "absent_rival", "absent-rival", "absent")
    monkeypatch.setattr(bench_rivals, "KINDS", {"absent": absent})
    contest = bench_rivals.Contest("/tmp/unused")
    contest.start()
    assert contest.notes == {"absent": "not installed"}
    assert contest.pairs == {}
