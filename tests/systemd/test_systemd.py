"""The units of deploy/systemd under a real systemd: ./dev prove systemd.

One machine for all; each test finds the daemon stopped and its sockets listening.
"""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from machine import Machine, until

PROJECT = Path(__file__).parents[2]
BUILD = Path(os.environ["MEMLEASE_BUILD_DIR"])
UNITS = PROJECT / "deploy/systemd"
DIRECTORY = "/run/memlease"
SERVICE = "memleased.service"
SETTINGS = "etc/memlease/memleased.toml"
# Two who are in the group memlease, and one who is not.
ALICE, BOB, CAROL = 2001, 2002, 2003


def install(machine):
    """Put the programs and units where a package has them."""
    root = machine.root
    for program in ("bin/memleased", "bin/memleasectl", "tests/memlease_peer"):
        shutil.copy(BUILD / program, root / "usr/bin")
        # Whoever runs this has them; a minimal system has not those of gRPC, for the tests' client.
        libraries = subprocess.check_output(["ldd", BUILD / program], text=True)
        for library in re.findall(r"=> /(\S+)", libraries):
            if not (root / library).exists():
                shutil.copy(f"/{library}", root / "usr/lib")
    units = root / "usr/lib/systemd"
    for manager in ("system", "user"):
        for unit in (UNITS / manager).glob("memleased.*e*"):
            if unit.is_file():
                shutil.copy(unit, units / manager)
    shutil.copy(UNITS / "sysusers.conf", root / "usr/lib/sysusers.d/memlease.conf")
    shutil.copy(UNITS / "tmpfiles.conf", root / "usr/lib/tmpfiles.d/memlease.conf")
    (root / "etc/memlease").mkdir()
    people = "".join(f"u p{uid} {uid} - /tmp -\n" for uid in (ALICE, BOB, CAROL))
    members = "".join(f"m p{uid} memlease\n" for uid in (ALICE, BOB))
    (root / "usr/lib/sysusers.d/people.conf").write_text(people + members)
    wants = root / "etc/systemd/system/sockets.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / "memleased.socket").symlink_to("/usr/lib/systemd/system/memleased.socket")


@pytest.fixture(scope="module")
def booted():
    machine = Machine()
    try:
        install(machine)
        machine.boot()
        yield machine
    finally:
        machine.close()


@pytest.fixture
def machine(booted):
    yield booted
    for name in (
        "etc/systemd/system/memleased.service.d",
        "run/systemd/system/memleased.service.d",
    ):
        booted.run("rm", "-rf", f"/{name}")
    (booted.root / SETTINGS).unlink(missing_ok=True)
    booted.must("systemctl", "daemon-reload")
    booted.must("systemctl", "stop", SERVICE)
    booted.run("systemctl", "reset-failed", SERVICE, "memleased.socket")
    booted.must("systemctl", "start", "memleased.socket")


