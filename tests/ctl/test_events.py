"""`memleasectl events`: what a real daemon says has happened, and to whom."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import (
    DEADLINE_S,
    Daemon,
    clean_environment,
    ctl,
    open_to_all,
    program,
    until,
)

STRANGER = 54321

WRITER = """
import sys, memlease
client = memlease.connect(sys.argv[1], start=False)
leases = []
for number in range(10):
    array = client.create(f"sim/{number}", shape=1000, dtype="f8", slots=2, max_slots=2)
    array.put(0)
    leases.append(array.write())
    leases[-1][...] = 1
print("writes", flush=True)
sys.stdin.read()
"""


def start_writer(directory):
    """Start a process that is writing ten arrays of two slots."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, directory],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment(),
    )  # fmt: skip
    assert process.stdout.readline() == "writes\n"
    return process


def events(daemon, *args, **kwargs):
    return daemon.json("events", *args, **kwargs)["events"]


def of_kind(daemon, kind):
    return [event for event in events(daemon) if event["event"] == kind]


@pytest.fixture
def logged(tmp_path, directory):
    """Start a daemon whose log is in a file, as objects in JSON."""
    path = tmp_path / "log"
    with path.open("wb") as log:
        daemon = Daemon(directory, "--log-format", "json", stderr=log)
    daemon.log = lambda: [json.loads(line) for line in path.read_text().splitlines()]
    yield daemon
    daemon.end()


def test_the_drill_a_writer_of_ten_arrays_is_killed(logged):
    """The events and the log name process, command, arrays, bytes and time."""
    writer = start_writer(logged.directory)
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=DEADLINE_S)
    until(lambda: of_kind(logged, "died"), "the daemon notices")

    names = [f"sim/{number}" for number in range(10)]
    slots_bytes = 2 * 8000
    reclaimed = of_kind(logged, "reclaimed")
    assert [event["array"] for event in reclaimed] == names
    for event in reclaimed:
        assert event["pid"] == writer.pid
        assert event["uid"] == os.geteuid()
        assert event["bytes"] >= slots_bytes
        assert event["reason"] == "was writing"
        assert 0 <= event["held_ms"] < DEADLINE_S * 1000
        assert event["command"].startswith(sys.executable)
    (death,) = of_kind(logged, "died")
    assert death["bytes"] == sum(event["bytes"] for event in reclaimed)
    assert death["pid"] == writer.pid
    assert death["reason"] == "its process was killed, or called _exit()"
    assert [event["array"] for event in of_kind(logged, "withdrawn")] == names

    lines = [line for line in logged.log() if line["event"].startswith("reclaimed from")]
    shown = ("array", "pid", "uid", "bytes", "command", "reason", "session")
    assert [{key: line[key] for key in shown} for line in lines] == [
        {key: event[key] for key in shown} for event in reclaimed
    ]
    assert [line["held_s"] * 1000 for line in lines] == [e["held_ms"] for e in reclaimed]


ENDS = """
import multiprocessing, os, signal, sys, memlease
def work():
    client = memlease.connect(sys.argv[1], start=False)
    array = client.create("sim/u", shape=4, dtype="f4")
    array.put(0)
    globals().update(locals())  # open until the end
def in_worker(method):
    worker = multiprocessing.get_context(method).Process(target=work)
    worker.start()
    worker.join()
if __name__ == "__main__":
    sys.exit(eval(sys.argv[2]))
"""


