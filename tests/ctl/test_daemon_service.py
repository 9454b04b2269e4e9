"""The daemon under a service manager: what it tells, the sockets it is given, what SIGHUP does."""

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import DEADLINE_S, Client, clean_environment, until
from service import Service, listening_sockets, wake_ups

SO_PASSRIGHTS = 83  # Linux 6.16


@pytest.fixture
def start(directory):
    """Return a function that starts a daemon as a service."""
    with contextlib.ExitStack() as stack:

        def start(*options, ready=True, **more):
            service = Service(directory, *options, **more)
            stack.callback(service.end)
            if ready:
                service.must_hear("READY=1")
            return service

        yield start


# ---- What it tells.


def test_it_tells_what_it_does_from_start_to_end(start):
    service = start()
    assert service.heard == ["READY=1"], "nothing comes before it"
    service.must_hear("STATUS=serving 0 arrays, 0 B, 0 sessions")
    client = Client(str(service.directory))
    service.must_hear("STATUS=serving 1 array, 768 B, 1 session")
    service.signal(signal.SIGTERM)
    service.must_hear(f"STATUS=ending: waiting for leases of pid {client.pid}")
    client.end()
    service.must_hear("STOPPING=1\nSTATUS=ending: memory goes back to the system")
    assert service.wait() == 0
    service.must_hear("STATUS=")
    assert service.heard[-1] == "STATUS=", "nothing is said of a daemon that has ended"


def test_a_status_comes_once_a_second_at_most(start):
    service = start()
    client = Client(str(service.directory))
    begin = time.monotonic()
    told = len(service.heard)
    while time.monotonic() - begin < 2.5:
        assert service.ctl("ls").returncode == 0
        service.hear("nothing that is ever said", 0.05)
    client.end()
    assert len(service.heard) - told <= 3, service.heard


def test_an_idle_daemon_sleeps(start):
    service = start()
    service.must_hear("STATUS=serving 0 arrays")
    assert service.hear("anything", 0.5) is None  # it has gone to sleep
    before = wake_ups(service.process.pid)
    told = len(service.heard)
    assert service.hear("anything", 2) is None
    assert wake_ups(service.process.pid) - before == 0
    assert len(service.heard) == told


def test_an_idle_daemon_wakes_up_once_for_each_sign_of_life(start):
    """Under systemd that is once in 15 s: its watchdog has 30."""
    service = start(WATCHDOG_USEC="400000")
    service.must_hear("STATUS=serving 0 arrays")
    service.must_hear("WATCHDOG=1")
    assert service.hear("anything else", 0.5) is None  # it has gone to sleep
    service.must_hear("WATCHDOG=1")
    assert service.hear("anything else", 0.1) is None  # likewise
    before = wake_ups(service.process.pid)
    told = len(service.heard)
    for _ in range(5):
        service.must_hear("WATCHDOG=1")
    # The last sign may have been heard before the daemon sleeps again.
    assert wake_ups(service.process.pid) - before <= 5
    assert len(service.heard) - told == 5, "and says nothing else"


def test_a_watchdog_of_30_seconds_wakes_an_idle_daemon_once_in_ten_at_most(start):
    service = start(WATCHDOG_USEC="30000000")
    service.must_hear("STATUS=serving 0 arrays")
    service.hear("anything", 0.5)  # it has gone to sleep
    before = wake_ups(service.process.pid)
    assert service.hear("anything", 2) is None, "the next sign of life comes later"
    assert wake_ups(service.process.pid) - before == 0


def test_the_watchdog_hears_a_daemon_that_lives_and_none_that_is_stopped(start):
    service = start(WATCHDOG_USEC="200000")
    for _ in range(3):
        service.must_hear("WATCHDOG=1")
    service.signal(signal.SIGSTOP)
    while service.hear("WATCHDOG=1", 0.4):
        pass  # what was on its way
    assert service.hear("WATCHDOG=1", 0.4) is None
    service.signal(signal.SIGCONT)
    service.must_hear("WATCHDOG=1")


def test_a_watchdog_of_another_process_is_not_fed(start):
    service = start(WATCHDOG_USEC="20000", WATCHDOG_PID="1")
    assert service.hear("WATCHDOG=1", 0.3) is None


def test_a_manager_that_cannot_be_told_is_named_in_the_log(start):
    service = start(ready=False, NOTIFY_SOCKET="/nonexistent/notify")
    until(lambda: service.ctl("health").returncode == 0, "the daemon answers", service.process)
    until(lambda: "cannot tell the service manager" in service.log(), "it says so")


# ---- When it ends by itself.


