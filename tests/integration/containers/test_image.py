"""What the image holds, run as a container runs it: without its runtime, by unshare and chroot."""

from __future__ import annotations

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

pytest_plugins = ["fakecuda_fixture", "gpu_fixture"]
pytestmark = pytest.mark.no_asan  # ASan's runtime is not one of the libraries that an image gets

PROJECT = Path(__file__).parents[3]
BUILD = Path(os.environ.get("MEMLEASE_BUILD_DIR", PROJECT / "build/release")).absolute()
USER = 10001
SOMEBODY = 20001
DEADLINE_S = 30
# All that a runtime does of it: a root of its own that cannot be written to, a volume, no rights.
ENTER = """\
set -e
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount --bind "$2" "$1/run/memlease"
mount -t proc none "$1/proc"
root=$1
shift 2
exec setpriv --no-new-privs chroot --userspec=10001:10001 --groups= "$root" "$@"
"""


@pytest.fixture(scope="module")
def root():
    """Make the image's root, of the programs of this build, or take that of ./dev prove image."""
    if os.geteuid() != 0:
        pytest.fail("only root can give the image's folder to its user: run this as root")
    if image := os.environ.get("MEMLEASE_IMAGE"):
        yield Path(image)
        return
    folder = Path(tempfile.mkdtemp(prefix="memlease-image-"))
    folder.chmod(0o755)
    script = PROJECT / "deploy/container/make_root.sh"
    subprocess.run([script, BUILD, folder / "root"], check=True)
    yield folder / "root"
    shutil.rmtree(folder)


def test_it_is_small_and_has_no_shell(root):
    files = [path for path in root.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"memleased", "memleasectl", "LICENSE"} <= names
    assert not {"sh", "bash", "busybox", "apt", "dpkg"} & names
    size = sum(path.stat().st_size for path in files)
    assert size < 30e6, f"{size / 1e6:.1f} MB"


def test_nothing_in_it_is_open_to_its_user_but_the_volume(root):
    for path in (root, *root.rglob("*")):
        info = path.lstat()
        if path == root / "run/memlease":
            assert (info.st_uid, info.st_mode & 0o777) == (USER, 0o755)
        else:
            assert info.st_uid == 0
            assert path.is_symlink() or info.st_mode & 0o022 == 0, path


class Container:
    """The daemon in it. Its volume is `sockets`."""

    def __init__(self, root, folder):
        self.sockets = folder / "memlease"
        self.sockets.mkdir()
        shutil.chown(self.sockets, USER, USER)
        self._log = folder / "log"
        self._root = root
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command("--fork", "--pid", program="/usr/bin/memleased"),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(),
            )  # fmt: skip
        end = time.monotonic() + DEADLINE_S
        while self.health() != 0:
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < end, self._log.read_text()

    def command(self, *flags, program):
        spaces = ["unshare", "--mount", "--ipc", "--net", "--uts", *flags]
        return [*spaces, "sh", "-c", ENTER, "sh", self._root, self.sockets, program]

    @staticmethod
    def environment():
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "MEMLEASE_DIR": "/run/memlease",
            "MEMLEASE_SOCKET_MODE": "0666",
        }

    def health(self):
        """As the image's health check, in the container's root."""
        command = [*self.command(program="/usr/bin/memleasectl"), "health"]
        return subprocess.run(
            command, env=self.environment(), check=False, capture_output=True, timeout=DEADLINE_S
        ).returncode

    def signal(self, number):
        """Send it to the first process of its namespace, for which unshare waits."""
        waits = self.process.pid
        for child in Path(f"/proc/{waits}/task/{waits}/children").read_text().split():
            os.kill(int(child), number)

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_S)

    def kill(self):
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.process.wait(DEADLINE_S)


@pytest.fixture
def container(root):
    folder = Path(tempfile.mkdtemp(prefix="memlease-container-"))
    folder.chmod(0o755)  # root's, as a runtime's folder of volumes
    container = Container(root, folder)
    yield container
    container.kill()
    shutil.rmtree(folder)


def ask(directory, user, *lines):
    """Return the first word of each answer to a client of that user."""
    told = subprocess.run(
        [BUILD / "tests/memlease_peer", directory, str(user), str(user), ""],
        input="\n".join(lines) + "\n", capture_output=True, text=True, check=True,
        timeout=DEADLINE_S,
    )  # fmt: skip
    return [
        " ".join(line.split()[: 1 + line.startswith("error")]) for line in told.stdout.splitlines()
    ]


