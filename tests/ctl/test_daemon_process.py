"""The daemon as a process: what it inherits, and what signals do to it."""

import contextlib
import os
import re
import resource
import signal
import subprocess
from pathlib import Path

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
    pid = background()  # leaves a line
    full = log.with_suffix(".log.1")
    until(lambda: full.exists() and log.exists(), "a new log begins")
    assert b" serving directory=" in full.read_bytes().splitlines()[-1]
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


ON_A_SMALL_FILE_SYSTEM = """
mount -t tmpfs -o size=256k,mode=0700 none "$2"
"$1" --background --log-level debug --directory "$2"
cat "$2/memleased.lock"
"""


@pytest.fixture
def on_a_small_file_system(directory):
    """Start a daemon in the background; its directory, as it is seen from here."""
    started = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", ON_A_SMALL_FILE_SYSTEM, "sh", program("memleased"),
         directory],
        env=clean_environment(), check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    pid = int(started.stdout)
    yield Path(f"/proc/{pid}/root{directory}")
    os.kill(pid, signal.SIGTERM)
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the daemon ends on SIGTERM")


def test_a_log_on_a_full_file_system_tells_why_it_lacks_lines_once_there_is_room(
    on_a_small_file_system,
):
    import memlease

    log = on_a_small_file_system / "memleased.log"
    filler = on_a_small_file_system / "filler"
    count = 60  # more than there is room for in the log's last page
    with memlease.connect(on_a_small_file_system, start=False) as client:
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        for number in range(count):
            client.create(f"lost/{number}", 1, "u1")
        assert "dropped" not in log.read_text()
        filler.unlink()
        client.create("kept", 1, "u1")
    until(lambda: "array=kept" in log.read_text(), "the log goes on")
    before, _, after = log.read_text().partition("Z warning lines of this log were dropped: ")
    reason, dropped = re.match(r"(.*) count=(\d+)\n", after).groups()
    assert reason == "No space left on device"
    whole = len(re.findall(r"array=lost/\d+ .*uid=\d+\n", before))
    assert whole < count
    assert int(dropped) >= count - whole, "and other lines"


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