def test_persistent_arrays_keep_a_daemon_as_long_as_it_can_be_found(start):
    service = start("--idle-exit-s=1")
    Client(str(service.directory)).end()
    assert service.hear("STOPPING=1", 2) is None, "sim/u is persistent"
    aside = service.directory.with_name("aside")
    service.directory.rename(aside)
    until(lambda: "is gone: nobody new can connect" in service.log(), "it sees that")
    aside.rename(service.directory)
    assert service.hear("STOPPING=1", 2) is None, "all is in its place again"
    shutil.rmtree(service.directory)
    service.must_hear("STOPPING=1")
    assert service.wait() == 0
    [line] = [it for it in service.log().splitlines() if "ending with its arrays" in it]
    assert "arrays=1" in line


def test_a_daemon_that_cannot_be_found_serves_who_is_connected(start):
    service = start("--idle-exit-s=1")
    client = Client(str(service.directory))
    shutil.rmtree(service.directory)
    until(lambda: "is gone: nobody new can connect" in service.log(), "it sees that")
    assert service.hear("STOPPING=1", 2) is None
    client.end()
    service.must_hear("STOPPING=1")
    assert service.wait() == 0


# ---- Sockets that it is given.


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
        assert left == ["attach.sock", "control.sock"]
        service = start(sockets=sockets)
        assert service.ctl("health").returncode == 0


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


# ---- SIGHUP.


def limit(service, name):
    status = service.ctl("status", "--json")
    assert status.returncode == 0, status.stderr
    return json.loads(status.stdout)[name]


def quotas(service):
    [mine] = limit(service, "quotas")
    return mine


def reload(service):
    service.signal(signal.SIGHUP)
    assert "MONOTONIC_USEC=" in service.must_hear("RELOADING=1")
    service.must_hear("READY=1")


def test_a_reload_changes_limits_under_running_clients(start, directory):
    file = directory / "memleased.toml"
    file.write_text('quota_arrays = 5\nlog_level = "info"\n')
    service = start("--config", str(file))
    client = Client(str(service.directory))
    assert quotas(service)["arrays_limit"] == 5
    file.write_text(
        'quota_arrays = 1\nmemory_limit_bytes = "1GiB"\nquota_sessions = 7\nlog_level = "debug"\n'
    )
    reload(service)
    mine = quotas(service)
    assert mine["arrays_limit"] == 1
    assert mine["arrays"] == 1, "nobody loses what they have"
    assert mine["sessions_limit"] == 7
    assert limit(service, "memory_limit_bytes") == 1 << 30
    assert f"setting=quota_arrays from=5 to=1 origin={file}:1" in service.log()
    create = "import sys, memlease; memlease.connect(sys.argv[1]).create('b', shape=1, dtype='f4')"
    refused = subprocess.run(
        [sys.executable, "-c", create, str(service.directory)],
        capture_output=True, text=True, check=False, timeout=DEADLINE_S, env=clean_environment(),
    )  # fmt: skip
    assert "of its 1 arrays" in refused.stderr
    assert "DEBUG" in service.log().upper(), "the level holds, too"
    client.end()


def test_a_reload_of_a_wrong_file_keeps_the_old_settings(start, directory):
    file = directory / "memleased.toml"
    file.write_text("quota_arrays = 5\n")
    service = start("--config", str(file))
    client = Client(str(service.directory))
    file.write_text("quota_arrays = 6\nquota_session = 7\n")
    reload(service)
    assert quotas(service)["arrays_limit"] == 5
    assert f"{file}:2: unknown key 'quota_session'. Did you mean 'quota_sessions'?" in service.log()
    file.unlink()
    reload(service)
    assert f"{file}: the file cannot be read: No such file or directory" in service.log()
    assert quotas(service)["arrays_limit"] == 5
    client.end()


def test_what_cannot_change_at_run_time_is_named(start, directory):
    file = directory / "memleased.toml"
    file.write_text("")
    service = start("--config", str(file))
    file.write_text("socket_mode = 0o666\nidle_exit_s = 86400\n")
    reload(service)
    log = service.log()
    assert "a setting cannot change while the daemon runs: restart it setting=socket_mode" in log
    assert "setting=idle_exit_s from=0 to=86400" in log
    mode = (service.directory / "control.sock").stat().st_mode & 0o777
    assert mode == 0o600
    service.signal(signal.SIGHUP)
    service.must_hear("READY=1")


# ---- Its directory.


def test_a_removed_socket_is_told_to_the_operator(start):
    service = start()
    client = Client(str(service.directory))
    gone = service.directory / "control.sock"
    gone.unlink()
    service.must_hear(f"STATUS=nobody new can connect: {gone} is gone; serving 1 array")
    assert f"{gone} is gone: nobody new can connect" in service.log()
    assert "mechanism=directory" in service.log()
    client.end()
    service.signal(signal.SIGTERM)
    assert service.wait() == 0


def test_a_replaced_directory_is_told_to_the_operator(start, directory):
    service = start()
    service.directory.rename(directory / "aside")
    service.must_hear(f"STATUS=nobody new can connect: {service.directory} is gone")
    (directory / "aside").rename(service.directory)
    until(lambda: service.ctl("health").returncode == 0, "it is there again", service.process)
    service.must_hear("STATUS=serving 0 arrays")