def kinds_after(daemon, tmp_path, how):
    """List the kinds of events once a process has worked and ended."""
    path = tmp_path / "ends.py"
    path.write_text(ENDS)
    subprocess.run(
        [sys.executable, path, daemon.directory, how],
        env=clean_environment(), stderr=subprocess.DEVNULL, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    until(lambda: not daemon.json("sessions")["sessions"], "the daemon notices")
    return [event["event"] for event in events(daemon)]


@pytest.mark.parametrize(
    "how",
    [
        "work()",
        "work() or 3",
        "work() or 1 / 0",
        "work() or signal.raise_signal(signal.SIGINT)",
        "in_worker('fork')",
        *(
            pytest.param(f"in_worker('{method}')", marks=pytest.mark.no_asan)  # slow there
            for method in ("forkserver", "spawn")
        ),
    ],
)
def test_a_process_that_ends_by_itself_has_not_died(daemon, tmp_path, how):
    assert kinds_after(daemon, tmp_path, how) == ["created", "withdrawn"]


def test_a_process_that_ends_without_a_word_has_died(daemon, tmp_path):
    kinds = kinds_after(daemon, tmp_path, "work() or os._exit(0)")
    assert kinds == ["created", "reclaimed", "withdrawn", "died"]


def test_events_tell_what_happened_in_order(daemon, client):
    daemon.ctl("evict", client.session)
    daemon.ctl("withdraw", "sim/u")
    client.end()
    until(lambda: of_kind(daemon, "died"), "the daemon notices the exit")
    told = [(event["event"], event["array"], event["pid"]) for event in events(daemon)]
    assert told == [
        ("created", "sim/u", client.pid),
        ("evicted", None, client.pid),
        ("withdrawn", "sim/u", None),
        ("reclaimed", "sim/u", client.pid),
        ("died", None, client.pid),
    ]
    assert [event["number"] for event in events(daemon)] == [1, 2, 3, 4, 5]
    assert [event["number"] for event in events(daemon, "--since", 3)] == [4, 5]
    assert daemon.json("events", "--since", 5) == {"newest": 5, "dropped": 0, "events": []}
    (evicted,) = of_kind(daemon, "evicted")
    assert evicted["reason"] == f"by uid {os.geteuid()}"
    (reclaimed,) = of_kind(daemon, "reclaimed")
    assert evicted["bytes"] == reclaimed["bytes"] >= 3 * 128, "it held a slot of sim/u"


BETWEEN_WRITES = """
import sys, memlease
client = memlease.connect(sys.argv[1], start=False)
array = client.create("sim/u", shape=4, dtype="f4", lifetime="persistent")
array.put(0)
print("has written", flush=True)
sys.stdin.read()
"""


def test_the_operators_guide_finds_the_writer_that_a_reader_waits_for_in_vain(daemon):
    """It was killed between two writes of an array that lives on."""
    page = (Path(__file__).parents[2] / "docs/operations.md").read_text()
    [steps] = re.findall(r"^### A reader hangs\n(.*)", page, re.M | re.S)
    [look, find] = re.findall(r"`(memleasectl (?:info|events)\b[^`]*)`", steps)

    def shell(command):
        path = f"{Path(program('memleasectl')).parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-c", command.replace("NAME", "sim/u")],
            env=clean_environment(MEMLEASE_DIR=daemon.directory, PATH=path),
            capture_output=True, text=True, check=True, timeout=DEADLINE_S,
        ).stdout  # fmt: skip

    writer = subprocess.Popen(
        [sys.executable, "-c", BETWEEN_WRITES, daemon.directory],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment(),
    )  # fmt: skip
    assert writer.stdout.readline() == "has written\n"
    assert re.search(rf"Writer \(pid\) +{writer.pid}\n", shell(look))
    assert "reclaimed" not in shell(find)
    writer.kill()
    writer.communicate(timeout=DEADLINE_S)
    until(lambda: of_kind(daemon, "died"), "the daemon notices")
    assert re.search(r"Version +1\n", shell(look))
    assert re.search(r"Writer \(pid\) +-\n", shell(look))
    [line] = [line for line in shell(find).splitlines() if "reclaimed" in line]
    assert str(writer.pid) in line.split()
    assert "was its writer" in line
    assert sys.executable in line


def test_events_are_a_table(daemon, client):
    titles, created = daemon.ctl("events").stdout.splitlines()
    assert titles.split() == ["NUMBER", "TIME", "EVENT", "ARRAY", "BYTES", "HELD", "PID", "USER",
                              "WHY", "COMMAND"]  # fmt: skip
    assert created.split()[2:4] == ["created", "sim/u"]


def test_an_event_that_has_not_been_is_an_error_of_use(daemon):
    for options in ([], ["--follow"]):
        result = daemon.ctl("events", "--since", 100, *options)
        assert result.returncode == 2
        assert "the newest one is 0" in result.stderr
    assert daemon.ctl("events", "--since", "x").returncode == 2
    assert daemon.ctl("events", "--since", "-1").returncode == 2


@open_to_all
def test_a_user_sees_events_of_what_he_may_see(daemon, client):
    import memlease

    with memlease.connect(daemon.directory, start=False) as here:
        here.create("open", shape=4, dtype="u1", mode=0o644)
    seen = json.loads(
        ctl("--directory", daemon.directory, "events", "--json", user=STRANGER).stdout
    )
    assert {event["array"] for event in seen["events"]} == {"open"}
    assert {"sim/u", "open"} <= {event["array"] for event in events(daemon)}