def test_it_serves_users_outside_of_it_and_ends_when_told_to(container):
    work = ("connect", "create a 3 600 64 session", "put a 1000", "read a 0 1000")
    assert ask(container.sockets, SOMEBODY, *work) == ["ok"] * 4
    assert container.stop() == 0
    assert not [entry for entry in container.sockets.iterdir() if entry.name.endswith(".sock")]


ASK_FOR_A_GPU = """
import sys, memlease
client = memlease.connect(sys.argv[1], start=False)
try:
    client.create("g", shape=4, dtype="u1", device="cuda:0")
except memlease.Error as error:
    print(type(error).__name__, error)
print(client.create("h", shape=4, dtype="u1").name)
"""


def test_without_a_gpu_an_array_on_one_is_refused_with_what_to_do(
    fake_cuda, stand_in_path, container
):
    """The client has a GPU. The image has neither CUDA's runtime nor the plug-in for it."""
    said = subprocess.run(
        [sys.executable, "-c", ASK_FOR_A_GPU, container.sockets],
        check=True, capture_output=True, text=True, timeout=DEADLINE_S,
    ).stdout  # fmt: skip
    print(said)
    refusal, served = said.splitlines()
    assert refusal.startswith("Unsupported "), refusal
    assert "[ML019]" in refusal
    assert "libmemlease_cuda.so" in refusal
    assert served == "h", "host arrays are served on"


def test_a_volume_that_everybody_may_write_to_serves_one_user():
    """As an emptyDir, in which deploy/kubernetes/sidecar.yaml has the daemon make a folder."""
    folder = Path(tempfile.mkdtemp(prefix="memlease-volume-"))
    folder.chmod(0o777)
    directory = folder / "run"
    daemon = subprocess.Popen(
        [BUILD / "bin/memleased"], user=USER, group=USER, extra_groups=[],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=Container.environment() | {"MEMLEASE_DIR": str(directory)},
    )  # fmt: skip
    try:
        end = time.monotonic() + DEADLINE_S
        while ask(directory, USER, "connect") != ["ok"]:
            assert daemon.poll() is None
            assert time.monotonic() < end
        assert ask(directory, USER, "connect", "create a 3 600 64 session") == ["ok", "ok"]
        assert ask(directory, SOMEBODY, "connect") == ["error Denied"]
        daemon.terminate()
        assert daemon.wait(DEADLINE_S) == 0
    finally:
        daemon.kill()
        daemon.wait(DEADLINE_S)
        shutil.rmtree(folder)


def test_its_health_check_fails_without_a_daemon(container):
    container.kill()
    assert container.health() != 0


if "MEMLEASE_PROVE" in os.environ:  # ./dev prove namespaces, which installs buildah

    def test_buildah_makes_it_of_what_is_built_here(root):
        """The last stage: the first would compile all again, in a system from a registry."""
        store = root.parent / "store"
        buildah = [
            "buildah",
            "--root",
            store,
            "--runroot",
            store / "run",
            "--storage-driver",
            "vfs",
        ]
        context = root.parent / "context"
        context.mkdir()
        shutil.copytree(root, context / "image", symlinks=True)
        shutil.chown(context / "image/run/memlease", USER, USER)
        file = PROJECT / "deploy/container/Containerfile"
        build = [
            "build",
            "--isolation=chroot",
            "--format=docker",
            "--tag=memleased",
            "--file",
            file,
        ]
        subprocess.run(
            [*buildah, *build, f"--build-context=build={context}", PROJECT], check=True
        )  # fmt: skip
        described = subprocess.run(
            [*buildah, "inspect", "--type=image", "memleased"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        config = json.loads(described.stdout)["Docker"]["config"]
        assert config["User"] == f"{USER}:{USER}"
        assert config["Healthcheck"]["Test"] == ["CMD", "/usr/bin/memleasectl", "health"]
        assert config["Entrypoint"] == ["/usr/bin/memleased"]
        assert "MEMLEASE_DIR=/run/memlease" in config["Env"]
        container = subprocess.run(
            [*buildah, "from", "memleased"], check=True, capture_output=True, text=True
        ).stdout.strip()
        mounted = subprocess.run(
            [*buildah, "mount", container], check=True, capture_output=True, text=True
        ).stdout.strip()
        info = (Path(mounted) / "run/memlease").stat()
        assert (info.st_uid, info.st_mode & 0o777) == (USER, 0o755)
        subprocess.run([*buildah, "rm", container], check=True, capture_output=True)
