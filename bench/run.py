"""Run the benchmarks on a daemon of their own, and hold the figures against the goals.

Every goal is a ratio to a floor or rival measured in the same run, block by block. Nothing fails
for a goal that is missed: a busy machine shows anything. Programs' JSON and the table go to
build/bench.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import table

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("MEMLEASE_BUILD_DIR", ROOT / "build/release"))
PROGRAMS = [
    "bench_hold",
    "bench_protocol",
    "bench_keep",
    "bench_views",
    "bench_kernels",
    "bench_copies",
    "bench_publish",
    "bench_fanout",
    "bench_connect",
    "bench_open",
    "bench_create",
    "bench_bytes",
    "bench_py",
    "bench_py_bytes",
    "bench_rivals",
    "bench_scale",
    "bench_many",
    "bench_writers",
    "bench_crash",
    "bench_deaths",
    "bench_idle",
    "bench_start",
    "bench_metrics",
    "bench_list",
    "bench_top",
    "bench_gpu_calls",
]
# bench_scale's sessions are of many users, if it may; bench_metrics asks as Prometheus does.
DAEMON_OPTIONS = [
    *("--socket-mode", "0666", "--quota-arrays", "0", "--quota-sessions", "0"),
    *("--metrics", "unix"),
]


def check_build() -> None:
    """Refuse a build whose figures mean nothing."""
    cache_file = BUILD / "CMakeCache.txt"
    if not cache_file.exists():
        sys.exit(f"bench: {BUILD} is no build. Run ./dev bench, which builds first.")
    entries = [line.partition("=") for line in cache_file.read_text().splitlines()]
    cache = {key.partition(":")[0]: value for key, _, value in entries}
    kind, sanitizer = cache.get("CMAKE_BUILD_TYPE"), cache.get("MEMLEASE_SANITIZE")
    flags = (
        cache.get("CMAKE_CXX_FLAGS", "") + " " + cache.get(f"CMAKE_CXX_FLAGS_{kind}".upper(), "")
    )
    if kind != "Release" or sanitizer or not ("-O2" in flags or "-O3" in flags):
        sys.exit(
            f"bench: {BUILD} is a {kind} build (flags:{flags}; sanitizer: {sanitizer or 'none'}), "
            "and figures of it mean nothing. Run ./dev bench, which takes the release build."
        )


class Daemon:
    """A memleased that serves nobody else."""

    def __enter__(self) -> str:
        """Start it; the directory of its sockets."""
        self.folder = tempfile.mkdtemp(prefix="memlease-bench-")
        os.chmod(self.folder, 0o755)
        directory = os.path.join(self.folder, "run")
        os.mkdir(directory, 0o755)
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [BUILD / "bin/memleased", "--directory", directory, *DAEMON_OPTIONS],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 20
        while not os.path.exists(os.path.join(directory, "control.sock")):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                sys.exit("bench: memleased did not start")
            time.sleep(0.01)
        return directory

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)


def measure(program: str, effort: list[str], out: Path) -> dict[str, Any]:
    """Run one program; what it printed."""
    command: list[str] = [str(BUILD / "bench" / program)]
    if (script := ROOT / "bench" / f"{program}.py").exists():
        command = [sys.executable, str(script)]
    print(f"  ..  {program}", flush=True)
    start = time.monotonic()
    with Daemon() as directory:
        result = subprocess.run(
            [*command, directory, *effort],
            stdout=subprocess.PIPE,
            text=True,
            timeout=60 if effort == ["--tiny"] else 900,
            check=False,
        )
    if result.returncode != 0:
        sys.exit(f"bench: {program} ended with {result.returncode}")
    report: dict[str, Any] = json.loads(result.stdout)
    (out / f"{program}.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"  ok  {program}  {time.monotonic() - start:.0f} s", flush=True)
    return report


def main() -> None:
    """Run what is asked for, print the table and keep it."""
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(PROGRAMS)}")
    efforts = parser.add_mutually_exclusive_group()
    efforts.add_argument("--quick", action="store_true", help="fewer rounds: a minute in all")
    efforts.add_argument("--tiny", action="store_true", help="measures nothing: do they work?")
    parser.add_argument("--plot", action="store_true", help="also draw latency.png")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build/bench", help="default: %(default)s"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.programs) - set(PROGRAMS)
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    check_build()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    effort = ["--quick"] if arguments.quick else ["--tiny"] if arguments.tiny else []
    load_before = os.getloadavg()[0]
    reports = [
        measure(program, effort, out)
        for program in PROGRAMS
        if not arguments.programs or program in arguments.programs
    ]
    series = table.series_of(reports)
    rows = table.rows_of(series)
    notes = [f"{r['program']}: {key}: {note}" for r in reports for key, note in r["notes"].items()]
    facts = [*machine.describe(ROOT, load_before), *effort, *notes]
    page = "\n".join([*(f"- {fact}" for fact in facts), "", table.markdown(rows)])
    (out / "table.md").write_text(page + "\n")
    print(f"\n{page}")
    verdicts = [row[-1] for row in rows]
    print(f"\n{verdicts.count('met')} goals met, {verdicts.count('MISSED')} missed. Kept in {out}")
    if arguments.plot:
        from plot import draw

        draw(series, out / "latency.png")


if __name__ == "__main__":
    main()
