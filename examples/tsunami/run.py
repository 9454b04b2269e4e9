"""A tsunami, computed on MPI ranks and read live by Python processes, some of which are killed.

./dev demo [OPTION...]    needs memleased and tsunami_simulation in $PATH, which ./dev sees to

--device cuda:0 computes on a GPU, with kernels that were built if CMake found nvcc.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import memlease
import terrain
from children import Child, ChildError, wait_until
from private_daemon import private_daemon
from progress import Progress
from summary import copies_text, gaps_table, load_reports, strangers, versions_table
from visits import KILLED, LEAVES, Visits

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 120


def main() -> int:
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, as Ctrl-C does
    started_s = time.monotonic()
    try:
        with private_daemon(arguments.out / "memleased.log") as client:
            Demo(arguments, client).run()
    except (ChildError, memlease.Error) as failure:
        print(f"\nThe demo failed: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. Nothing is left behind: no process, no socket.", file=sys.stderr)
        return 130
    print(f"Nothing is left behind: no process, no socket. {time.monotonic() - started_s:.0f} s.")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", type=Path, default=Path("build/demo"), help="folder for pictures and logs")
    add("--device", default="host", help="what computes: host, or a GPU, such as cuda:0 (host)")
    add("--ranks", type=int, default=2, help="MPI processes of the simulation (2)")
    add("--duration", type=float, default=9000, help="simulated seconds (9000)")
    add("--refinement", type=int, default=4, help="cells for each of the data's (4)")
    add("--pictures", type=int, default=60, help="of the animation (60)")
    add("--gauges", choices=("auto", "torch", "numpy"), default="auto",
        help="what reads the gauges (PyTorch where it is installed, else NumPy)")  # fmt: skip
    add("--visits", type=int, default=8, help="readers that come and leave or are killed (8)")
    add("--window", type=float, default=1.5, help="seconds watched before and after each (1.5)")
    return parser.parse_args()


class Demo:
    """One run. Whatever it started has ended when run() returns or raises."""

    def __init__(self, arguments: argparse.Namespace, client: memlease.Client):
        self._arguments = arguments
        self._client = client
        self._progress = Progress(arguments.duration)
        self._children: dict[str, Child] = {}
        self._visits = Visits(
            self._start_bystander, arguments.visits, arguments.window, self._progress.say
        )

    def run(self) -> None:
        simulation = self._simulation()
        self._try_gpu(simulation)
        # The handles keep the arrays: they live as long as the session that put them.
        ground = terrain.load(self._arguments.refinement)
        kept = [
            self._client.put(name, field, slots=1)
            for name, field in zip(terrain.NAMES, ground, strict=True)
        ]
        rows, columns = kept[0].shape
        print(f"The ground is shared: {rows} x {columns} cells around Vancouver Island.")
        with ExitStack() as self._cleanup:
            try:
                self._start_readers()
                self._start_simulation(simulation)
                self._watch()
                self._finish()
            finally:
                # Pressed a second time, Ctrl-C must not keep us from cleaning up.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._summarise()

    def _start(self, name: str, command: list[str], **options) -> Child:
        log = self._arguments.out / f"{name}.log"
        child = Child(name, command, log, stdin=subprocess.PIPE, **options)
        self._cleanup.callback(child.stop)
        return child

    def _start_python(self, name: str, program: str, *flags: str) -> Child:
        ranks = str(self._arguments.ranks)
        return self._start(name, [sys.executable, str(HERE / program), "--ranks", ranks, *flags])

    def _start_bystander(self, name: str) -> Child:
        return self._start_python(name, "bystander.py")

    def _start_readers(self) -> None:
        out = ("--out", str(self._arguments.out))
        pictures = ("--pictures", str(self._arguments.pictures))
        readers = {
            "render": self._start_python("render", "render.py", *out, *pictures),
            "gauges": self._start_python(
                "gauges", "gauges.py", *out, "--library", self._arguments.gauges
            ),
        }
        self._children |= readers
        wait_until(
            lambda: all(reader.said("ready") for reader in readers.values()),
            list(readers.values()), TIMEOUT_S, "the readers had loaded their libraries",
        )  # fmt: skip
        library = readers["gauges"].said("ready").removeprefix("ready with ")
        print(f"The readers wait for the simulation: render (Matplotlib), gauges ({library}).")

    def _simulation(self) -> str:
        simulation = shutil.which("tsunami_simulation")
        if simulation is None:
            raise ChildError("tsunami_simulation is not in $PATH: run ./dev demo")
        return simulation

    def _try_gpu(self, simulation: str) -> None:
        """Raise at once if simulation, daemon or readers cannot use the GPU that was asked for."""
        device = self._arguments.device
        if device == "host":
            return
        tried = subprocess.run(
            [simulation, "--check", "--device", device], capture_output=True, text=True, check=False
        )
        if tried.returncode:
            raise ChildError(tried.stderr.strip())
        self._client.create("tsunami/try", shape=1, dtype="u1", device=device).withdraw()

    def _start_simulation(self, simulation: str) -> None:
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            raise ChildError("mpirun is not installed: ./dev setup installs Open MPI")
        ranks = str(self._arguments.ranks)
        # Ranks that wait give their core away, since readers want it too.
        command = [mpirun, "-n", ranks, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
        # Containers often forbid one process to read another's memory by a call.
        command += ["--mca", "btl_vader_single_copy_mechanism", "none"]
        command += [simulation, "--linger", "--device", self._arguments.device]
        command += ["--duration", str(self._arguments.duration)]
        command += ["--report", str(self._arguments.out)]
        self._children["simulation"] = self._start("simulation", command)

    def _watch(self) -> None:
        """Show progress until the last step, while readers come and go."""
        children = list(self._children.values())
        wait_until(
            lambda: self._client.exists("tsunami/clock"),
            children, TIMEOUT_S, "the simulation had started",
        )  # fmt: skip
        clock = self._client.open("tsunami/clock")
        time_s = 0.0
        while time_s < self._arguments.duration:
            time.sleep(0.05)
            for child in children:
                child.check()
            with clock.read(timeout=TIMEOUT_S) as lease:
                time_s = float(lease[0])
                self._progress.show(time_s, lease.version)
            self._visits.step()
        self._progress.end()
        ends = {visit.end for visit in self._visits.done}
        if ends != {LEAVES, KILLED}:
            raise ChildError(
                "the run was over before a reader had left and another had been killed; give a "
                "longer --duration, a shorter --window, or --visits of at least 2"
            )

    def _finish(self) -> None:
        print("The last step is out; the readers write their pictures.")
        for name in ("gauges", "render"):
            self._children[name].wait(TIMEOUT_S)
        self._children["simulation"].close_input()
        self._children["simulation"].wait(TIMEOUT_S)

    def _summarise(self) -> None:
        out, ranks = self._arguments.out, self._arguments.ranks
        visits = self._visits.done
        reports = load_reports(out, ranks)
        readers = reports[ranks:] + [visit.report for visit in visits]
        on_host = self._arguments.device == "host"
        copied = strangers(reports, readers) if on_host else []
        if copied:
            raise ChildError(f"these looked at copies instead of the ranks' memory: {copied}")
        print()
        print("\n".join(versions_table(reports, ranks, visits, self._client.copies)))
        print()
        print("\n".join(copies_text(readers, on_host)))
        print()
        print("\n".join(gaps_table(reports, visits, self._arguments.window)))
        print()
        print(f"  animation   {out / 'tsunami.gif'}")
        print(f"  picture     {out / 'tsunami.png'}")
        print(f"  gauges      {out / 'gauges.png'}, {out / 'gauges.csv'}")


if __name__ == "__main__":
    sys.exit(main())
