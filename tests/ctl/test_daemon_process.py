"""The daemon as a process: what it inherits, and what signals do to it."""

import os
import resource
import signal
import subprocess

import pytest
from conftest import clean_environment, ctl, program, until


def descriptors(pid):
    """Return what each descriptor of a process leads to."""
    folder = f"/proc/{pid}/fd"
    return {int(fd): os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)}


@pytest.fixture
def background(tmp_path):
    """Return a function that starts a daemon in the background by a shell's words, for its pid."""
    directory = tmp_path / "run"
    started = []

    def start(redirections="", **options):
        command = f'"{program("memleased")}" --background --directory "{directory}" {redirections}'
        subprocess.run(["sh", "-c", command], env=clean_environment(), check=True, **options)
        status = ctl("--directory", directory, "status", "--json")
        assert status.returncode == 0, status.stderr
        pid = int((directory / "memleased.lock").read_text())
        started.append(pid)
        return pid

    yield start
    for pid in started:
        os.kill(pid, signal.SIGTERM)
        until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), "the daemon ends on SIGTERM")
    assert not (directory / "attach.sock").exists()


def test_in_the_background_it_keeps_nothing_of_its_parents(background, tmp_path):
    read_end, write_end = os.pipe()
    pid = background(pass_fds=[write_end], cwd=tmp_path)
    os.close(write_end)
    assert os.read(read_end, 1) == b"", "the pipe's other end is closed everywhere"
    os.close(read_end)
    assert os.readlink(f"/proc/{pid}/cwd") == "/"


def test_standard_descriptors_may_be_closed(background, tmp_path):
    pid = background("<&- >&- 2>&-")
    found = descriptors(pid)
    log = str(tmp_path / "run" / "memleased.log")
    assert [found[fd] for fd in range(3)] == ["/dev/null", "/dev/null", log]
    daemon = ctl("--directory", tmp_path / "run", "health")
    assert daemon.returncode == 0, daemon.stderr


def test_a_log_that_is_full_is_kept_once(background, tmp_path):
    log = tmp_path / "run" / "memleased.log"
    log.parent.mkdir(mode=0o700)
    log.write_bytes(b"x" * (4 << 20))
    pid = background()
    os.kill(pid, signal.SIGHUP)  # leaves a line
    full = log.with_suffix(".log.1")
    until(lambda: full.exists() and log.exists(), "a new log begins")
    assert full.read_bytes().endswith(b"settings read again changed=0\n")
    until(lambda: descriptors(pid)[2] == str(log), "standard error is the new log")


@pytest.mark.parametrize("children", [signal.SIG_DFL, signal.SIG_IGN])
def test_its_start_in_the_background_fails_as_it_ends(tmp_path, children):
    failed = subprocess.run(
        [program("memleased"), "--background", "--directory", tmp_path / "no/where"],
        env=clean_environment(),
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, children),
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode != 0
    assert "No such file" in failed.stderr


def test_without_a_log_it_serves_and_says_so(background, tmp_path, capfd):
    log = tmp_path / "run" / "memleased.log"
    log.parent.mkdir(mode=0o700)
    os.mkfifo(log)  # which nobody reads
    pid = background()
    assert f"no log: {log}: No such device or address" in capfd.readouterr().err
    assert descriptors(pid)[2] == "/dev/null"


def test_it_blocks_the_signals_that_it_reads_alone(background):
    pid = background(preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]))
    with open(f"/proc/{pid}/status") as status:
        (blocked,) = (int(line.split()[1], 16) for line in status if line.startswith("SigBlk:"))
    read = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    assert blocked == sum(1 << (one - 1) for one in read)


def test_a_limit_of_the_size_of_files_costs_the_calls_that_meet_it(background, tmp_path):
    import memlease

    limit = (4 << 20, 4 << 20)
    background(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    with memlease.connect(tmp_path / "run", start=False) as client:
        client.create("small", (1 << 20,), "u1", fill=1)
        with pytest.raises(memlease.Error, match=r"File too large .*ulimit -f"):
            client.create("large", (64 << 20,), "u1")
        assert client.open("small").get()[0] == 1


def test_a_soft_limit_of_the_size_of_files_is_not_the_daemons(background, tmp_path):
    import memlease

    limit = (1 << 20, resource.RLIM_INFINITY)
    background(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    with memlease.connect(tmp_path / "run", start=False) as client:
        assert client.create("large", (64 << 20,), "u1", fill=1).get()[0] == 1


def test_a_soft_limit_of_the_processor_time_is_not_the_daemons(background):
    limit = (3600, resource.RLIM_INFINITY)
    pid = background(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit))
    with open(f"/proc/{pid}/limits") as limits:
        (line,) = (line for line in limits if line.startswith("Max cpu time"))
    assert line.split()[3:5] == ["unlimited", "unlimited"]


@pytest.mark.parametrize("count", [12, 16, 20, 24])
def test_without_descriptors_to_serve_it_does_not_start(tmp_path, count):
    """GRPC would end it at the first connection."""
    failed = subprocess.run(
        [program("memleased"), "--directory", tmp_path],
        env=clean_environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count)),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert failed.returncode > 0
    assert "ulimit -n" in failed.stderr
