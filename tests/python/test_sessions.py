"""How long the names of session arrays last, and what is one session."""

import gc
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import memlease
import numpy as np
import pytest
from memlease import testing


def test_a_name_outlives_the_client_that_made_it(memlease_daemon):
    with memlease_daemon.connect() as client:
        client.put("a", np.ones(3))
        session = client.session_id
    with memlease_daemon.connect() as client:
        assert client.get("a").tolist() == [1, 1, 1]
        assert client.session_id == session
        assert client.put("a", np.zeros(3)).version == 2


def test_a_name_outlives_handles_that_nobody_keeps(memlease_daemon):
    memlease_daemon.connect().create("a", 3, "f4", fill=1)
    gc.collect()
    assert memlease_daemon.connect().get("a").tolist() == [1, 1, 1]


def test_a_name_goes_with_its_process(memlease_daemon, memlease_client):
    code = f"""if True:
    import memlease
    with memlease.connect({memlease_daemon.directory!r}, start=False) as client:
        client.create("a", 3, "f4", fill=1)
    with memlease.connect({memlease_daemon.directory!r}, start=False) as client:
        print(client.list())
    """
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (process.stdout, process.stderr) == ("['a']\n", "")
    deadline = time.monotonic() + 20
    while memlease_client.list():  # the daemon sees the end of a process on its own thread
        assert time.monotonic() < deadline


def test_a_process_that_creates_nothing_leaves_with_its_last_client(memlease_daemon):
    memlease_daemon.connect().create("a", 3, "f4", lifetime="persistent").close()
    gc.collect()
    with memlease_daemon.connect() as client:
        first = client.session_id
        assert client.open("a").version == 0
    with memlease_daemon.connect() as client:
        assert client.session_id != first


def test_a_forked_child_has_a_session_of_its_own(memlease_daemon):
    code = f"""if True:
    import memlease, os
    memlease.connect({memlease_daemon.directory!r}, start=False).create("a", 3, "f4", fill=1)
    child = os.fork()
    client = memlease.connect({memlease_daemon.directory!r}, start=False)
    if child == 0:
        client.create("b", 3, "f4")
        os._exit(0 if client.list() == ["a", "b"] else 1)
    print(os.waitpid(child, 0)[1], client.exists("a"))
    """
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (process.stdout, process.stderr) == ("0 True\n", "")


def test_a_directory_is_one_however_it_is_spelled(memlease_daemon, tmp_path, monkeypatch):
    folder, name = os.path.split(memlease_daemon.directory)
    link = tmp_path / "link"
    link.symlink_to(memlease_daemon.directory)
    monkeypatch.chdir(folder)
    first = memlease_daemon.connect()
    for spelling in (name, f"./{name}/", f"{folder}//{name}", str(link), f"{link}/"):
        with memlease.connect(spelling, start=False) as client:
            assert client.session_id == first.session_id
    first.close()
    with memlease.connect(name, start=False) as client:
        assert os.path.isabs(client.directory)
        array = client.create("a", 1, "f4")
        monkeypatch.chdir("/")
        assert client.exists("a")
        assert os.path.isabs(array.directory)


def test_another_daemon_on_the_directory_is_another_session(memlease_daemon, tmp_path):
    memlease_daemon.connect().create("a", 3, "f4", fill=1)
    memlease_daemon.stop()
    second = testing.Daemon(memlease_daemon.directory, tmp_path / "log")
    try:
        assert second.connect().list() == []
        second.connect().create("b", 3, "f4", fill=1)
        gc.collect()
        assert second.connect().list() == ["b"]
    finally:
        second.stop()


def test_daemons_that_have_gone_leave_no_descriptors(tmp_path):
    """Their arrays' names would have lasted until this process ends."""

    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    seen = []
    for number in range(4):
        daemon = testing.Daemon(str(tmp_path / f"run-{number}"), tmp_path / "log")
        with daemon.connect() as client:
            client.put("a", np.ones(3))
        daemon.stop()
        gc.collect()
        seen.append(descriptors())
    assert seen[3] <= seen[1]


def test_connect_starts_a_daemon_where_one_is_ending(memlease_daemon):
    code = f"""if True:
    import memlease
    lease = memlease.connect({memlease_daemon.directory!r}).create("a", 3, "f4", fill=1).read()
    print(lease.version, flush=True)
    input()
    """
    reader = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout.readline() == "1\n"
    memlease_daemon.process.terminate()
    said = ""
    while "shutting down" not in said:  # it waits for the reader
        try:
            memlease_daemon.connect().close()
        except memlease.DaemonUnavailable as error:
            said = str(error)
    with ThreadPoolExecutor() as threads:
        connecting = threads.submit(memlease.connect, memlease_daemon.directory)
        assert reader.communicate("\n") == ("", None)
        client = connecting.result(30)
    assert client.list() == []
    client.close()
    end_the_next(memlease_daemon)


def end_the_next(daemon):
    """End the daemon that connect() has started in place of this one."""
    directory = Path(daemon.directory)
    pid = int((directory / "memleased.lock").read_text())
    assert pid != daemon.pid
    pidfd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGTERM)
    assert select.select([pidfd], [], [], 30)[0]
    os.close(pidfd)
    (directory / "memleased.log").unlink()


def test_connect_waits_for_an_answer_no_longer_than_its_timeout(memlease_daemon):
    memlease.connect(memlease_daemon.directory, timeout=0).close()
    memlease_daemon.process.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    try:
        with pytest.raises(memlease.Timeout, match="it does not answer"):
            memlease.connect(memlease_daemon.directory, timeout=0.2)
        assert time.monotonic() - begin < 5
    finally:
        memlease_daemon.process.send_signal(signal.SIGCONT)
    with memlease.connect(memlease_daemon.directory, timeout=float("inf")) as client:
        assert client.list() == []
    with pytest.raises(memlease.InvalidArgument, match="timeout must be a number of seconds"):
        memlease.connect(memlease_daemon.directory, timeout=-1)


