"""Questions about processes apart: in another PID namespace, or with a /dev/shm of their own."""

from __future__ import annotations

import multiprocessing.spawn
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from asking import (
    export_memory,
    make_event,
    process,
    question,
    try_open_event,
    try_open_memory,
    values,
)
from gpu_process import Cuda

# A /dev/shm of one's own. The stand-in's world, if it is in there, is the GPU, and stays.
_PRIVATE_SHM = """\
if [ -n "$FAKECUDA_WORLD" ]; then
  keep=$(mktemp -d) && mount --bind "$FAKECUDA_WORLD" "$keep"
fi
mount -t tmpfs none /dev/shm || exit 1
if [ -n "$FAKECUDA_WORLD" ]; then
  mkdir -p "$FAKECUDA_WORLD" && mount --bind "$keep" "$FAKECUDA_WORLD" || exit 1
  umount "$keep" && rmdir "$keep"
fi
"""


def _open_both(here: Cuda, memory: bytes, event: bytes) -> dict[str, str]:
    found = {"memory": try_open_memory(here, memory)}
    if found["memory"].startswith("0 "):
        found["values"] = values(here, 7)
    return {**found, "event": try_open_event(here, event)}


def _asked_in(unshare: list[str], before: str) -> dict[str, str] | str:
    """Open memory and an event in a process that `unshare` starts, after a piece of shell."""
    program = shutil.which("unshare")
    if program is None:
        return "not asked: there is no program unshare"
    with tempfile.TemporaryDirectory() as folder:
        inside, script = Path(folder, "inside"), Path(folder, "python")
        inside.write_text(f'#!/bin/sh\n{before}exec "$@"\n')
        script.write_text(f'#!/bin/sh\nexec "{program}" {" ".join(unshare)} "{inside}" '
                          f'"{sys.executable}" "$@"\n')  # fmt: skip
        for it in (inside, script):
            it.chmod(0o755)
        tried = subprocess.run(
            [script, "-c", ""], capture_output=True, text=True, timeout=10, check=False
        )
        if tried.returncode != 0:
            return f"not asked: {tried.stderr.strip() or tried.returncode}"
        owner = process()
        handles = owner.run(export_memory, 7), owner.run(make_event)
        multiprocessing.spawn.set_executable(str(script))
        found = process().run(_open_both, *handles)
    wrong = [name for name, it in found.items() if not it.startswith(("0 ", "right"))]
    return {"answer": f"refused: {', '.join(wrong)}" if wrong else "both open", **found}


@question(20)
def other_pid_namespace() -> dict[str, str] | str:
    """Tell what a process in a PID namespace of its own gets."""
    # With a /proc of that namespace: the driver does not start where its own number is another's.
    return _asked_in(["--pid", "--fork", "--kill-child", "--mount-proc"], "")


@question(20)
def private_shm() -> dict[str, str] | str:
    """Tell what a process with a /dev/shm of its own gets."""
    return _asked_in(["--mount"], _PRIVATE_SHM)
