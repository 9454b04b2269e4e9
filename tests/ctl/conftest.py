"""Real processes for the tests of memleasectl: a private daemon, clients, memleasectl itself.

The programs are those in the directory MEMLEASE_BIN, else the first in PATH.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

DEADLINE_S = 30


def program(name):
    path = shutil.which(name, path=os.environ.get("MEMLEASE_BIN"))
    if path is None:
        raise FileNotFoundError(f"{name} is neither in MEMLEASE_BIN nor in PATH: run ./dev build")
    return path


def program_of_prometheus(name):
    """Return the path of one of the programs that ./dev unpacks."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = shutil.which(name) or cache / "memlease/prometheus/usr/bin" / name
    assert Path(path).is_file(), f"there is no {name}: run ./dev setup"
    return path


def clean_environment(**changes):
    """Our environment without what would lead memleasectl elsewhere."""
    unwanted = ("MEMLEASE_DIR", "XDG_RUNTIME_DIR", "NO_COLOR")
    return {k: v for k, v in os.environ.items() if k not in unwanted} | changes


def ctl(*args, user=None, **env):
    """Run memleasectl; `user` is a uid."""
    ids = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    return subprocess.run(
        [program("memleasectl"), *map(str, args)],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd="/",
        env=clean_environment(**env), **ids,
    )  # fmt: skip


class Daemon:
    """A running memleased and memleasectl for it."""

    def __init__(self, directory, *options, through=(), stderr=None):
        self.directory = str(directory)
        self.process = subprocess.Popen(
            [*through, program("memleased"), "--directory", self.directory, *options],
            env=clean_environment(),
            stderr=stderr,
        )
        until(lambda: self.ctl("health").returncode == 0, "the daemon answers", self.process)

    def ctl(self, *args, **kwargs):
        return ctl("--directory", self.directory, *args, **kwargs)

    def json(self, *args, **kwargs):
        result = self.ctl(*args, "--json", **kwargs)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(DEADLINE_S)


def until(condition, what, process=None):
    """Ask again until it is so: the other side has no way to tell us."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert process is None or process.poll() is None, f"ended before {what}"
        assert time.monotonic() < end, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.01)


@pytest.fixture
def directory():
    """Make a directory as /run/memlease: everybody may look in, its owner alone writes."""
    path = Path(tempfile.mkdtemp(prefix="memlease-ctl-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start_daemon(directory):
    with contextlib.ExitStack() as stack:

        def start(*options, **kwargs):
            daemon = Daemon(directory, *options, **kwargs)
            stack.callback(daemon.end)
            return daemon

        yield start


@pytest.fixture
def start(directory):
    """Return a function that starts a daemon as a service."""
    from service import Service  # it needs this module

    with contextlib.ExitStack() as stack:

        def start(*options, ready=True, **more):
            service = Service(directory, *options, **more)
            stack.callback(service.end)
            if ready:
                service.must_hear("READY=1")
            return service

        yield start


@pytest.fixture
def daemon(start_daemon, request):
    """Start a daemon; its options come by indirect parametrization."""
    return start_daemon(*getattr(request, "param", ()))


# For tests in which another user calls: with the default, only the daemon's own may connect.
open_to_all = pytest.mark.parametrize("daemon", [("--socket-mode", "0666")], indirect=True)


CLIENT = """
import sys, memlease
client = memlease.connect(sys.argv[1], start=False)
field = client.create("sim/u", shape=(4, 8), dtype="f4", slots=3, max_slots=3,
                      lifetime="persistent")
for step in range(2):
    with field.write() as w:
        w[...] = step
lease = field.read()
print(client.session_id, flush=True)
sys.stdin.read()
"""


class Client:
    """A process that has created sim/u, published two versions and reads the second."""

    def __init__(self, directory):
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, directory],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment(),
        )  # fmt: skip
        self.pid = self.process.pid
        self.session = int(self.process.stdout.readline())

    def end(self):
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)


@pytest.fixture
def client(daemon):
    client = Client(daemon.directory)
    yield client
    client.end()
