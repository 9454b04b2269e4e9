"""The .deb packages by the documents' own words, and a daemon that is watched and stopped in use.

One machine without network, which has Debian's minimal system, systemd and NumPy, and a clone with
the packages in it; the first test installs them as docs/installing.md says.
"""

import os
import pty
import re
import select
import shutil
import subprocess
import termios
import time
from fcntl import ioctl
from pathlib import Path
from struct import pack

import pytest
from installed import ALICE, SERVICE, SETTINGS, SOCKET, nobody_is_connected, show
from machine import DEADLINE_S, Machine, must, until

PROJECT = Path(__file__).parents[2]
DEBS = Path(os.environ["MEMLEASE_DEBS"])
CLONE = "/srv/memlease"


def blocks(page, title, language="sh"):
    """Return the blocks of code of a section."""
    text = (PROJECT / page).read_text() + "\n## "
    [section] = re.findall(rf"^## {title}\n(.*?)^## ", text, re.M | re.S)
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.M | re.S)


@pytest.fixture(scope="module")
def machine():
    machine = Machine()
    try:
        clone = machine.root / CLONE.lstrip("/")
        for name in ("examples/hello", "tests/wheel"):
            shutil.copytree(PROJECT / name, clone / name)
        packages = clone / "build/deb/packages"
        packages.mkdir(parents=True)
        for deb in DEBS.glob("*.deb"):
            shutil.copy(deb, packages)
        machine.boot()
        machine.must("useradd", "--uid", ALICE, "alice")
        yield machine
    finally:
        machine.close()


def in_clone(machine, block, user=None):
    return machine.must("bash", "-ec", f"cd {CLONE}\n{block}", user=user)


@pytest.fixture
def installed(machine):
    """Have the packages, also where a test is run alone."""
    if machine.run("which", "memleased").returncode != 0:
        as_root, _ = blocks("docs/installing.md", "Debian packages")
        in_clone(machine, as_root)
    yield machine
    nobody_is_connected(machine)


def test_the_guide_leads_to_the_first_array(machine):
    as_root, as_alice = blocks("docs/installing.md", "Debian packages")
    in_clone(machine, as_root)
    assert show(machine, "ActiveState", SOCKET) == "active"
    assert show(machine, "ActiveState") == "inactive", "it starts with its first client"
    said = in_clone(machine, as_alice, user=ALICE)
    assert said.startswith("1.0\n"), said
    assert "Active: active (running)" in said
    assert re.search(r"^Directory +/run/memlease$", said, re.M), said
    assert show(machine, "ActiveState") == "active"
    nobody_is_connected(machine)


def test_the_ten_lines_of_the_readme_work_in_both_languages(installed, tmp_path):
    """They are compiled here, against the packages, and run there."""
    [block] = blocks("README.md", "Ten lines")
    lines = block.splitlines()
    build = [line for line in lines if line.startswith("cmake ")]
    run = [line for line in lines if line not in build]
    assert (len(build), len(run)) == (2, 2), block
    for deb in DEBS.glob("*.deb"):
        must("dpkg-deb", "--extract", deb, tmp_path / "root")
    (tmp_path / ".local").symlink_to(tmp_path / "root/usr")
    shutil.copytree(PROJECT / "examples/hello", tmp_path / "examples/hello")
    home = {**os.environ, "HOME": str(tmp_path)}
    must("bash", "-ec", "\n".join(build), cwd=tmp_path, env=home)
    program = installed.root / CLONE.lstrip("/") / "build/hello/hello"
    program.parent.mkdir()
    shutil.copy(tmp_path / "build/hello/hello", program)
    said = in_clone(installed, "\n".join([*run, "wait"]), user=ALICE)
    versions = re.findall(r"^version (\d+): mean (\d+)\.0$", said, re.M)
    assert len(versions) > 1, said
    assert all(version == mean for version, mean in versions)
    assert said.endswith("the writer has ended\n")


