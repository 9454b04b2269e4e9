"""A daemon in a PID namespace of its own, beside its clients: it has no number for any of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time

import pytest
from cells import fakecuda, plain, shared_folder
from processes import BUILD, DEADLINE_S, Daemon, Peer, Refused, environment, innermost
from spaces import unshared

SOMEWHERE = "in another PID namespace"


@pytest.fixture
def daemon():
    with shared_folder() as folder:
        fakecuda("create", folder / "world", 1)
        command = unshared({"pid", "mount"}, folder, BUILD / "bin/memleased")
        daemon = Daemon(folder, command, "--drain-timeout-s=20")
        yield daemon
        daemon.end()


@pytest.fixture
def connect(daemon):
    """Start clients, which answer with their sessions."""
    with contextlib.ExitStack() as ends:

        def start():
            peer = Peer(daemon.folder, plain(daemon.folder, BUILD / "tests/memlease_peer"))
            ends.callback(peer.end)
            return peer, int(peer.ask("connect"))

        yield start


def ctl(daemon, *arguments, through=()):
    return subprocess.run(
        [*through, BUILD / "bin/memleasectl", "--directory", daemon.directory, *arguments],
        capture_output=True, text=True, check=False, timeout=DEADLINE_S,
        env=environment(daemon.folder),
    )  # fmt: skip


def ask(daemon, *arguments):
    result = ctl(daemon, *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def log_has(daemon, *words):
    """Wait for a line with all of them."""
    end = time.monotonic() + DEADLINE_S
    while not any(all(word in line for word in words) for line in daemon.log().splitlines()):
        assert time.monotonic() < end, f"{words} not in: {daemon.log()}"
        time.sleep(0.01)


def test_lists_show_a_session_and_no_number(daemon, connect):
    writer, session = connect()
    writer.ask("create a 3 600 64 persistent")
    writer.ask("put a 1000")
    (holder,) = ask(daemon, "holders", "a")["holders"]
    assert (holder["pid"], holder["session"], holder["command"]) == (None, session, SOMEWHERE)
    (array,) = ask(daemon, "ls")["arrays"]
    assert (array["writer_pid"], array["writer_session"]) == (None, session)
    (listed,) = ask(daemon, "sessions")["sessions"]
    assert (listed["pid"], listed["session"]) == (None, session)
    assert f"?        {session}" in ctl(daemon, "holders").stdout


def test_messages_name_a_session(daemon, connect):
    writer, writes = connect()
    reader, session = connect()
    writer.ask("create a 2 600 64 persistent")
    writer.ask("put a 1000")
    reader.ask("read a 0 1000")
    writer.ask("put a 1000")
    reader.ask("read a 1 1000")
    with pytest.raises(
        Refused, match=rf"session {session} \({SOMEWHERE}\) reads version [12], [12]"
    ):
        writer.ask("write a 10")
    reader.ask("release a")
    writer.ask("read a 0 1000")
    writer.ask("put a 1000")
    writer.ask("read a 2 1000")
    with pytest.raises(Refused, match=r"this process itself .* reads version [23], [23]"):
        writer.ask("write a 10")
    writer.ask("create b 2 600 64 persistent exclusive")
    writer.ask("put b 1000")
    with pytest.raises(Refused, match=rf"exclusive writer: session {writes} \({SOMEWHERE}\)"):
        reader.ask("write b 1000")


def test_a_death_is_seen_and_logged(daemon, connect):
    writer, session = connect()
    reader, _ = connect()
    writer.ask("create a 2 600 64 persistent")
    writer.ask("write a 1000")
    writer.kill()
    assert reader.ask("put a 10000").split()[0] == "2"
    log_has(daemon, "reclaimed from a process that has ended", SOMEWHERE, "was writing")
    assert [s["session"] for s in ask(daemon, "sessions")["sessions"]] != [session]


def test_a_session_is_evicted_by_its_number(daemon, connect):
    reader, session = connect()
    assert ask(daemon, "evict", str(session)) == {"evicted": session}
    with pytest.raises(Refused):
        reader.ask("create a 2 600 64 persistent")


def checks_of_doctor(daemon, through=()):
    result = ctl(daemon, "doctor", "--json", through=through)
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert not [check for check in checks.values() if check["result"] == "failed"]
    return checks


def test_doctor_tells_that_the_daemon_is_elsewhere(daemon):
    checks = checks_of_doctor(daemon, through=unshared({"pid", "mount"}, daemon.folder))
    assert checks["control_socket"]["reason"] == f"a daemon {SOMEWHERE} answers, pid 1 there"
    assert checks["lock"]["reason"] == "held by pid 1, which is who answers"
    for name in ("daemon_files", "memory_limit"):
        assert checks[name]["result"] == "note"
        assert SOMEWHERE in checks[name]["reason"]


def test_doctor_sees_into_a_container_from_the_host(daemon):
    checks = checks_of_doctor(daemon)
    assert checks["control_socket"]["reason"] == f"pid {innermost(daemon.process.pid)} answers"
    assert checks["lock"]["reason"] == "held by pid 1, which is who answers"
    assert "files open" in checks["daemon_files"]["reason"]


def test_as_the_first_process_of_a_container_it_ends_when_told_to(daemon, connect):
    reader, session = connect()
    reader.ask("create a 2 600 64 persistent")
    reader.ask("put a 1000")
    reader.ask("read a 0 1000")
    os.kill(innermost(daemon.process.pid), signal.SIGTERM)
    daemon.hear(f"waiting for leases of session {session}")
    reader.ask("release a")
    assert daemon.process.wait(DEADLINE_S) == 0
    assert not list(daemon.directory.iterdir())
