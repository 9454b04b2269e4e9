"""What memleasectl says of a real daemon with a real client."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import DEADLINE_S, clean_environment, until

FRESH_S = 60


def is_fresh(unix_ms):
    return abs(time.time() - unix_ms / 1000) < FRESH_S


def test_ls_of_an_empty_daemon(daemon):
    assert daemon.json("ls") == {"arrays": []}
    assert daemon.ctl("ls").stdout.split()[:3] == ["NAME", "TYPE", "DEVICE"]


def test_ls_and_info_show_the_array(daemon, client):
    (array,) = daemon.json("ls")["arrays"]
    assert daemon.json("info", "sim/u") == array
    assert is_fresh(array.pop("created_unix_ms"))
    assert sorted(array.pop("slot_versions")) == [0, 1, 2]
    assert array.pop("array_id") > 0
    assert array.pop("bytes") >= 3 * 128
    assert array == {
        "name": "sim/u",
        "dtype": "float32",
        "shape": [4, 8],
        "strides_bytes": [32, 4],
        "device": "host",
        "slots": 3,
        "added_slots": 0,
        "max_slots": 3,
        "version": 2,
        "empty_writes": 0,
        "copied_versions": 0,
        "copied_bytes": 0,
        "slot_bytes": 128,
        "held_bytes": 128,
        "readers": 1,
        "subscribers": 1,
        "writer_pid": client.pid,
        "writer_session": client.session,
        "lifetime": "persistent",
        "exclusive_writer": False,
        "owner_uid": os.geteuid(),
        "owner_gid": os.getegid(),
        "mode": "0600",
        "withdrawn": False,
        "attributes": {},
    }


def test_info_and_ls_show_attributes_as_json(daemon):
    import memlease

    attributes = {
        "axes": ["lat", 'l"on'],
        "none": [],
        "origin": [1.0, 1e300, float("inf")],
        "periodic": True,
        "step": -3,
        "units": "\N{DEGREE SIGN}C\x1b[2J",
    }
    with memlease.connect(daemon.directory, start=False) as here:
        here.create("plain", 3, "f4")
        here.create("u", 3, "f4", attributes=attributes)
        shown = attributes | {"origin": [1.0, 1e300, None]}
        assert daemon.json("info", "u")["attributes"] == shown
        plain, u = daemon.json("ls")["arrays"]
        assert (plain["attributes"], u["attributes"]) == ({}, shown)
        (line,) = (
            line
            for line in daemon.ctl("info", "u").stdout.splitlines()
            if line.startswith("Attributes")
        )
        assert "\x1b" not in line
        assert json.loads(line.removeprefix("Attributes")) == shown
        assert "ATTRIBUTES" not in daemon.ctl("ls").stdout
        last = daemon.ctl("info", "plain").stdout.splitlines()[-1]
        assert last.split() == ["Attributes", "-"]


def test_ls_and_info_show_no_version_of_an_only_slot_whose_write_was_dropped(daemon):
    import memlease

    with memlease.connect(daemon.directory, start=False) as own:
        array = own.create("one", 3, "i8", slots=1, fill=0)
        array.write().drop()
        (listed,) = daemon.json("ls")["arrays"]
        assert listed["version"] == daemon.json("info", "one")["version"] == array.version == 0
        array.put([1, 2, 3])
        assert daemon.json("ls")["arrays"][0]["version"] == array.version == 3


def test_ls_takes_a_pattern(daemon, client):
    assert [a["name"] for a in daemon.json("ls", "sim/*")["arrays"]] == ["sim/u"]
    assert daemon.json("ls", "other/*") == {"arrays": []}
    refused = daemon.ctl("ls", "\udcff\udcfe")  # no UTF-8
    assert refused.returncode != 0
    assert "the pattern has byte 0xff at position 0" in refused.stderr


def test_ls_sorts_by_a_column_and_refuses_others(daemon, client):
    import memlease

    with memlease.connect(daemon.directory, start=False) as here:
        here.create("a/large", shape=(1 << 16,), dtype="u1")
        here.create("b/small", shape=(1,), dtype="u1")
        names = [a["name"] for a in daemon.json("ls", "--sort", "bytes")["arrays"]]
        assert names == ["a/large", "sim/u", "b/small"]
        assert daemon.json("ls", "--sort", "held")["arrays"][0]["name"] == "sim/u"
    refused = daemon.ctl("ls", "--sort", "colour")
    assert refused.returncode == 2
    assert "bytes" in refused.stderr


def test_ls_in_a_pipe_is_plain_and_exact(daemon, client):
    titles, row = daemon.ctl("ls").stdout.splitlines()
    assert "\t" not in row
    assert "\x1b" not in titles + row
    cells = dict(zip(titles.split(), row.split(), strict=True))
    assert cells["NAME"] == "sim/u"
    assert cells["TYPE"] == "float32[4,8]"
    assert cells["BYTES"] == str(daemon.json("info", "sim/u")["bytes"])
    assert cells["CREATED"].endswith("Z")


def test_holders_names_process_version_bytes_and_since(daemon, client):
    (holder,) = daemon.json("holders", "sim/u")["holders"]
    assert daemon.json("holders")["holders"] == [holder]
    assert is_fresh(holder.pop("since_unix_ms"))
    command = holder.pop("command")
    assert command.startswith(f"{sys.executable} -c \\x0aimport sys, memlease\\x0a")
    assert len(command) == 256
    assert command.endswith("...")
    assert holder == {
        "array": "sim/u",
        "pid": client.pid,
        "session": client.session,
        "uid": os.geteuid(),
        "versions": [2],
        "bytes": 128,
        "writer": True,
        "writing": False,
        "subscribed": True,
        "connected": True,
        "withdrawn": False,
    }


READER = """
import sys, memlease
with memlease.connect(sys.argv[1], start=False) as client, client.open("sim/u").read() as lease:
    print("reads", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def readers(daemon, client, tmp_path):
    """Two scripts that read sim/u, by the paths of their files."""
    running = {}
    for name in ["plot.py", "store.py"]:
        script = tmp_path / name
        script.write_text(READER)
        running[str(script)] = subprocess.Popen(
            [sys.executable, script, daemon.directory, "\x1b[2J"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment(),
        )  # fmt: skip
    for process in running.values():
        assert process.stdout.readline() == "reads\n"
    yield running
    for process in running.values():
        process.communicate(timeout=DEADLINE_S)


def test_holders_tells_two_scripts_of_one_python_apart(daemon, client, readers):
    holders = {h["pid"]: h["command"] for h in daemon.json("holders", "sim/u")["holders"]}
    for script, process in readers.items():
        line = f"{sys.executable} {script} {daemon.directory} \\x1b[2J"
        assert holders[process.pid] == line
        assert line in daemon.ctl("holders", "sim/u").stdout
        assert line in daemon.ctl("sessions").stdout


def test_no_free_slot_names_the_scripts(daemon, client, readers):
    import memlease

    with memlease.connect(daemon.directory, start=False) as here:
        array = here.open("sim/u")
        held = []

        def fill_and_hold():
            for _ in range(array.slots):
                with array.write(wait=0.1) as w:
                    w[...] = 0
                held.append(array.read())

        with pytest.raises(memlease.NoFreeSlot) as caught:
            fill_and_hold()
        for lease in held:
            lease.release()
    for script, process in readers.items():
        assert f"pid {process.pid} ({sys.executable} {script} " in str(caught.value)


def test_sessions_shows_the_client(daemon, client):
    (session,) = daemon.json("sessions")["sessions"]
    assert (session["session"], session["pid"]) == (client.session, client.pid)
    assert (session["uid"], session["arrays_open"]) == (os.geteuid(), 1)
    assert session["connected"] is True
    assert is_fresh(session["since_unix_ms"])


def test_status_counts(daemon, client):
    status = daemon.json("status")
    assert status["pid"] == daemon.process.pid
    assert status["directory"] == daemon.directory
    assert (status["arrays"], status["sessions"]) == (1, 1)
    assert status["memory_bytes"] >= status["array_bytes"] >= 3 * 128
    assert len(status["incarnation"]) == 32
    assert status["draining"] is False
    [mine] = [quota for quota in status["quotas"] if quota["uid"] == os.geteuid()]
    assert mine["descriptors_limit"] == 16384
    assert mine["descriptors"] >= 7 + 3, "a process, a segment, a board, takeover rows"


def test_status_shows_what_each_user_spends_and_may_spend(daemon, client):
    spends = {
        one["what"]: (one["used"], one["limit"])
        for one in daemon.json("status")["spending"]
        if one["uid"] == os.geteuid()
    }
    assert spends["page_bytes"][0] >= 3 * 64 * 1024
    assert spends["page_bytes"][1] == 2 * 1024**3
    assert spends["segment_bytes"][0] >= 4 * 1024**2
    assert spends["segment_bytes"][1] is None
    assert spends["file_numbers"][0] >= 2
    assert spends["waiting_calls"] == (0, 256)
    assert spends["requests"][1] == 2048
    assert spends["request_bytes"] == (0, 16 * 1024**2)
    assert spends["log_lines"][1] == 60
    assert spends["log_lines"][0] >= 1, "its session was opened"
    text = daemon.ctl("status").stdout
    assert "page_bytes" in text
    assert "waiting_calls" not in text, "what is 0 is left out"


def test_withdraw_takes_the_name_away(daemon, client):
    assert daemon.json("withdraw", "sim/u") == {"withdrawn": "sim/u"}
    assert daemon.ctl("withdraw", "sim/u").returncode == 3
    assert client.process.poll() is None
    assert daemon.json("holders")["holders"][0]["withdrawn"] is True
    assert "sim/u (withdrawn)  " in daemon.ctl("holders").stdout


def test_evict_hangs_up_on_a_process_that_goes_on_running(daemon, client):
    assert daemon.json("evict", client.session) == {"evicted": client.session}

    def connected():
        return [s["connected"] for s in daemon.json("sessions")["sessions"]]

    until(lambda: connected() == [False], "the session is hung up")
    assert client.process.poll() is None
    assert "hung up" in daemon.ctl("holders").stdout
    client.end()
    until(lambda: connected() == [], "the session ends with its process")


def test_a_killed_client_is_no_holder(daemon, client):
    client.process.send_signal(signal.SIGKILL)
    until(lambda: daemon.json("holders") == {"holders": []}, "the daemon notices the exit")
    assert daemon.json("info", "sim/u")["version"] == 2


def test_health_of_a_daemon_that_drains(daemon, client):
    assert daemon.json("health") == {"serving": True}
    daemon.signal(signal.SIGTERM)
    until(lambda: daemon.ctl("health").returncode == 1, "the daemon drains", daemon.process)
    assert "draining" in daemon.ctl("health").stdout
    assert daemon.ctl("holders").returncode == 0
    client.end()
    assert daemon.process.wait(30) == 0
