"""What docs/operations.md says of sizes, quotas, files and descriptors is so."""

import os
import re
import socket
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import pack
from threading import Event

import memlease
import pytest
from conftest import DEADLINE_S, clean_environment, until

PAGE = (Path(__file__).parents[2] / "docs/operations.md").read_text()
SECTION = PAGE.partition("\n## Sizing and quotas\n")[2].partition("\n## ")[0]
MIB = 1 << 20
ARRAYS = re.findall(r"^\| (\d+) MiB \| (.*?) \| (\d+) MiB \| (\d+) MiB \|$", SECTION, re.M)
EXAMPLE = SECTION.partition("```toml\n")[2].partition("```")[0]
# A thousandth of the example's machine.
SMALL = re.sub(r"(\d+)GiB", r"\1MiB", EXAMPLE)


@pytest.fixture
def connected(daemon):
    with memlease.connect(daemon.directory, start=False) as here:
        yield here


@pytest.mark.parametrize(("size", "said", "takes", "most"), ARRAYS)
def test_an_array_takes_what_the_page_says(daemon, connected, size, said, takes, most):
    given = dict(pair.split("=") for pair in re.findall(r"\w+=\d+", said))
    assert bool(given) == (said != "nothing said")
    options = {name: int(number) for name, number in given.items()}
    connected.create("u", shape=int(size) * MIB, dtype="u1", **options)
    info = daemon.json("info", "u")
    assert info["bytes"] == int(takes) * MIB
    assert info["slot_bytes"] * info["max_slots"] == int(most) * MIB
    assert daemon.json("status")["array_bytes"] == info["bytes"]


def test_the_page_has_arrays_of_each_kind():
    assert len(ARRAYS) == 4


def test_memory_is_taken_in_segments_of_one_owner_group_and_mode(daemon, connected):
    def taken():
        status = daemon.json("status")
        return status["memory_bytes"], status["warm_bytes"]

    assert taken() == (0, 0)
    connected.create("a", shape=1000, dtype="u1")
    assert taken() == (4 * MIB, 0)
    connected.create("b", shape=1000, dtype="u1")
    assert taken() == (4 * MIB, 0), "they share it"
    connected.create("c", shape=1000, dtype="u1", mode=0o644)
    assert taken() == (8 * MIB, 0), "another mode has one of its own"
    connected.create("d", shape=MIB, dtype="u1", slots=4)
    assert taken() == (12 * MIB, 0), "as much again as these have"
    for name in "abcd":
        connected.withdraw(name)
    until(lambda: taken() == (12 * MIB, 12 * MIB), "they are kept warm")


GROUP = 'mount --bind "$0" /sys/fs/cgroup && exec "$@"'


def in_group(folder, limit, usage):
    """Return a command for a daemon that finds these figures where its control group is."""
    folder.mkdir()
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{usage}\n")
    spaces = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    return ["unshare", *spaces, "sh", "-c", GROUP, str(folder)]


def test_a_full_control_group_refuses_and_names_itself(start_daemon, tmp_path):
    group = tmp_path / "group"
    daemon = start_daemon(through=in_group(group, limit=1024 * MIB, usage=100 * MIB))
    assert "a group of less than a GiB a quarter" in SECTION.replace("\n", " ")
    with memlease.connect(daemon.directory, start=False) as here:
        kept = here.create("kept", shape=1000, dtype="u1", slots=1)
        (group / "memory.current").write_text(f"{(1024 - 256 - 10) * MIB}\n")
        with pytest.raises(
            memlease.OutOfMemory, match="no host memory for 20971520 bytes, but for 10485760 "
        ):
            here.create("large", shape=20 * MIB, dtype="u1", slots=1)
        here.create("small", shape=6 * MIB, dtype="u1", slots=1)
        kept.put(b"\1" * 1000)
        (group / "memory.current").write_text(f"{100 * MIB}\n")
        here.create("large", shape=20 * MIB, dtype="u1", slots=1)


def test_who_has_little_is_not_refused_in_a_full_group(start_daemon, tmp_path):
    group = tmp_path / "group"
    daemon = start_daemon(through=in_group(group, limit=1024 * MIB, usage=(1024 - 150) * MIB))
    with memlease.connect(daemon.directory, start=False) as here:
        here.create("small", shape=MIB, dtype="u1", slots=1).put(b"\1" * MIB)
        with pytest.raises(memlease.OutOfMemory, match=f"{17 * MIB} bytes, but for 0 "):
            here.create("large", shape=17 * MIB, dtype="u1", slots=1)
        (group / "memory.current").write_text(f"{(1024 - 95) * MIB}\n")
        with pytest.raises(memlease.OutOfMemory, match="no host memory"):
            here.create("beside", shape=1000, dtype="u1", mode=0o640)


STRANGER = 65534


def hang(directory, calls):
    """Return a stranger's connection with calls that are never finished."""

    def frame(kind, flags, stream, payload=b""):
        return pack(">I", len(payload))[1:] + pack(">BBI", kind, flags, stream) + payload

    def field(name, value):
        return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value

    block = b"".join(
        field(name.encode(), value.encode())
        for name, value in {
            ":method": "POST", ":scheme": "http", ":path": "/memlease.v1.Control/List",
            ":authority": "x", "te": "trailers", "content-type": "application/grpc",
        }.items()
    )  # fmt: skip
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(DEADLINE_S)
    os.seteuid(STRANGER)
    try:
        connection.connect(f"{directory}/control.sock")
    finally:
        os.seteuid(0)
    hung = b"".join(frame(1, 4, 2 * call + 1, block) for call in range(calls))
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + hung)
    return connection


