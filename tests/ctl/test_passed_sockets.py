"""The daemon with sockets that a service manager has made, as systemd's socket units do."""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import DEADLINE_S, clean_environment, until
from service import listening_sockets

SO_PASSRIGHTS = 83  # Linux 6.16


def test_passed_sockets_are_served_and_stay(start, directory):
    sockets = listening_sockets(directory / "run")
    # Who comes before the daemon waits for it.
    early = subprocess.Popen(
        [sys.executable, "-c", "import sys, memlease; memlease.connect(sys.argv[1], start=False)",
         str(directory / "run")],
        env=clean_environment(),
    )  # fmt: skip
    service = start(sockets=sockets)
    assert early.wait(DEADLINE_S) == 0
    assert service.ctl("health").returncode == 0
    assert "sockets=passed" in service.log()
    doctor = json.loads(service.ctl("doctor", "--json").stdout)
    assert {c["name"]: c["reason"] for c in doctor["checks"] if c["result"] == "failed"} == {}
    for _ in range(2):
        service.signal(signal.SIGTERM)
        assert service.wait() == 0
        left = sorted(path.name for path in service.directory.iterdir())
        assert left == ["attach.sock", "control.sock", "memleased.lock"]
        service = start(sockets=sockets)
        assert service.ctl("health").returncode == 0


def test_it_lives_for_some_seconds_so_that_it_may_be_started_again(start, directory):
    # systemd allows 30 starts in a minute, and whoever may connect can cause them.
    service = start("--idle-exit-s=1", sockets=listening_sockets(directory / "run"))
    since = time.monotonic()
    service.must_hear("STOPPING=1")
    assert time.monotonic() - since > 4, "5 s since its beginning"
    assert service.wait() == 0


def test_nobody_holds_it_up_by_sockets_that_he_sends(start, directory, monkeypatch):
    made = listening_sockets(directory / "run")
    monkeypatch.chdir(directory / "run")
    service = start(sockets=made)
    for one in made:
        Path(one.getsockname()).chmod(0o666)
        with contextlib.suppress(OSError):  # before Linux 6.16 they come through anyway
            one.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 1)
    at_rest = len(service.open_files())

    with contextlib.ExitStack() as stack:

        def send_to(listener):
            """Send a socket whose last closer waits for an hour. Return both ends."""
            with contextlib.ExitStack() as of_another:
                if os.geteuid() == 0:
                    os.seteuid(65534)  # who is the daemon's own user speaks to gRPC itself
                    of_another.callback(os.seteuid, 0)
                client = stack.enter_context(socket.socket(socket.AF_UNIX, listener.type))
                client.connect(Path(listener.getsockname()).name)
            with lingering_socket() as (lingering, peer):
                socket.send_fds(client, [b"x"], [lingering.fileno()])
            return client, stack.enter_context(peer)

        peers = []
        for _ in range(5):
            for listener in made:
                service.stop()  # until it is the last who has the sockets
                if listener.type == socket.SOCK_SEQPACKET or os.geteuid() == 0:
                    peers.append(send_to(listener)[1])
                client, peer = send_to(listener)
                client.close()  # before it is accepted
                peers.append(peer)
                service.signal(signal.SIGCONT)
            assert service.ctl("health").returncode == 0
        for peer in peers:
            while peer.recv(1 << 20):
                pass
    until(lambda: len(service.open_files()) <= at_rest, "all of them are closed")


@contextlib.contextmanager
def lingering_socket():
    with socket.create_server(("127.0.0.1", 0)) as server:
        lingering = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
    lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    lingering.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            lingering.send(bytes(65536))
    yield lingering, peer
    lingering.close()


# Does what the error says.
CONNECTS_AGAIN = """
import sys, memlease
client = memlease.connect(sys.argv[1])
lease = client.create("held", shape=4, dtype="f4").write()
print("writes", flush=True)
sys.stdin.readline()
try:
    client.create("more", shape=4, dtype="f4")
except memlease.DaemonLost:
    lease.drop()
memlease.connect(sys.argv[1]).create("more", shape=4, dtype="f4")
"""
CONNECTS = """
import sys, memlease
print("connects", flush=True)
memlease.connect(sys.argv[1])
"""


def test_metrics_are_for_whoever_may_use_the_sockets_that_were_passed(start, directory):
    sockets = listening_sockets(directory / "run")
    for mode in (0o660, 0o666):
        (directory / "run/control.sock").chmod(mode)
        service = start("--metrics=unix", sockets=sockets)
        assert (service.directory / "metrics.sock").stat().st_mode & 0o777 == mode
        service.signal(signal.SIGTERM)
        assert service.wait() == 0


