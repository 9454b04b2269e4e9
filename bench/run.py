"""Run the benchmarks on a daemon of their own, and hold the figures against the goals.

Every goal is a ratio to a floor or rival measured in the same run, block by block: the figure is
the median of the blocks' ratios, and a goal counts as missed only if all blocks but one miss it.
Nothing fails for that: a busy machine shows anything. Programs' JSON and the table go to
build/bench.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from goals import GOALS, Goal

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("MEMLEASE_BUILD_DIR", ROOT / "build/release"))
OUT = ROOT / "build/bench"
PROGRAMS = [
    "bench_hold",
    "bench_publish",
    "bench_open",
    "bench_create",
    "bench_py",
    "bench_crash",
    "bench_idle",
]

Series = dict[str, list[float]]


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
        directory = os.path.join(self.folder, "run")
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [BUILD / "bin/memleased", "--directory", directory],
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


def measure(program: str, quick: bool) -> dict[str, Any]:
    """Run one program; what it printed."""
    command: list[str] = [str(BUILD / "bench" / program)]
    if program == "bench_py":
        command = [sys.executable, str(ROOT / "bench/bench_py.py")]
    print(f"  ..  {program}", flush=True)
    start = time.monotonic()
    with Daemon() as directory:
        result = subprocess.run(
            [*command, directory, *(["--quick"] if quick else [])],
            stdout=subprocess.PIPE,
            text=True,
            timeout=900,
            check=False,
        )
    if result.returncode != 0:
        sys.exit(f"bench: {program} ended with {result.returncode}")
    report: dict[str, Any] = json.loads(result.stdout)
    (OUT / f"{program}.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"  ok  {program}  {time.monotonic() - start:.0f} s", flush=True)
    return report


def derive(series: dict[str, Series]) -> None:
    """Add the series that combine others, also of another program."""
    opened = series.get("bench_open", {})
    if opened:
        opened["descriptor+call"] = list(np.add(opened["descriptor+mmap"], opened["call"]))
    created = series.get("bench_create", {})
    if created:
        live = sorted({int(name.split(".")[1].removesuffix("_live")) for name in created})
        created["create.many_live.p50"] = created[f"create.{live[-1]}_live.p50"]
        created["call"] = created["call.1_live.p50"]
        if "bench_hold" in series:
            created["hold"] = series["bench_hold"]["hold"]


def verdict(goal: Goal, series: Series) -> tuple[float, float, float, bool] | None:
    """(measured ns, floor ns, ratio to the limit's floor, met), or None if not measured."""
    floors = series.get(goal.floor, [0.0] * len(series.get(goal.measured, [])))
    if goal.measured not in series or (goal.floor not in series and goal.floor != "nothing"):
        return None
    measured, floor = np.array(series[goal.measured]), np.array(floors)
    limit = goal.most * floor + goal.extra_ms * 1e6
    misses = int(np.sum(measured > limit))
    met = misses < max(1, len(measured) - 1)
    ratio = float(np.median(measured / floor)) if goal.floor != "nothing" else float("nan")
    return float(np.median(measured)), float(np.median(floor)), ratio, met


def duration(ns: float) -> str:
    """Write a time for people."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def limit_text(goal: Goal) -> str:
    """Write the goal as the table shows it."""
    if goal.extra_ms and goal.floor == "nothing":
        return f"<= {goal.extra_ms:g} ms"
    if goal.extra_ms:
        return f"<= floor + {goal.extra_ms:g} ms"
    return f"<= {goal.most:g}x" if goal.most >= 1 else f"<= 1/{1 / goal.most:g}"


def rows_of(series: dict[str, Series]) -> list[list[str]]:
    """Make the table, without its head."""
    rows = []
    for goal in GOALS:
        answer = verdict(goal, series.get(goal.program, {}))
        if answer is None:
            if goal.program in series:
                rows.append(
                    [
                        goal.program.removeprefix("bench_"),
                        goal.what,
                        "-",
                        "-",
                        "-",
                        limit_text(goal),
                        "not run",
                    ]
                )
            continue
        measured, floor, ratio, met = answer
        rows.append(
            [
                goal.program.removeprefix("bench_"),
                goal.what,
                duration(measured),
                duration(floor) if goal.floor != "nothing" else "",
                ""
                if np.isnan(ratio)
                else f"{ratio:.2f}x"
                if ratio >= 0.1
                else f"1/{1 / ratio:.0f}",
                limit_text(goal),
                "met" if met else "MISSED",
            ]
        )
    return rows


HEAD = ["program", "what : floor or rival", "measured", "floor", "ratio", "goal", ""]


def markdown(rows: list[list[str]]) -> str:
    """Write the rows as a Markdown table that can be read as it is, too."""
    widths = [max(len(row[i]) for row in [HEAD, *rows]) for i in range(len(HEAD))]
    lines = [[*HEAD], ["-" * width for width in widths], *rows]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )


def machine() -> list[str]:
    """Say what the figures were measured on."""

    def first(path: str, key: str = "") -> str:
        try:
            lines = Path(path).read_text().splitlines()
        except OSError:
            return "unknown"
        return next(
            (line.split(":")[-1].strip() for line in lines if line.startswith(key)), "unknown"
        )

    commit = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return [
        f"{os.cpu_count()} x {first('/proc/cpuinfo', 'model name')}, "
        f"{first('/proc/meminfo', 'MemTotal')}, Linux {platform.release()}, "
        f"hypervisor: {'yes' if 'hypervisor' in Path('/proc/cpuinfo').read_text() else 'no'}",
        f"load {os.getloadavg()[0]:.1f} at the end; one process pinned per CPU; "
        f"shmem huge pages: {first('/sys/kernel/mm/transparent_hugepage/shmem_enabled')}; "
        f"reserved 2 MiB pages: {first('/proc/sys/vm/nr_hugepages')}",
        f"memlease {commit or 'unknown'}, release build; spin budget: calibrated (2 to 50 us)",
    ]


def main() -> None:
    """Run what is asked for, print the table and keep it."""
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a minute in all")
    parser.add_argument("--plot", action="store_true", help="also draw build/bench/ratios.png")
    arguments = parser.parse_args()
    unknown = set(arguments.programs) - set(PROGRAMS)
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    check_build()
    OUT.mkdir(parents=True, exist_ok=True)
    reports = [
        measure(program, arguments.quick)
        for program in PROGRAMS
        if not arguments.programs or program in arguments.programs
    ]
    series: dict[str, Series] = {report["program"]: report["series_ns"] for report in reports}
    derive(series)
    rows = rows_of(series)
    lines = [
        *(f"- {line}" for line in machine()),
        *(
            f"- {report['program']}: {k}: {v}"
            for report in reports
            for k, v in report["notes"].items()
        ),
        "",
        markdown(rows),
    ]
    (OUT / "table.md").write_text("\n".join(lines) + "\n")
    print("\n" + "\n".join(lines))
    met = sum(row[-1] == "met" for row in rows)
    print(f"\n{met} of {len(rows)} goals met. Kept in {OUT.relative_to(ROOT)}: table.md, *.json")
    if arguments.plot:
        from plot import draw

        draw(series, OUT / "ratios.png")
        print(f"Drawn: {(OUT / 'ratios.png').relative_to(ROOT)}")


if __name__ == "__main__":
    main()