def lease_that_is_waited_for(daemon):
    """End a daemon but for a lease of this process, which is returned."""
    lease = daemon.connect().create("a", 3, "f4", fill=1).read()
    daemon.process.terminate()
    while (Path(daemon.directory) / "attach.sock").exists():
        time.sleep(0.001)
    return lease


def test_connect_leaves_a_daemon_that_is_ending(memlease_daemon):
    attached = memlease_daemon.connect()
    lease = lease_that_is_waited_for(memlease_daemon)
    with pytest.raises(memlease.DaemonUnavailable, match="shutting down"):
        memlease_daemon.connect()
    for timeout in (0, 0.2):
        with pytest.raises(memlease.Timeout, match=rf"within {timeout} s: it is shutting down"):
            memlease.connect(memlease_daemon.directory, timeout=timeout)
    with ThreadPoolExecutor() as threads:
        connecting = threads.submit(memlease.connect, memlease_daemon.directory, timeout=60)
        assert lease.array.tolist() == [1, 1, 1]
        lease.release()  # that is what the daemon waits for
        client = connecting.result(30)
    assert client.create("b", 3, "f4", fill=2).get().tolist() == [2, 2, 2]
    assert client.list() == ["b"]
    with pytest.raises(memlease.DaemonLost):
        attached.list()
    client.close()
    end_the_next(memlease_daemon)


def test_connect_says_once_that_it_waits_for_a_daemon_that_is_ending(memlease_daemon):
    lease = lease_that_is_waited_for(memlease_daemon)
    directory, said = memlease_daemon.directory, []

    class Releasing(logging.Handler):
        def emit(self, record):
            said.append((record.levelname, record.getMessage()))
            lease.release()

    logger, handler = logging.getLogger("memlease"), Releasing()
    logger.addHandler(handler)
    try:
        memlease.connect(directory, timeout=60).close()
    finally:
        logger.removeHandler(handler)
    assert said == [
        (
            "WARNING",
            f"the daemon in {directory} is shutting down, and waits for leases (memleasectl "
            f"--directory={directory} holders shows whose); connect() waits for its end, 60 s at "
            "most",
        )
    ]
    end_the_next(memlease_daemon)


def test_ctrl_c_ends_the_wait_for_a_daemon_that_is_ending(memlease_daemon):
    lease = lease_that_is_waited_for(memlease_daemon)
    interrupt = threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        memlease.connect(memlease_daemon.directory, timeout=float("inf"))
    interrupt.join()
    assert (Path(memlease_daemon.directory) / "control.sock").exists()  # it ends no sooner
    lease.release()


@pytest.mark.parametrize("how", ["timeout", "Ctrl-C"])
def test_a_connection_does_not_wait_for_anothers(memlease_daemon, how):
    directory = memlease_daemon.directory
    memlease_daemon.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, memlease_daemon.process.pid, os.WSTOPPED)
    first = threading.Thread(target=lambda: memlease.connect(directory))
    first.start()
    begin = time.monotonic()
    try:
        if how == "timeout":
            with pytest.raises(memlease.Timeout):
                memlease.connect(directory, timeout=0.3)
        else:
            interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
            interrupt.start()
            with pytest.raises(KeyboardInterrupt):
                memlease.connect(directory)
            interrupt.join()
        assert time.monotonic() - begin < 5
    finally:
        memlease_daemon.process.send_signal(signal.SIGCONT)
        first.join()


def test_why_no_daemon_could_be_started_is_said_in_one_line():
    with pytest.raises(memlease.DaemonUnavailable) as caught:
        memlease.connect("/proc/nowhere")
    said = str(caught.value)
    reason = "cannot make the directory '/proc/nowhere': No such file or directory"
    assert f"ended with code 1: {reason}. Make its parent directory" in said
    assert "\n" not in said


@pytest.mark.parametrize("address", ["localhost:5000", "tcp://localhost:5000"])
def test_an_address_is_no_directory(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        memlease.InvalidArgument, match=f"'{address}' is an address.*its own machine"
    ):
        memlease.connect(address)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "localhost:5000").mkdir(mode=0o700)
    if "/" not in address:
        with pytest.raises(memlease.DaemonUnavailable):
            memlease.connect(address, start=False)


def test_why_no_daemon_could_be_started_is_said_to_who_ignores_the_ends_of_children():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(memlease.Timeout) as caught:
            memlease.connect("/proc/nowhere", timeout=0.1)
    finally:
        signal.signal(signal.SIGCHLD, before)
    reason = "cannot make the directory '/proc/nowhere': No such file"
    assert f"the one that was started has said: {reason}" in str(caught.value)


def test_a_client_says_whether_it_is_closed(memlease_daemon):
    client, other = memlease_daemon.connect(), memlease_daemon.connect()
    assert (client.closed, other.closed) == (False, False)
    assert repr(client).endswith(f" session={client.session_id}>")
    client.close()
    assert (client.closed, other.closed) == (True, False)
    assert repr(client) == f"<memlease.Client of {memlease_daemon.directory} closed>"
    other.close()


def test_errors_of_names_tell_of_which_daemon(memlease_client):
    for call, error in (
        (lambda: memlease_client.open("a"), memlease.NotFound),
        (lambda: memlease_client.withdraw("a"), memlease.NotFound),
        (lambda: memlease_client.get("a"), memlease.NotFound),
        (lambda: memlease_client.wait_for("a", timeout=0), memlease.Timeout),
    ):
        with pytest.raises(error) as caught:
            call()
        assert caught.value.message.endswith(f"in the daemon of {memlease_client.directory}")