@open_to_all
def test_everybody_sees_what_the_daemon_does_without(daemon):
    """It lacks a file that it is found by, until that is in its place again."""
    follower = Follower(daemon)
    lock = Path(daemon.directory, "memleased.lock")
    aside = lock.with_name("aside")
    lock.rename(aside)
    degraded = follower.next()
    assert (degraded["event"], degraded["mechanism"]) == ("degraded", "directory")
    assert degraded["reason"] == f"{lock} is gone: nobody new can connect"
    assert degraded["hint"].startswith("Who is connected goes on.")
    for nobodys in ("array", "bytes", "held_ms", "pid", "session", "uid", "slots", "command"):
        assert degraded[nobodys] is None
    aside.rename(lock)
    recovered = follower.next()
    follower.end()
    assert (recovered["event"], recovered["mechanism"]) == ("recovered", "directory")
    assert recovered["reason"] == "the daemon's files are in their place again"
    assert events(daemon) == [degraded, recovered]
    assert events(daemon, user=STRANGER) == [degraded, recovered]
    _, line, _ = daemon.ctl("events").stdout.splitlines()
    assert line.split()[2:10] == ["degraded", *5 * "-", str(lock), "is"]


def test_a_reload_that_makes_hosts_wait_for_gpus_is_told(start_daemon, tmp_path):
    settings = tmp_path / "memleased.toml"
    settings.write_text("")
    daemon = start_daemon("--config", str(settings))
    follower = Follower(daemon)
    for value, event in (("host", "degraded"), ("stream", "recovered")):
        settings.write_text(f'event_waits = "{value}"\n')
        daemon.signal(signal.SIGHUP)
        told = follower.next()
        assert (told["event"], told["mechanism"]) == (event, "event_waits")
        assert f'event_waits is "{value}"' in told["reason"]
    follower.end()


class Follower:
    """Runs `memleasectl events --follow`."""

    def __init__(self, daemon, *options):
        self.process = subprocess.Popen(
            [program("memleasectl"), "--directory", daemon.directory, "events", "--follow",
             "--json", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment(),
        )  # fmt: skip

    def next(self):
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)


def create(daemon, *names):
    import memlease

    with memlease.connect(daemon.directory, start=False) as here:
        for name in names:
            here.create(name, shape=1, dtype="u1").withdraw()


def test_a_follower_hears_of_what_happens(daemon, client):
    follower = Follower(daemon)
    assert follower.next()["array"] == "sim/u"
    create(daemon, "a", "b")
    heard = [follower.next() for _ in range(4)]
    assert [(e["event"], e["array"]) for e in heard] == [
        ("created", "a"), ("withdrawn", "a"), ("created", "b"), ("withdrawn", "b"),
    ]  # fmt: skip
    daemon.signal(signal.SIGKILL)
    assert follower.process.wait(DEADLINE_S) == 4
    assert json.loads(follower.process.stderr.read())["error"]["name"] == "DaemonLost"
    follower.end()


def test_a_follower_that_does_not_read_costs_the_daemon_nothing_and_hears_what_it_missed(daemon):
    follower = Follower(daemon)
    create(daemon, "first")
    assert follower.next()["array"] == "first"
    follower.process.send_signal(signal.SIGSTOP)
    count = 3000  # two events each: more than there is room for
    create(daemon, *(f"a{number}" for number in range(count)))
    follower.process.send_signal(signal.SIGCONT)
    numbers = []
    dropped = 0
    while not numbers or numbers[-1] < 2 * count + 2:
        line = follower.next()
        if "dropped" in line:
            dropped += line["dropped"]
        else:
            numbers.append(line["number"])
    follower.end()
    assert dropped > 0
    assert len(numbers) + dropped == 2 * count + 1
    assert numbers == sorted(numbers)


def test_a_follower_is_no_session(daemon, client):
    follower = Follower(daemon)
    follower.next()
    assert daemon.json("status")["sessions"] == 1, "a follower is no session"
    follower.end()
    create(daemon, "later")  # whoever has gone is told nothing
    assert of_kind(daemon, "created")[-1]["array"] == "later"