def test_whoever_connects_to_a_daemon_that_ends_waits_for_the_next_one(start, directory):
    sockets = listening_sockets(directory / "run")
    service = start(sockets=sockets)

    def client(code):
        return subprocess.Popen(
            [sys.executable, "-c", code, str(service.directory)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment(),
        )  # fmt: skip

    writer = client(CONNECTS_AGAIN)
    assert writer.stdout.readline() == "writes\n"
    service.signal(signal.SIGTERM)
    service.must_hear("STATUS=ending: waiting for leases")
    comer = client(CONNECTS)
    assert comer.stdout.readline() == "connects\n"
    writer.stdin.write("\n")
    writer.stdin.flush()
    assert service.wait() == 0
    assert (writer.poll(), comer.poll()) == (None, None), "they wait"
    service = start(sockets=sockets)
    for process in (writer, comer):
        process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0


@pytest.fixture
def wrong(start, directory):
    """Return a function that starts a daemon whose settings are wrong, with somebody waiting."""
    made = listening_sockets(directory / "run")
    settings = directory / "wrong.toml"
    settings.write_text("quota_arrays = many\n")

    def start_it(waits=True):
        waiting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if waits:
            waiting.connect(str(directory / "run/attach.sock"))
        service = start("--config", settings, sockets=made, ready=False)
        if waits:
            assert b"memleased cannot start" in waiting.recv(4096)
        waiting.close()
        return service

    yield start_it
    for one in made:
        one.close()


def test_wrong_settings_are_the_end_at_once_where_nobody_waits(wrong):
    service = wrong(waits=False)
    assert service.wait() == 78
    assert "wrong.toml:1:" in service.log()


def test_one_start_tells_all_who_come_that_the_settings_are_wrong(wrong):
    """Each attempt would have the manager start the daemon again, until it gives up."""
    service = wrong()
    for _ in range(20):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as comer:
            comer.connect(str(service.directory / "attach.sock"))
            assert b"memleased cannot start" in comer.recv(4096)
    assert service.process.poll() is None


@pytest.mark.no_asan  # they have seven seconds
@pytest.mark.parametrize("begin", ["True", "False"])
def test_nobody_gets_a_daemon_of_his_own_for_one_that_cannot_start(wrong, begin):
    service = wrong()
    comer = subprocess.run(
        [sys.executable, "-c",
         f"import sys, memlease; memlease.connect(sys.argv[1], start={begin})",
         str(service.directory)],
        env=clean_environment(), capture_output=True, text=True, timeout=DEADLINE_S,
    )  # fmt: skip
    assert "failed: memleased cannot start: its settings, its " in comer.stderr
    assert "DaemonUnavailable" in comer.stderr
    assert "journalctl" in comer.stderr


@pytest.mark.no_asan
def test_memleasectl_is_told_that_a_daemon_cannot_start(wrong):
    service = wrong()
    for command in ("health", "ls"):
        told = service.ctl(command)
        assert told.returncode == 4
        assert "memleased cannot start: its settings, " in told.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: made[:1], "only '{run}/attach.sock' was passed"),
        (lambda made: [made[1], made[1]], "two sockets were passed for '{run}/control.sock'"),
        (lambda _: [socket.socket(), socket.socket()], "is not a UNIX socket"),
    ],
    ids=["one", "twice", "tcp"],
)
def test_wrong_sockets_are_explained(start, directory, change, message):
    made = listening_sockets(directory / "run")
    service = start(sockets=change(made), ready=False, LISTEN_FDNAMES="a:b")
    assert service.wait() == 78
    assert message.format(run=service.directory) in service.log()
    assert "unit of sockets" in service.log(), "the hint says where to look"


def test_who_waits_is_told_of_wrong_sockets_and_wrong_flags_too(start, directory):
    made = listening_sockets(directory / "run")
    for options, sockets in ((), made[:1]), (("--nonsense",), made):
        waiting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        waiting.connect(str(directory / "run/attach.sock"))
        service = start(*options, sockets=sockets, ready=False)
        assert b"memleased cannot start" in waiting.recv(4096)
        service.signal(signal.SIGTERM)  # it would stay for others
        service.wait()
        waiting.close()
    for one in made:
        one.close()


def test_a_socket_that_is_said_to_be_passed_and_is_not(start):
    service = start(ready=False, sockets=[socket.socket()], LISTEN_FDS="5")
    assert service.wait() == 78
    assert "LISTEN_FDS says that 5 sockets are passed, but descriptor 4 is closed" in service.log()


def test_sockets_for_another_process_are_not_taken(start):
    service = start(LISTEN_FDS="2", LISTEN_PID="1")
    assert service.ctl("health").returncode == 0
    assert "sockets=made" in service.log()
