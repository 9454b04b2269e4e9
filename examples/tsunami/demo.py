"""A tsunami, published by MPI ranks and read live by three Python processes, one of which dies.

demo.py --simulation build/.../tsunami_simulation [--out build/demo]
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import memlease
import numpy as np
import terrain
from children import Child, ChildFailed, wait_until
from summary import load_reports, strangers, table

HERE = Path(__file__).resolve().parent
READERS = ("render", "gauges", "bystander")
PATIENCE_S = 120


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulation", type=Path, required=True, help="tsunami_simulation")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="folder for results")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--duration", type=float, default=9000, help="simulated seconds")
    parser.add_argument("--refinement", type=int, default=4, help="cells per cell of the data")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwind as Ctrl-C does
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        with memlease.connect() as client, ExitStack() as cleanup:
            Demo(arguments, client, cleanup).run()
    except ChildFailed as failure:
        print(f"\nThe demo failed: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; all processes are gone.", file=sys.stderr)
        return 130
    return 0


class Demo:
    def __init__(self, arguments: argparse.Namespace, client, cleanup: ExitStack):
        self._arguments = arguments
        self._client = client
        self._cleanup = cleanup
        self._progress = Progress(arguments.duration)
        self._children: dict[str, Child] = {}

    def run(self) -> None:
        started_s = time.monotonic()
        # The handles keep the arrays: they live as long as the session that put them.
        ground = terrain.load(self._arguments.refinement)
        kept = [self._client.put(n, a) for n, a in zip(terrain.NAMES, ground, strict=True)]
        rows, columns = ground.bed.shape
        print(f"The ground is shared: {rows} x {columns} cells around Vancouver Island.")
        self._start_readers()
        self._start_simulation()
        killed, killed_at_s = self._watch()
        self._finish()
        self._summarise(killed, killed_at_s, copies_by_put=len(kept))
        print(f"It took {time.monotonic() - started_s:.0f} s.")

    def _start(self, name: str, command: list[str], **options) -> None:
        child = Child(name, command, self._arguments.out / f"{name}.log", **options)
        self._cleanup.callback(child.stop)
        self._children[name] = child

    def _start_readers(self) -> None:
        common = ["--ranks", str(self._arguments.ranks)]
        out = ["--out", str(self._arguments.out)]
        for name in READERS:
            flags = common if name == "bystander" else common + out
            self._start(name, [sys.executable, str(HERE / f"{name}.py"), *flags])
        wait_until(
            lambda: all(self._children[name].said("ready") for name in READERS),
            list(self._children.values()), PATIENCE_S, "the readers had loaded their libraries",
        )  # fmt: skip
        print(f"The readers wait for the simulation: {', '.join(READERS)}.")

    def _start_simulation(self) -> None:
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            raise ChildFailed("mpirun is not installed; ./dev setup installs Open MPI")
        ranks = str(self._arguments.ranks)
        # Ranks that wait give their core away, since readers want it too.
        command = [mpirun, "-n", ranks, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
        # Containers often forbid one process to read another's memory by a call.
        command += ["--mca", "btl_vader_single_copy_mechanism", "none"]
        command += [str(self._arguments.simulation), "--linger"]
        command += ["--duration", str(self._arguments.duration)]
        command += ["--report", str(self._arguments.out)]
        self._start("simulation", command, stdin=subprocess.PIPE)

    def _watch(self) -> tuple[dict, float]:
        """Show progress until the last step; kill the bystander once it sits on its leases."""
        children = dict(self._children)
        wait_until(
            lambda: self._client.exists("tsunami/clock"),
            list(children.values()), PATIENCE_S, "the simulation had started",
        )  # fmt: skip
        clock = self._client.open("tsunami/clock")
        killed, killed_at_s, time_s = None, 0.0, 0.0
        while time_s < self._arguments.duration:
            time.sleep(0.1)
            for child in children.values():
                child.check()
            with clock.read(timeout=PATIENCE_S) as lease:
                time_s = float(np.asarray(lease)[0])
                self._progress.show(time_s, lease.version)
            held = None if killed else children["bystander"].said("holding ")
            if held:
                time.sleep(0.2)  # let the others live with the held slot before it goes
                killed_at_s = time.monotonic()
                children.pop("bystander").kill()
                killed = json.loads(held.removeprefix("holding "))
                self._progress.say(
                    f"kill -9 bystander, while it holds version {killed['version']:,}"
                )
        self._progress.end()
        if killed is None:
            raise ChildFailed("the bystander never got half way; is --duration too short?")
        return killed, killed_at_s

    def _finish(self) -> None:
        print("The last step is out; the readers write their pictures.")
        for name in ("gauges", "render"):
            self._children[name].wait(PATIENCE_S)
        self._children["simulation"].close_input()
        self._children["simulation"].wait(PATIENCE_S)

    def _summarise(self, killed: dict, killed_at_s: float, copies_by_put: int) -> None:
        out, ranks = self._arguments.out, self._arguments.ranks
        reports = load_reports(out, ranks)
        copied = strangers(reports, ranks)
        if copied:
            raise ChildFailed(f"these looked at copies instead of the ranks' memory: {copied}")
        print()
        print("\n".join(table(reports, ranks, killed, killed_at_s)))
        print()
        print(f"  copies      {copies_by_put} by put(), before the first step; none since: each")
        print("              reader's bytes are the ranks' own memory (same device and inode)")
        mixed = ", ".join(f"{reader['name']} {reader['mixed']}" for reader in reports[ranks:])
        print(f"  mixed steps {mixed} (frames put together from neighbouring steps)")
        print(f"  animation   {out / 'tsunami.gif'}")
        print(f"  picture     {out / 'tsunami.png'}")
        print(f"  gauges      {out / 'gauges.png'}, {out / 'gauges.csv'}")


class Progress:
    """A bar on a terminal, a line every tenth elsewhere."""

    WIDTH = 40

    def __init__(self, duration_s: float):
        self._duration_s = duration_s
        self._terminal = sys.stdout.isatty()
        self._tenth = -1

    def show(self, time_s: float, version: int) -> None:
        done = time_s / self._duration_s
        minutes = int(time_s // 60)
        text = f"{minutes // 60} h {minutes % 60:02d} min  version {version:,}"
        if self._terminal:
            filled = int(done * self.WIDTH)
            bar = f"\r  [{'█' * filled}{'·' * (self.WIDTH - filled)}] {done:4.0%}  {text}"
            print(f"{bar}\033[K", end="", flush=True)
        elif int(done * 10) > self._tenth:
            self._tenth = int(done * 10)
            print(f"  {done:4.0%}  {text}", flush=True)

    def say(self, text: str) -> None:
        print(f"\r\033[K  {text}" if self._terminal else f"        {text}", flush=True)

    def end(self) -> None:
        if self._terminal:
            print()


if __name__ == "__main__":
    sys.exit(main())
