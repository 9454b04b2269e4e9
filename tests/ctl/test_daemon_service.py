"""The daemon under a service manager: what it tells, the sockets it is given, what SIGHUP does."""

import json
import shutil
import signal
import subprocess
import sys
import time

from conftest import DEADLINE_S, Client, clean_environment, until
from service import wake_ups

SO_PASSRIGHTS = 83  # Linux 6.16


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