class Client:
    """A client process in the machine that does what it is told."""

    def __init__(self, machine, user, directory=DIRECTORY):
        self.process = subprocess.Popen(
            machine.command("memlease_peer", directory, 0, 0, "", user=user),  # stays who it is
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def must(self, *lines):
        for line in lines:
            answer = self.ask(line)
            assert answer.startswith("ok"), f"{line}: {answer}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)


def show(machine, name, unit=SERVICE):
    return machine.must("systemctl", "show", "--value", f"--property={name}", unit).strip()


def kill(machine, signal_name):
    machine.must("systemctl", "kill", "--kill-who=main", f"--signal={signal_name}", SERVICE)


def health(machine, user=ALICE):
    return machine.run("memleasectl", "--directory", DIRECTORY, "health", user=user)


def journal(machine, *options):
    machine.must("journalctl", "--sync")
    return machine.must("journalctl", "--unit", SERVICE, "--output=cat", *options)


def drop_in(machine, text, name="test"):
    folder = machine.root / "etc/systemd/system/memleased.service.d"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.conf").write_text(f"[Service]\n{text}\n")
    machine.must("systemctl", "daemon-reload")


def sockets(machine):
    listing = machine.must("ls", DIRECTORY).split()
    return [name for name in listing if name.endswith(".sock")]


def test_at_boot_the_sockets_come_first_and_the_daemon_with_the_first_client(machine):
    assert show(machine, "ActiveState", "memleased.socket") == "active"
    assert show(machine, "ActiveState") == "inactive"
    socket = int(show(machine, "ActiveEnterTimestampMonotonic", "memleased.socket"))
    target = int(show(machine, "ActiveEnterTimestampMonotonic", "multi-user.target"))
    assert 0 < socket < target
    assert machine.must("stat", "--format=%U:%G %a", DIRECTORY).strip() == "memlease:memlease 755"
    for name in sockets(machine):
        owner = machine.must("stat", "--format=%U:%G %a", f"{DIRECTORY}/{name}").strip()
        assert owner == "memlease:memlease 660"
    assert health(machine).returncode == 0
    assert show(machine, "ActiveState") == "active"
    owner = machine.must("stat", "--format=%U", f"{DIRECTORY}/memleased.lock").strip()
    assert owner == "memlease", "and not as root"


def test_the_machine_boots_with_nothing_failed(machine):
    failed = machine.must("systemctl", "list-units", "--failed", "--plain", "--no-legend")
    assert "memlease" not in failed


def test_two_users_share_and_a_third_stays_outside(machine):
    with Client(machine, ALICE) as alice, Client(machine, BOB) as bob:
        alice.must("connect", "create a 3 644 512 session", "put a 1000")
        bob.must("connect", "read a 0 1000", "verify a")
        assert bob.ask("write a 1000").startswith("error Denied")
        until(
            lambda: "serving 1 array, 12.0 KiB, 2 sessions" in show(machine, "StatusText"),
            "STATUS=",
        )
        bob.must("release a")
    with Client(machine, CAROL) as carol:
        assert carol.ask("connect").startswith("error Denied")


def test_a_killed_daemon_is_started_again(machine):
    with Client(machine, ALICE) as alice:
        alice.must("connect", "create a 3 600 512 session", "put a 1000")
        before = show(machine, "MainPID")
        start = time.monotonic()
        kill(machine, "KILL")
        until(lambda: show(machine, "NRestarts") == "1", "it is started again", 5)
        until(lambda: show(machine, "ActiveState") == "active", "it is ready again", 5)
        print(f"restarted within {time.monotonic() - start:.2f} s")
        assert show(machine, "MainPID") != before
        # A client looks for its daemon once a second.
        until(lambda: alice.ask("put a 1000").startswith("error DaemonLost"), "alice is told", 5)
        alice.must("connect", "create b 3 600 512 session", "put b 1000")


def test_a_reload_takes_what_is_right_and_refuses_what_is_wrong(machine):
    settings = machine.root / SETTINGS
    settings.write_text("quota_arrays = 5\n")
    assert health(machine).returncode == 0
    before = show(machine, "MainPID")

    def arrays_limit():
        status = machine.must(
            "memleasectl", "--directory", DIRECTORY, "status", "--json", user=ALICE
        )
        return {q["arrays_limit"] for q in json.loads(status)["quotas"]}

    with Client(machine, ALICE) as alice:
        alice.must("connect", "create a 3 600 512 session")
        assert arrays_limit() == {5}
        settings.write_text("quota_arrays = 6\n")
        machine.must("systemctl", "reload", SERVICE)
        until(lambda: arrays_limit() == {6}, "the new limit holds")
        settings.write_text("quota_arrays = 7\nquota_array = 8\n")
        machine.must("systemctl", "reload", SERVICE)
        errors = lambda: journal(machine, "--priority=err")  # noqa: E731
        until(lambda: f"/{SETTINGS}:2: unknown key" in errors(), "the journal has the line")
        assert arrays_limit() == {6}
        until(lambda: show(machine, "SubState") == "running", "the reload has ended")
        alice.must("put a 1000")
    assert show(machine, "MainPID") == before


def test_a_daemon_started_by_hand_leaves_the_sockets_that_wait_alone(machine):
    by_hand = machine.run("memleased", "--directory", DIRECTORY, user="memlease")
    assert by_hand.returncode == 73, by_hand.stderr
    assert "systemctl start memleased.service" in by_hand.stderr
    assert show(machine, "ActiveState") == "inactive", "nothing was started by that"
    assert sockets(machine) == ["attach.sock", "control.sock"]
    assert health(machine).returncode == 0, "the sockets are still the unit's"


def test_wrong_settings_at_the_start_are_an_end_and_no_loop(machine):
    (machine.root / SETTINGS).write_text("\n\nquota_arrays = many\n")
    machine.run("systemctl", "start", SERVICE)
    assert show(machine, "ExecMainStatus") == "78"
    assert show(machine, "NRestarts") == "0"
    assert f"/{SETTINGS}:3:" in journal(machine, "--priority=err")


def test_wrong_settings_do_not_cost_the_sockets(machine):
    """Clients come as fast as they can for longer than the unit's limit of starts counts."""
    (machine.root / SETTINGS).write_text("quota_arrays = many\n")
    end = time.monotonic() + 62
    while time.monotonic() < end:
        with Client(machine, ALICE) as alice:
            assert "memleased cannot start" in alice.ask("connect")
    assert show(machine, "ActiveState", "memleased.socket") == "active"
    (machine.root / SETTINGS).unlink()
    machine.must("systemctl", "restart", SERVICE)
    assert health(machine).returncode == 0


def test_a_daemon_that_hangs_is_ended_by_the_watchdog(machine):
    drop_in(machine, "WatchdogSec=1\nTimeoutAbortSec=2")
    assert health(machine).returncode == 0
    time.sleep(2)  # longer than the watchdog: one that lives is let live
    assert show(machine, "NRestarts") == "0"
    start = time.monotonic()
    kill(machine, "STOP")
    until(lambda: show(machine, "NRestarts") == "1", "the watchdog acts", 15)
    print(f"hung daemon replaced within {time.monotonic() - start:.2f} s")
    until(lambda: show(machine, "ActiveState") == "active", "it is ready again", 5)
    assert "Watchdog timeout" in journal(machine)
    assert health(machine).returncode == 0


def test_a_stop_waits_for_leases_and_says_for_whose(machine):
    with Client(machine, ALICE) as alice:
        alice.must("connect", "create a 3 600 512 session", "put a 1000", "read a 0 1000")
        machine.must("systemctl", "stop", "--no-block", SERVICE)
        until(lambda: "waiting for leases of pid" in show(machine, "StatusText"), "it says so")
        assert show(machine, "ActiveState") == "deactivating"
        alice.must("verify a", "release a")
        until(lambda: show(machine, "ActiveState") == "inactive", "it ends with the last lease", 10)
    assert show(machine, "Result") == "success"
    assert show(machine, "StatusText") == "", "nothing is said of a daemon that has ended"
    assert sockets(machine) == ["attach.sock", "control.sock"], "they are the other unit's"
    machine.must("systemctl", "stop", "memleased.socket")
    assert sockets(machine) == []


def test_a_stop_waits_for_a_lease_that_does_not_end_until_its_deadline_and_no_longer(machine):
    (machine.root / SETTINGS).write_text("drain_timeout_s = 3\n")
    with Client(machine, ALICE) as alice:
        alice.must("connect", "create a 3 600 512 session", "put a 1000", "read a 0 1000")
        start = time.monotonic()
        machine.must("systemctl", "stop", SERVICE)
        took = time.monotonic() - start
        print(f"stopped with a lease that is out within {took:.2f} s of 3")
        assert 3 <= took < 15, took
        assert show(machine, "Result") == "success", "nobody had to kill it"
        assert show(machine, "ExecMainStatus") == "0"
        assert show(machine, "StatusText") == ""
        warned = journal(machine, "--priority=warning")
        assert re.search(r"drain_timeout_s is over.* held_by=\"?pid \d+", warned), warned
        alice.must("verify a")  # what it has mapped it keeps
        assert alice.ask("put a 1000").startswith("error DaemonLost")


def test_the_journal_has_each_line_at_its_priority(machine):
    settings = machine.root / SETTINGS
    assert health(machine).returncode == 0
    machine.must("journalctl", "--rotate")
    machine.must("journalctl", "--vacuum-time=1s")

    def reload_with(text, expected):
        settings.write_text(text)
        machine.must("systemctl", "reload", SERVICE)
        until(lambda: expected in journal(machine), expected)

    reload_with("quota_arrays = 7\n", "a setting has changed")
    reload_with('quota_arrays = 7\nmetrics = "unix"\n', "a setting cannot change while")
    reload_with("quota_arrays = many\n", "the settings are wrong, the old ones stay")
    priorities = {}
    for line in journal(machine, "--output=json").splitlines():
        entry = json.loads(line)
        if entry["_COMM"] == "memleased":
            priorities[entry["MESSAGE"]] = int(entry["PRIORITY"])
    info, warning, error = 6, 4, 3

    def of(text):
        [found] = [number for message, number in priorities.items() if text in message]
        return found

    assert of("a setting has changed") == info
    assert of("a setting cannot change while") == warning
    assert of("the settings are wrong") == error
    assert not [m for m in priorities if m.startswith("<")], "the prefix is systemd's alone"
    # As the page on operations says: what is usual is left out.
    shown = journal(machine, "--priority=warning")
    assert "cannot change while" in shown
    assert "a setting has changed" not in shown


def test_a_directory_that_is_missing_at_the_start_is_an_end_that_says_what_to_do(machine):
    """Somebody has removed it, and with it the sockets that the other unit holds."""
    machine.must("rm", "-rf", DIRECTORY)
    assert machine.run("systemctl", "start", SERVICE).returncode != 0
    assert show(machine, "ExecMainStatus") == "78"
    assert show(machine, "NRestarts") == "0", "to try again is of no use"
    said = journal(machine, "--priority=err")
    assert f"{DIRECTORY}/" in said, said
    # The cure that the page on operations has.
    machine.run("systemctl", "reset-failed", SERVICE, "memleased.socket")
    machine.must("systemctl", "restart", "memleased.socket", SERVICE)
    assert machine.must("stat", "--format=%U:%G %a", DIRECTORY).strip() == "memlease:memlease 755"
    assert health(machine).returncode == 0


def test_a_unit_whose_directory_cannot_be_there_names_it(machine):
    """Of somebody who starts it without sockets, for a place whose parent is not there."""
    daemon = "/usr/bin/memleased --directory=/srv/none/memlease --log-format=journal"
    machine.must("systemctl", "stop", "memleased.socket")
    drop_in(machine, f"Sockets=\nExecStart=\nExecStart={daemon}")
    machine.run("systemctl", "start", SERVICE)
    said = journal(machine, "--priority=err")
    assert "/srv/none" in said, said


def test_a_unit_without_its_user_says_so(machine):
    drop_in(machine, "User=nosuchuser")
    assert machine.run("systemctl", "start", SERVICE).returncode != 0
    assert "nosuchuser" in journal(machine) or show(machine, "ExecMainStatus") == "217"


def test_a_gpu_drop_in_without_a_gpu_serves_host_arrays(machine):
    folder = machine.root / "etc/systemd/system/memleased.service.d"
    folder.mkdir(parents=True)
    shutil.copy(UNITS / "system/memleased.service.d/gpu.conf", folder)
    machine.must("systemctl", "daemon-reload")
    with Client(machine, ALICE) as alice:
        alice.must("connect", "create a 3 600 512 session", "put a 1000")


def test_the_cleaner_of_tmp_keeps_away_from_a_daemon_there(machine):
    directory = "/tmp/memlease-0"
    machine.must("memleased", "--directory", directory, "--background")
    machine.must("sh", "-c", "mkdir /tmp/old && touch /tmp/old/file")
    (machine.root / "etc/clean.conf").write_text("d /tmp 1777 root root 1us\n")
    machine.must("systemd-tmpfiles", "--clean", "/etc/clean.conf")
    assert machine.run("test", "-e", "/tmp/old/file").returncode == 1, "it cleans what is old"
    left = machine.must("ls", directory).split()
    assert left == ["attach.sock", "control.sock", "memleased.lock", "memleased.log"]
    pid = machine.must("cat", f"{directory}/memleased.lock").strip()
    machine.must("sh", "-c", f"kill -TERM {pid}")


def test_a_users_own_units(machine):
    machine.must("loginctl", "enable-linger", str(ALICE))
    runtime = f"/run/user/{ALICE}"
    until(lambda: machine.run("test", "-S", f"{runtime}/bus").returncode == 0, "its manager runs")

    def mine(*command):
        return machine.must(*command, user=ALICE, XDG_RUNTIME_DIR=runtime, HOME="/tmp")

    mine("systemctl", "--user", "start", "memleased.socket")
    with Client(machine, ALICE, f"{runtime}/memlease") as alice:
        alice.must("connect", "create a 3 600 512 session", "put a 1000")
        assert mine("systemctl", "--user", "is-active", SERVICE).strip() == "active"
        mine("systemctl", "--user", "reload", SERVICE)
    mine("systemctl", "--user", "stop", SERVICE, "memleased.socket")
    machine.must("loginctl", "disable-linger", str(ALICE))


def test_an_enabled_daemon_is_there_after_a_boot(booted):
    booted.must("systemctl", "enable", SERVICE)
    booted.power_off()
    booted.boot()
    assert show(booted, "ActiveState") == "active"
    entered = [int(show(booted, "ActiveEnterTimestampMonotonic", unit))
               for unit in ("memleased.socket", SERVICE, "multi-user.target")]  # fmt: skip
    assert entered == sorted(entered), "sockets, daemon, whoever needs it"
    assert re.match("serving 0 arrays", show(booted, "StatusText"))
    kill(booted, "TERM")
    until(lambda: show(booted, "ActiveState") == "inactive", "a clean end is no failure")
