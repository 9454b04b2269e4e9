#!/usr/bin/env python3
"""Checks the models of the slot protocol with spin.

    check_model.py              the everyday set: every control, and small configurations
    check_model.py --list       their names, one a line
    check_model.py NAME...      these runs only
    check_model.py --full       larger configurations too

A run is a file, its -D switches and the result that must come: "pass" (all states were visited),
"searched" (nothing was found in the part that a bit-state search visits), or for a control (a
rule of the protocol left out) the kind of error that spin must find: "assertion" or "end state"
(somebody sleeps for ever). A run that meets its depth, memory or time limit has no result, and is
a failure whatever was expected. The exit code is 0 only if every run gave what was expected of
it.
"""

import argparse
import concurrent.futures
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from runs import RUNS, Run

MODELS = pathlib.Path(__file__).resolve().parent
DEPTH = 100_000
MEMORY_MIB = 3_000
BITS = 32  # a bit-state search has 2 ** BITS of them
# Models whose controls end sooner, some after a tenth of the states, with the last process first.
LAST_FIRST = ("gpu_ownership", "holds", "overflow")
CPU_LIMIT_S = 90  # of processor time: a busy machine changes no result
FULL_CPU_LIMIT_S = 1_800


class Result(NamedTuple):
    found: str  # "pass", "searched", "assertion", "end state", or why there is none
    states: int
    seconds: float


def read_result(output: str) -> tuple[str, int]:
    """Return what pan's report says; anything that is not a complete search is no result."""
    stored = re.search(r"([\d.e+]+) states, stored", output)  # large numbers as 8.1e+08
    errors = re.search(r"errors: (\d+)", output)
    states = int(float(stored.group(1))) if stored else 0
    bitstate = "Bit statespace search" in output
    if "max search depth too small" in output and not bitstate:
        return "depth limit reached", states
    if "out of memory" in output or "reached -DMEMLIM" in output:
        return "memory limit reached", states
    if errors is None or states == 0:
        return "no report: " + output.strip()[-200:], states
    if "assertion violated" in output:
        return "assertion", states
    if "invalid end state" in output.partition("statespace search for")[0]:
        return "end state", states
    if errors.group(1) != "0" or "Search not completed" in output:
        return "unknown error: " + output.strip()[:200], states
    return "searched" if bitstate else "pass", states


def check(run: Run) -> Result:
    started = time.monotonic()

    def done(found: str, states: int = 0) -> Result:
        return Result(found, states, time.monotonic() - started)

    # Compiling costs more than most searches; ccache, where there is one, does it once.
    optimise = "-O2" if run.full else "-O1" if run.expected == "pass" else "-O0"
    search = ["-DBITSTATE"] if run.expected == "searched" else []
    if run.full and not search:
        search = ["-DCOLLAPSE"]  # takes longer, and a quarter of the memory
    if run.expected == "assertion" and run.model in LAST_FIRST:
        search = ["-DREVERSE"]
    limits = [f"-m{DEPTH}", *([f"-w{BITS}"] if run.expected == "searched" else [])]
    switches = ["-DSAFETY", "-DNOFAIR", "-DNOBOUNDCHECK", f"-DMEMLIM={MEMORY_MIB}", *search]
    compiler = ["ccache", "gcc"] if shutil.which("ccache") else ["gcc"]
    steps = [
        ["spin", "-a", *run.switches.split(), str(MODELS / f"{run.model}.pml")],
        [*compiler, optimise, "-w", *switches, "-c", "pan.c"],
        ["gcc", "-o", "pan", "pan.o"],
    ]
    with tempfile.TemporaryDirectory(prefix="memlease-model-") as folder:
        for step in steps:
            built = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
            if built.returncode != 0 or "Error" in built.stdout:
                return done(f"{step[0]} failed: {(built.stdout + built.stderr).strip()[:400]}")
        limit_s = FULL_CPU_LIMIT_S if run.full else CPU_LIMIT_S
        searched = subprocess.run(
            ["sh", "-c", f"ulimit -t {limit_s}; exec ./pan {' '.join(limits)}"],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if searched.returncode < 0:
            return done(
                f"killed by signal {-searched.returncode}; "
                f"the limit is {limit_s} s of processor time"
            )
        return done(*read_result(searched.stdout + searched.stderr))


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Checks the models of the slot protocol with spin."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="runs to do (default: the everyday set)"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the runs and exit")
    parser.add_argument("--full", action="store_true", help="the larger configurations too")
    parser.add_argument(
        "-j", "--jobs", type=int, default=2, help="runs at the same time (default: 2)"
    )
    options = parser.parse_args()

    known = {run.name: run for run in RUNS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no such run: {', '.join(unknown)}; --list shows the names")
    runs = [known[name] for name in options.names] or [
        run for run in RUNS if options.full or not run.full
    ]
    if options.list:
        print("\n".join(run.name for run in runs))
        return 0
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing:
        print(
            f"check_model.py: {' and '.join(missing)} not found; install Debian's package",
            file=sys.stderr,
        )
        return 2

    started = time.monotonic()
    unexpected = 0
    print(f"{'run':<46} {'expected':<10} {'found':<10} {'states':>10} {'s':>6}  rule")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for run, result in zip(runs, pool.map(check, runs), strict=True):
            good = result.found == run.expected
            unexpected += not good
            print(
                f"{run.name:<46} {run.expected:<10} {result.found:<10} {result.states:>10} "
                f"{result.seconds:>6.1f}  {'without: ' if run.is_control else ''}"
                f"{run.rule}{'' if good else '   <== UNEXPECTED'}",
                flush=True,
            )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{len(runs)} runs, {unexpected} unexpected, {time.monotonic() - started:.0f} s, "
        f"{used.ru_utime + used.ru_stime:.0f} s of processor time"
    )
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