# ---- In use.


PUBLISHER = """
import select, sys, memlease
field = memlease.connect().create("sim/u", shape=(1000,), dtype="f8")
try:
    while True:
        version = field.put(0)
        if select.select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                break
            print(version, flush=True)
except memlease.Error as error:
    print(type(error).__name__, error, flush=True)
"""
READER = """
import select, sys, memlease
try:
    for lease in memlease.connect().wait_for("sim/u", timeout=30).follow():
        if select.select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                break
            print(lease.version, flush=True)
except memlease.Error as error:
    print(type(error).__name__, error, flush=True)
"""


class Program:
    """A Python of alice's in the machine, which says how far it is when it is asked."""

    def __init__(self, machine, code):
        self._process = subprocess.Popen(
            machine.command("python3", "-c", code, user=ALICE, HOME="/tmp"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def version(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        assert said.strip().isdigit(), said
        return int(said)

    def wait(self):
        """Wait until it has ended by itself; return its exit code and what it still said."""
        code = self._process.wait(DEADLINE_S)
        return code, self._process.stdout.read()

    def end(self):
        """Have it end at the end of its input: a kill would end nsenter alone."""
        self._process.communicate(timeout=DEADLINE_S)


@pytest.fixture
def programs(installed):
    """Start a process that publishes without a pause, and one that reads what it publishes."""
    both = [Program(installed, PUBLISHER), Program(installed, READER)]
    try:
        for program in both:
            program.version()
        yield both
    finally:
        for program in both:
            program.end()


def test_top_goes_on_on_a_terminal_until_q(installed, programs):
    master, theirs = pty.openpty()
    ioctl(master, termios.TIOCSWINSZ, pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(master)
    command = ("memleasectl", "top", "--interval", "0.1")
    top = subprocess.Popen(
        installed.command(*command, user=ALICE, TERM="xterm"),
        stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: ioctl(theirs, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    written = b""

    def versions_seen():
        nonlocal written
        if select.select([master], [], [], DEADLINE_S)[0]:
            written += os.read(master, 65536)
        screens = written.split(b"\x1b[H")[1:]
        rows = [re.findall(rb"^.*sim/u.*$", screen, re.M) for screen in screens]
        return {row for found in rows for row in found}

    try:
        until(lambda: len(versions_seen()) >= 5, "five looks at an array that goes on")
        os.write(master, b"q")
        assert top.wait(DEADLINE_S) == 0, top.stderr.read()
        assert termios.tcgetattr(master) == before, "the terminal is as it was"
    finally:
        top.kill()
        top.communicate()
        os.close(master)


def test_a_reload_changes_settings_under_processes_that_notice_nothing(installed, programs):
    settings = installed.root / SETTINGS
    before = settings.read_text()
    versions = [program.version() for program in programs]
    try:
        settings.write_text("quota_arrays = 7\n")
        installed.must("systemctl", "reload", SERVICE)
        assert '"arrays_limit": 7' in installed.must("memleasectl", "status", "--json")
        later = [program.version() for program in programs]
        assert all(now > then for now, then in zip(later, versions, strict=True))
    finally:
        settings.write_text(before)
        installed.must("systemctl", "reload", SERVICE)


def test_a_stop_ends_processes_with_an_error_that_says_why(installed, programs):
    begin = time.monotonic()
    installed.must("systemctl", "stop", SERVICE)
    for program in programs:
        code, said = program.wait()
        assert code == 0, said
        assert said.startswith("DaemonLost "), said
        assert "Traceback" not in said
    assert time.monotonic() - begin < DEADLINE_S
    assert show(installed, "ActiveState") == "inactive"
    assert show(installed, "Result") == "success"
    assert "1.0\n" in in_clone(installed, "python3 tests/wheel/first_array.py", user=ALICE)
    assert show(installed, "ActiveState") == "active", "the next client starts it again"
