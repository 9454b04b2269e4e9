"""The .deb packages as an administrator has them: ./dev prove debs.

One machine without network, which has Debian's minimal system, systemd, NumPy, and the packages.
They were installed before it booted; each test leaves them installed, in some version, and nobody
connected.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from installed import (
    ALICE,
    CAROL,
    DIRECTORY,
    SERVICE,
    SETTINGS,
    SOCKET,
    nobody_is_connected,
    show,
)
from machine import Machine, must, until

PROJECT = Path(__file__).parents[2]
DEBS = Path(os.environ["MEMLEASE_DEBS"])
VERSION = (PROJECT / "VERSION").read_text().strip()
WHEEL = "/opt/wheel"
APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "--no-install-recommends")


def remade(deb, version, folder):
    """Make a package of a later version, else the same."""
    tree = folder / "tree"
    must("dpkg-deb", "--raw-extract", deb, tree)
    control = tree / "DEBIAN/control"
    control.write_text(control.read_text().replace(f"{VERSION}-1", version))
    name = deb.name.replace(f"{VERSION}-1", version)
    must("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, folder / name)
    shutil.rmtree(tree)


def lay_out_as_pip_does(site):
    """Make a folder with what a wheel puts there.

    That is what ./dev wheel has left for Debian 12's Python. Where it has not run, the folder is
    made of the parts that the packages are made of: the same files, but untouched by auditwheel.
    """
    wheels = sorted((PROJECT / "build/wheel/dist").glob(f"memlease-{VERSION}-cp311-*.whl"))
    if wheels:
        must(sys.executable, "-m", "zipfile", "-e", wheels[-1], site)
        for program in (site / "memlease/bin").iterdir():
            program.chmod(0o755)  # which zipfile does not keep
        return
    for component in ("python", "python_module"):
        must("cmake", "--install", DEBS.parent, "--prefix", site, "--component", component)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(
        PROJECT / "python/memlease", site / "memlease", ignore=ignored, dirs_exist_ok=True
    )


def packages(machine, version):
    folder = machine.root / "debs" / version
    return [f"/debs/{version}/{it.name}" for it in sorted(folder.glob("*.deb"))]


@pytest.fixture(scope="module")
def machine():
    machine = Machine()
    try:
        for revision in range(1, 6):
            version = f"{VERSION}-{revision}"
            folder = machine.root / "debs" / version
            folder.mkdir(parents=True)
            for deb in DEBS.glob("*.deb"):
                if revision == 1:
                    shutil.copy(deb, folder)
                else:
                    remade(deb, version, folder)
        lay_out_as_pip_does(machine.root / WHEEL.lstrip("/"))
        machine.must_before_boot(*APT, "install", *packages(machine, f"{VERSION}-1"))
        machine.boot()
        machine.must("useradd", "--uid", ALICE, "--groups", "memlease", "alice")
        machine.must("useradd", "--uid", CAROL, "carol")
        yield machine
    finally:
        machine.close()


class Client:
    """A Python in the machine that does what it is told, by Debian's package."""

    def __init__(self, machine, user, **environment):
        code = "import sys, memlease\nfor line in sys.stdin:\n exec(line); print('ok', flush=True)"
        self._process = subprocess.Popen(
            machine.command("python3", "-c", code, user=user, HOME="/tmp", **environment),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def must(self, *lines):
        """Return what the last line has printed."""
        said = []
        for line in lines:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            said.clear()
            while True:
                answer = self._process.stdout.readline()
                assert answer, f"{line}: {said}"
                if answer == "ok\n":
                    break
                said.append(answer.strip())
        return "\n".join(said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(30)


CREATE = (
    "client = memlease.connect()",
    "field = client.create('sim/u', shape=(4,), dtype='u1', lifetime='persistent')",
    "lease = field.write(); lease.memoryview()[:] = b'1234'; lease.publish()",
)
READ = "print(bytes(memlease.connect().open('sim/u').read().memoryview()))"


def enabled(machine, unit):
    return machine.run("systemctl", "is-enabled", unit).stdout.strip()


def upgrade(machine, revision):
    """Return what it says."""
    return machine.must(*APT, "install", *packages(machine, f"{VERSION}-{revision}"))


def test_after_a_boot_the_first_client_has_an_array_and_the_machines_daemon(machine):
    assert show(machine, "ActiveState", SOCKET) == "active"
    assert enabled(machine, SOCKET) == "enabled"
    assert enabled(machine, SERVICE) == "disabled", "it starts with its first client"
    assert show(machine, "ActiveState") == "inactive"
    with Client(machine, ALICE) as alice:
        alice.must(*CREATE)
        assert alice.must("print(client.directory)") == DIRECTORY
        assert show(machine, "ActiveState") == "active"
        assert "sim/u" in machine.must("memleasectl", "ls", user=ALICE)
        assert alice.must(READ) == "b'1234'"
        alice.must("client.withdraw('sim/u')")
    nobody_is_connected(machine)


def test_who_is_not_in_the_group_stays_outside(machine):
    with Client(machine, CAROL) as carol:
        lines = ["try: memlease.connect(start=False)", "except memlease.Denied: print('denied')"]
        assert carol.must(f"exec({chr(10).join(lines)!r})") == "denied"


def test_what_comes_along_is_where_debian_has_it(machine):
    root = machine.root
    for path in (
        "usr/share/man/man8/memleased.8.gz",
        "usr/share/man/man1/memleasectl.1.gz",
        "usr/share/bash-completion/completions/memleasectl",
        "usr/share/doc/python3-memlease/changelog.Debian.gz",
        "usr/share/doc/memleased/gpu.conf",
        "usr/share/doc/libmemlease0.1/sboms/memlease.cdx.json",
        "usr/lib/x86_64-linux-gnu/libmemlease_cuda.so",
        SETTINGS,
    ):
        assert (root / path).is_file(), path
    assert not (root / "usr/share/doc/memlease").exists()
    for package in ("memleased", "libmemlease0.1", "python3-memlease"):
        text = (root / f"usr/share/doc/{package}/copyright").read_text()
        assert re.search(r"^ grpc 1\.\S+: .*Apache-2\.0", text, re.M)
    said = machine.must("python3", "-m", "memlease", "show-config")
    assert "daemon   /usr/lib/python3/dist-packages/memlease/bin/memleased" in said
    assert machine.must("python3", "-m", "memlease", "prefix").strip() == "/usr"
    version = "import importlib.metadata as m; print(m.version('memlease'))"
    assert machine.must("python3", "-c", version).strip() == VERSION
    site = root / "usr/lib/python3/dist-packages/memlease"
    assert list(site.glob("__pycache__/client.*.pyc")), "Python's code is compiled"


def test_needrestart_is_told_to_leave_the_daemon_running(machine):
    # As needrestart reads it, which has 1 for what it would restart.
    code = """
        our %nrconf = (override_rc => {});
        do "/etc/needrestart/conf.d/memleased.conf";
        my @found = grep { "memleased.service" =~ $_ } keys %{$nrconf{override_rc}};
        print map { $nrconf{override_rc}{$_} } @found;
    """
    assert machine.must("perl", "-e", code) == "0"


def test_debians_numpy_is_good_enough_for_reading_and_writing(machine):
    with Client(machine, ALICE) as alice:
        alice.must(
            "import numpy as np; client = memlease.connect()",
            "field = client.create('sim/f', shape=(3, 4), dtype='f4', fill=2)",
            "with field.write() as w: w[...] = np.arange(12).reshape(3, 4); w += 1",
        )
        said = alice.must("r = field.read(); print(r.mean(), (r + 1).sum(), r.array[2, 3])")
        assert said == "6.5 90.0 12.0"
        assert alice.must("client.put('b', np.arange(3)); print(client.get('b'))") == "[0 1 2]"
        alice.must("r.release(); del r")
    nobody_is_connected(machine)


def test_a_wheel_is_served_by_the_machines_daemon_and_has_one_of_its_own(machine):
    with Client(machine, ALICE) as alice, Client(machine, ALICE, PYTHONPATH=WHEEL) as other:
        alice.must(*CREATE)
        assert other.must("print(memlease.__file__)").startswith(WHEEL)
        assert other.must(READ) == "b'1234'"
        alice.must("client.withdraw('sim/u')")
        other.must("own = memlease.connect('/tmp/own')")
        pid = machine.must("cat", "/tmp/own/memleased.lock").strip()
        program = machine.must("readlink", f"/proc/{pid}/exe").strip()
        assert program == f"{WHEEL}/memlease/bin/memleased"
        machine.must("sh", "-c", f"kill -TERM {pid}")
    nobody_is_connected(machine)


def test_the_drill_of_the_operators_guide(machine):
    """Words and order are those of docs/operations.md: the user's block, then root's."""
    page = (PROJECT / "docs/operations.md").read_text()
    [drill] = re.findall(r"^## A drill\n(.*?)^## ", page, re.M | re.S)
    publish, look, kill, find_out, again, stop, read = re.findall(
        r"^```sh\n(.*?)^```", drill, re.M | re.S
    )
    names = [f"drill/{n}" for n in range(10)]
    settings = machine.root / SETTINGS
    before = settings.read_text()
    folder = machine.root / "drill"
    folder.mkdir()
    os.chown(folder, ALICE, ALICE)

    def as_user(block):
        return machine.must("bash", "-ec", f"cd /drill\n{block}", user=ALICE)

    def as_root(block):
        return machine.must("bash", "-ec", block)

    def there_are_versions():
        shown = machine.run("memleasectl", "top", "--json").stdout
        return all(f'"{name}"' in shown for name in names)

    try:
        as_user(publish)
        until(there_are_versions, "ten arrays are published")
        looked = as_root(look)
        assert all(looked.count(name) >= 2 for name in names), looked
        assert "simulation.py" in looked
        as_user(kill)
        until(lambda: "drill/" not in machine.must("memleasectl", "ls"), "the arrays have gone")
        found = as_root(find_out)
        for name in names:
            lines = [line for line in found.splitlines() if re.search(rf"\b{name}\b", line)]
            assert len(lines) == 1, found
            assert re.search(r"\s\d+\s.*simulation\.py", lines[0]), found
        [logged] = [line for line in found.splitlines() if "had left" in line and "simula" in line]
        assert re.search(r"\bpid=\d+.*simulation\.py.* arrays=10 bytes=30000000\b", logged)
        as_user(again)
        until(there_are_versions, "ten arrays are published again")
        stopped = as_root(stop)
        assert "log_level" in stopped
        assert "debug" in stopped
        until(lambda: "DaemonLost" in as_user(read), "the simulation has been told")
    finally:
        machine.run("bash", "-c", f"cd /drill; {kill}")
        settings.write_text(before)
    with Client(machine, ALICE) as alice:
        alice.must("client = memlease.connect()")
    nobody_is_connected(machine)


def test_an_upgrade_leaves_a_daemon_alone_that_is_in_use(machine):
    with Client(machine, ALICE) as alice:
        alice.must(*CREATE)
        before = show(machine, "MainPID")
        said = upgrade(machine, 2)
        assert "goes on as it was before this upgrade" in said
        assert "systemctl restart memleased.service" in said
        assert show(machine, "MainPID") == before
        assert machine.must("readlink", f"/proc/{before}/exe").strip().endswith("(deleted)")
        alice.must("lease = field.write(); lease.memoryview()[:] = b'5678'; lease.publish()")
        with Client(machine, ALICE) as new:
            assert new.must(READ) == "b'5678'", "the new library reads of the old daemon"
        alice.must("client.withdraw('sim/u')")
    nobody_is_connected(machine)


def test_an_upgrade_replaces_a_daemon_that_nobody_uses(machine):
    with Client(machine, ALICE) as alice:
        alice.must("client = memlease.connect()")
    nobody_is_connected(machine)
    before = show(machine, "MainPID")
    said = upgrade(machine, 3)
    assert "memleased: " not in said
    assert show(machine, "ActiveState") == "active"
    assert show(machine, "MainPID") != before


def test_an_upgrade_keeps_what_the_operator_has_decided(machine):
    settings = machine.root / SETTINGS
    settings.write_text("quota_arrays = 5\n")
    machine.must("systemctl", "disable", "--now", SOCKET, SERVICE)
    upgrade(machine, 4)
    assert enabled(machine, SOCKET) == "disabled"
    assert settings.read_text() == "quota_arrays = 5\n"
    machine.must("systemctl", "enable", "--now", SOCKET)


def test_a_removal_ends_the_daemon_and_a_purge_leaves_nothing(machine):
    with Client(machine, ALICE) as alice:
        alice.must(*CREATE)
        machine.must(*APT, "remove", "memleased")
        assert show(machine, "ActiveState") == "inactive"
        assert machine.run("test", "-e", DIRECTORY).returncode == 1
        lines = ["try: client.create('sim/v', shape=(4,), dtype='u1')"]
        lines += ["except memlease.DaemonLost: print('lost')"]
        assert alice.must(f"exec({chr(10).join(lines)!r})") == "lost"
    assert (machine.root / SETTINGS).exists()
    rest = ("libmemlease0.1", "libmemlease-dev", "python3-memlease")
    machine.must(*APT, "purge", "memleased", *rest)
    places = ("/etc", "/usr", "/run", "/var/lib/systemd", "/var/lib/dpkg/info")
    found = machine.must("find", *places, "-name", "*memlease*")
    assert found == ""
    assert machine.must("getent", "passwd", "memlease"), "its files may be there still"
    upgrade(machine, 5)
    assert show(machine, "ActiveState", SOCKET) == "active", "without a boot"
    with Client(machine, ALICE) as alice:
        alice.must(*CREATE, "client.withdraw('sim/u')")
    nobody_is_connected(machine)


def test_programs_are_built_with_the_headers(tmp_path):
    for name in ("libmemlease-dev", "libmemlease0.1", "memleased"):
        [deb] = DEBS.glob(f"{name}_*.deb")
        must("dpkg-deb", "--extract", deb, tmp_path / "root")
    must(
        "cmake", f"-DPREFIX={tmp_path}/root/usr", "-DLIBDIR=lib/x86_64-linux-gnu",
        f"-DSOURCE_DIR={PROJECT}/tests/integration/consumer", f"-DWORK_DIR={tmp_path}",
        "-DCXX=c++", "-P", PROJECT / "tests/integration/build_consumers.cmake",
    )  # fmt: skip
