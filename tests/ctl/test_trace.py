"""`memleasectl trace`: a file that follows Chrome's JSON trace format."""

import itertools
import json
import signal
import subprocess
import sys

import pytest
from conftest import DEADLINE_S, clean_environment, until
from running import Publisher, Running

# Reads sim/u until its input ends.
READER = """
import sys, memlease
with memlease.connect(sys.argv[1], start=False) as client, client.open("sim/u").read() as lease:
    print("reads", flush=True)
    sys.stdin.read()
"""

# What each kind of event must have, by the format's description.
REQUIRED = {
    "X": {"name", "cat", "ts", "dur", "pid", "tid", "args"},
    "i": {"name", "cat", "ts", "s", "pid", "tid", "args"},
    "C": {"name", "ts", "pid", "tid", "args"},
    "M": {"name", "pid", "tid", "args"},
}


def check_format(trace):
    """Assert what the format asks for, and what Perfetto needs beyond it."""
    assert isinstance(trace["traceEvents"], list)
    assert trace["displayTimeUnit"] in ("ms", "ns")
    slices = {}
    for event in trace["traceEvents"]:
        assert REQUIRED[event["ph"]] <= event.keys(), event
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event.get("ts", 0) >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            slices.setdefault((event["pid"], event["tid"]), []).append(event)
        if event["ph"] == "C":
            assert all(isinstance(value, int) for value in event["args"].values())
        if event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
    for line in slices.values():  # of one thread's slices none may overlap another
        line.sort(key=lambda event: event["ts"])
        for one, other in itertools.pairwise(line):
            assert one["ts"] + one["dur"] <= other["ts"]
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert slices.keys() <= named


def has_versions(file):
    return file.exists() and '"ph": "C"' in file.read_text()


@pytest.fixture
def publisher(daemon):
    publisher = Publisher(daemon, "sim/u")
    yield publisher
    publisher.end()


@pytest.fixture
def reader(daemon, publisher):
    publisher.publish(3)
    process = subprocess.Popen(
        [sys.executable, "-c", READER, daemon.directory],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment(),
    )  # fmt: skip
    assert process.stdout.readline() == "reads\n"
    yield process
    process.communicate(timeout=DEADLINE_S)


def test_a_trace_has_leases_versions_and_events(daemon, publisher, reader, tmp_path):
    file = tmp_path / "trace.json"
    running = Running(daemon, "trace", "--duration", 60, "--rate", 100, "-o", file, "--json")

    try:
        until(lambda: publisher.publish() and has_versions(file), "the trace has versions")
        published = publisher.publish()
        daemon.ctl("withdraw", "sim/u")
    finally:
        running.process.send_signal(signal.SIGINT)
    code, out, err = running.end()
    assert (code, err) == (0, "")
    said = json.loads(out)
    trace = json.loads(file.read_text())
    check_format(trace)
    assert trace["otherData"] == said
    assert said["samples"] > 1
    assert said["leases"] >= 1

    events = trace["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes[daemon.process.pid] == "memleased"
    assert reader.pid in processes
    read = [e for e in events if e["ph"] == "X" and e["pid"] == reader.pid]
    assert [e["name"] for e in read] == ["reads v3"]
    assert read[0]["args"]["array"] == "sim/u"
    versions = [e["args"]["version"] for e in events if e["ph"] == "C"]
    assert versions == sorted(versions)
    assert 3 <= versions[0] < versions[-1] <= published
    assert "withdrawn sim/u" in {e["name"] for e in events if e.get("cat") == "event"}


def test_a_trace_ends_by_itself(daemon, tmp_path):
    file = tmp_path / "trace.json"
    result = daemon.ctl("trace", "--duration", "0.1", "--output", file)
    assert result.returncode == 0
    assert str(file) in result.stdout
    check_format(json.loads(file.read_text()))


def test_a_trace_of_a_daemon_that_dies_is_whole(daemon, publisher, reader, tmp_path):
    file = tmp_path / "trace.json"
    running = Running(daemon, "trace", "--duration", 60, "--rate", 100, "-o", file)
    until(lambda: publisher.publish() and has_versions(file), "the trace has versions")
    daemon.signal(signal.SIGKILL)
    code, _, err = running.end()
    assert code == 4
    assert "[ML" in err
    trace = json.loads(file.read_text())
    check_format(trace)
    assert "reads v3" in {event["name"] for event in trace["traceEvents"]}


def test_a_file_that_cannot_be_written_is_an_error_at_once(daemon, tmp_path):
    result = daemon.ctl("trace", "--duration", "60", "-o", tmp_path / "none" / "trace.json")
    assert result.returncode == 2
    assert "none/trace.json" in result.stderr
    assert daemon.ctl("trace").returncode == 2


def test_a_full_disk_is_an_error(daemon):
    result = daemon.ctl("trace", "--duration", "0.1", "-o", "/dev/full")
    assert result.returncode == 1
    assert "/dev/full" in result.stderr
