"""A daemon of the demo's own, and the proof that nothing of it stays behind."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import memlease
from children import Child, ChildError, wait_until


@contextmanager
def private_daemon(log: Path) -> Iterator[memlease.Client]:
    """Run memleased in a new directory, which all children find in MEMLEASE_DIR.

    At the end everything must be gone that ran or was left there; raises ChildError otherwise.
    """
    program = shutil.which("memleased")
    if program is None:
        raise ChildError("memleased is not in $PATH: run ./dev demo, or add build/release/bin")
    home = Path(tempfile.mkdtemp(prefix="memlease-demo-"))
    directory, scratch = home / "run", home / "tmp"
    scratch.mkdir()
    os.environ |= {"MEMLEASE_DIR": str(directory), "TMPDIR": str(scratch)}
    daemon = Child("memleased", [program], log)
    try:
        wait_until(_answers, [daemon], 20, "memleased answered")
        with memlease.connect(start=False) as client:
            yield client
    finally:
        daemon.stop(grace_s=30)
        left = _left_behind(home, timeout_s=5)
        shutil.rmtree(home, ignore_errors=True)
        daemon.check()
        if left:
            raise ChildError(f"something was left behind: {', '.join(left)}")


def _answers() -> bool:
    try:
        memlease.connect(start=False).close()
    except memlease.DaemonUnavailable:
        return False
    return True


def _left_behind(home: Path, timeout_s: float) -> list[str]:
    """List files in our directories, and processes that were told of them.

    What has been asked to end is given a moment.
    """
    end_s = time.monotonic() + timeout_s
    while True:
        files = [str(path) for path in home.glob("*/**/*")]
        processes = list(_processes_told_of(home))
        if not files + processes or time.monotonic() > end_s:
            return files + processes
        time.sleep(0.05)


def _processes_told_of(home: Path) -> Iterator[str]:
    wanted = f"MEMLEASE_DIR={home / 'run'}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                name = (process / "comm").read_text().strip()
                yield f"process {process.name} ({name})"
        except OSError:
            continue  # has ended, or is another user's