@pytest.mark.skipif(os.geteuid() != 0, reason="another user connects")
def test_where_memory_is_short_whose_calls_keep_most_is_cut_and_others_go_on(
    start_daemon, tmp_path
):
    group = tmp_path / "group"
    daemon = start_daemon(
        "--socket-mode", "0666", through=in_group(group, limit=1024 * MIB, usage=100 * MIB)
    )

    def usage(mib):
        (group / "memory.current").write_text(f"{mib * MIB}\n")

    hung = [hang(daemon.directory, 60) for _ in range(10)]

    def under_way():
        spending = daemon.json("status")["spending"]
        return [s["used"] for s in spending if (s["uid"], s["what"]) == (STRANGER, "requests")]

    until(lambda: under_way() == [600], "the calls are under way")
    enough = Event()
    with ThreadPoolExecutor(1) as other:
        creations = other.submit(create_until, enough, daemon.directory)
        usage(1024 - 127)
        for connection in hung:
            while connection.recv(65536):
                pass
            connection.close()
        usage(100)
        enough.set()
        assert creations.result(timeout=DEADLINE_S) > 0
    assert 'memlease_gate_cuts_total{limit="memory"} 10\n' in daemon.ctl("metrics").stdout


def create_until(enough, directory):
    """Connect and create again and again; return how often."""
    count = 0
    while not enough.is_set():
        with memlease.connect(directory, start=False) as here:
            here.create(f"small/{count}", shape=3, dtype="u1").put(b"\1\1\1")
        count += 1
    return count


@pytest.fixture
def example(start_daemon, tmp_path):
    """Start a daemon with the example's settings, MiB for GiB."""
    path = tmp_path / "memleased.toml"
    path.write_text(SMALL)
    return start_daemon("--config", str(path))


def test_the_example_is_what_is_said_of_it(example):
    settings = tomllib.loads(EXAMPLE)
    assert "twelve fields of 2 GiB each: 12 x 3 x 2 GiB" in SECTION.replace("\n", " ")
    with memlease.connect(example.directory, start=False) as here:
        for number in range(12):
            here.create(f"field/{number}", shape=2 * MIB, dtype="u1")

        def mine():
            [quota] = [q for q in example.json("status")["quotas"] if q["uid"] == os.geteuid()]
            return quota

        assert mine()["bytes"] == 72 * MIB
        assert mine()["bytes_limit"] == int(settings["quota_bytes"].removesuffix("GiB")) * MIB
        assert mine()["arrays_limit"] == settings["quota_arrays"]
        assert mine()["sessions_limit"] == settings["quota_sessions"]
        held = []
        for number in range(12):  # a reader keeps what it may, and stops nobody
            field = here.open(f"field/{number}")
            for _ in range(4):
                field.put(0)
                held.append(field.read())
        assert mine()["bytes"] == 96 * MIB
        with pytest.raises(memlease.QuotaExceeded, match="bytes"):
            here.create("another", shape=1, dtype="u1")
        with pytest.warns(memlease.ViewAlive), pytest.raises(memlease.NoFreeSlot, match="bytes"):
            here.open("field/0").write(0.05)
        for number in range(12):
            here.withdraw(f"field/{number}")
        assert mine()["bytes"] == 96 * MIB, "somebody uses them"
        del field, held
        until(lambda: mine()["bytes"] == 0, "all have let go")
    assert example.json("status")["memory_limit_bytes"] == 192 * MIB


def test_a_directory_has_three_files_whatever_the_arrays(daemon, connected, client):
    for number in range(100):
        connected.create(f"many/{number}", shape=1000, dtype="u1")
    listed = sorted(path.name for path in Path(daemon.directory).iterdir())
    assert listed == ["attach.sock", "control.sock", "memleased.lock"]
    lock = Path(daemon.directory) / "memleased.lock"
    assert lock.stat().st_size < 4096


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


READER = """
import sys, memlease
client = memlease.connect(sys.argv[1], start=False)
field = client.open("sim/u")
lease = field.read()
print("reads", flush=True)
sys.stdin.read()
"""


def test_a_client_costs_the_daemon_six_descriptors_at_most(daemon, client):
    before = open_files(daemon.process.pid)
    command = [sys.executable, "-c", READER, daemon.directory]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    readers = []
    for _ in range(8):
        readers.append(subprocess.Popen(command, env=clean_environment(), **pipes))
        assert readers[-1].stdout.readline() == "reads\n"
    each = (open_files(daemon.process.pid) - before) / len(readers)
    for reader in readers:
        reader.kill()
        reader.communicate(timeout=DEADLINE_S)
    assert 2 < each <= 6


def test_a_client_has_no_more_descriptors_for_more_arrays(connected):
    def open_after(count):
        for _ in range(count):
            arrays.append(connected.create(f"u/{len(arrays)}", shape=16, dtype="u1"))
        return open_files(os.getpid())

    arrays = []
    few = open_after(10)
    assert open_after(2000) - few < 20
