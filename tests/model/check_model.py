#!/usr/bin/env python3
"""Checks the models of the slot protocol with spin.

    check_model.py              all runs of the everyday set
    check_model.py --list       their names, one a line
    check_model.py NAME...      these runs only
    check_model.py --full       larger configurations too

A run is a file, its -D switches and the result that must come: "pass", or for a control (a rule
of the protocol left out) the kind of error that spin must find: "assertion" or "end state"
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

MODELS = pathlib.Path(__file__).resolve().parent
DEPTH = 100_000
MEMORY_MIB = 3_000
CPU_LIMIT_S = 90  # of processor time: a busy machine changes no result
FULL_CPU_LIMIT_S = 1_800


class Run(NamedTuple):
    name: str
    model: str
    switches: str
    expected: str  # "pass", "assertion", "end state"
    rule: str  # what holds, or, for a control, the rule that is left out
    full: bool = False


# The configurations. A control takes one of them and leaves a rule out.
ALONE = "-DNO_THREAD2 -DTRIES=4 -DVERSIONS"  # two threads of one session
SEVERAL = "-DNO_THREAD1 -DTRIES=4 -DVERSIONS"  # several sessions
MOVES = "-DMAX_DEATHS=0 -DTRIES=2"
MOVES_BACK = "-DREADS=1 -DTRIES=2 -DMAX_DEATHS=0 -DMAX_MOVES=2"
DEATH = "-DVM=3 -DREADS=1 -DTRIES=2 -DMAX_DROPS=0 -DMAX_MOVES=0"
DEATH_MOVE = "-DVM=3 -DREADS=1 -DTRIES=2 -DMAX_DROPS=0"

CORRECT = [
    Run("holds-shared-row", "holds", ALONE, "pass", "threads of one session share a row"),
    Run(
        "holds-sessions",
        "holds",
        SEVERAL,
        "pass",
        "late subscriber, leaver, tombstone, unmapped extent",
    ),
    Run(
        "fences-shared-row",
        "fences",
        "-DNO_THREAD2",
        "pass",
        "joined read fences, two writing streams, drop",
    ),
    Run(
        "fences-sessions",
        "fences",
        "-DNO_THREAD1",
        "pass",
        "read fences of several sessions, leave",
    ),
    Run("fences-single-slot", "fences", "-DNO_THREAD1 -DNS=1", "pass", "the same, slots = 1"),
    Run("right-moves", "right", MOVES, "pass", "the right moves, nobody dies"),
    Run("right-moves-back", "right", MOVES_BACK, "pass", "the right moves twice"),
    Run(
        "right-fences-not-adopted",
        "right",
        f"{MOVES_BACK} -DOMIT_ADOPT_FENCES",
        "pass",
        "no control: fences need no adoption, since a move waits until they are complete",
    ),
    Run("right-death", "right", DEATH, "pass", "death at any step, heir, poison"),
    Run(
        "right-death-versions",
        "right",
        DEATH + " -DVERSIONS -DSTREAMS=2",
        "pass",
        "read(version=n), two streams",
    ),
    Run("right-death-move", "right", DEATH_MOVE, "pass", "death at any step, also of a move"),
    Run(
        "sleep-move",
        "sleep",
        "-DMOVE -DNO_THREAD1 -DNO_THREAD2",
        "pass",
        "nobody sleeps for ever: the right moves",
    ),
    Run(
        "sleep-death",
        "sleep",
        "-DDEATH -DNO_THREAD1",
        "pass",
        "nobody sleeps for ever: a holder dies",
    ),
    Run(
        "sleep-shared-row",
        "sleep",
        "-DNO_THREAD2",
        "pass",
        "nobody sleeps for ever: threads share the sleep flag",
    ),
    Run(
        "sleep-flag-after-recheck",
        "sleep",
        "-DNO_THREAD1 -DOMIT_FLAG_BEFORE_RECHECK",
        "pass",
        "no control: the flag may follow the re-check, as the sleep compares counts loaded before",
    ),
    Run(
        "single",
        "single",
        "-DONE_READER -DVM=2",
        "pass",
        "slots = 1: take-back, drop, death, sleeping",
    ),
    Run(
        "withdraw-shared-row",
        "withdraw",
        "-DNO_THREAD2",
        "pass",
        "bytes reused after withdraw, shared row",
    ),
    Run(
        "withdraw-sessions",
        "withdraw",
        "-DNO_THREAD1",
        "pass",
        "bytes reused after withdraw, late subscriber",
    ),
]

LARGER = [
    Run("holds-all", "holds", "-DTRIES=4", "pass", "all three readers", True),
    Run("holds-three-slots", "holds", "-DNO_THREAD1 -DNS=3 -DTRIES=4", "pass", "three slots", True),
    Run(
        "fences-twice",
        "fences",
        "-DNO_THREAD2 -DK0=2 -DVM=3 -DTRIES=4",
        "pass",
        "two reads each",
        True,
    ),
    Run("right-drops", "right", "-DREADS=1 -DTRIES=2", "pass", "death, drop and move", True),
    Run(
        "right-versions",
        "right",
        "-DREADS=1 -DTRIES=2 -DMAX_DROPS=0 -DVERSIONS",
        "pass",
        "read(version=n)",
        True,
    ),
    Run(
        "sleep-move-sessions",
        "sleep",
        "-DMOVE -DNO_THREAD1",
        "pass",
        "two sessions and a move",
        True,
    ),
    Run("single-two-readers", "single", "-DVM=2", "pass", "slots = 1, two readers", True),
    Run("withdraw-all", "withdraw", "", "pass", "all three readers", True),
]


def control(name: str, model: str, base: str, expected: str, rule: str) -> Run:
    return Run(
        f"{model}-without-{name}",
        model,
        f"{base} -DOMIT_{name.upper().replace('-', '_')}".strip(),
        expected,
        rule,
    )


A, E = "assertion", "end state"

# † = a rule that looks harmless to leave out.
CONTROLS = [
    control("tombstone", "holds", SEVERAL, A, "† an entry never moves; removal leaves a tombstone"),
    control(
        "undo-decrements", "holds", ALONE, A, "† a failed try decrements, never blindly clears"
    ),
    control(
        "list-after-mark", "holds", SEVERAL, A, "† the list is read after the mark, every time"
    ),
    control("slot-word-before-publication", "holds", ALONE, A, "† slot word, then publication"),
    control("drop-clears", "holds", ALONE, A, "† a dropped slot has no version"),
    control("leave-waits-for-holds", "holds", SEVERAL, A, "† a row leaves with an empty mask"),
    control("count", "holds", ALONE, A, "a private count behind each bit"),
    control("marked-means-retry", "holds", ALONE, A, "a slot marked over n means retry, not gone"),
    control("check", "holds", ALONE, A, "the slot word is checked after the bit"),
    control("check-of-mark", "holds", ALONE, A, "WRITING beside v fails the check"),
    control("subscribe-first", "holds", SEVERAL, A, "subscribed before the first acquire"),
    control("unmapped-holds", "holds", SEVERAL, A, "an unmapped extent holds every slot"),
    control("mark-before-scan", "holds", ALONE, A, "mark, then scan"),
    control(
        "write-fence-before-publication",
        "fences",
        "-DNO_THREAD1",
        A,
        "† write fence, then publication",
    ),
    control(
        "fence-of-earlier-releases",
        "fences",
        "-DNO_THREAD2",
        A,
        "† the fence covers every earlier release",
    ),
    control(
        "fence-of-earlier-hold",
        "fences",
        "-DNO_THREAD2",
        A,
        "† also from before the bit was last set",
    ),
    control(
        "leave-waits-for-fences", "fences", "-DNO_THREAD1", A, "† a row leaves with complete fences"
    ),
    control(
        "lock-of-fence",
        "fences",
        "-DNO_THREAD2",
        A,
        "count, bit and fence are one critical section",
    ),
    control("fence-before-clear", "fences", "-DNO_THREAD1", A, "release: fence, then bit"),
    control(
        "read-fences-after-scan",
        "fences",
        "-DNO_THREAD1",
        A,
        "read fences are loaded after the scan",
    ),
    control("read-fences", "fences", "-DNO_THREAD1", A, "ordered behind the slot's read fences"),
    control("drop-fence", "fences", "-DNO_THREAD1", A, "ordered behind the slot's drop fence"),
    control("recheck-of-writer-word", "right", MOVES, A, "† acquire: the writer word is unchanged"),
    control("write-fence-before-slot-word", "right", DEATH, A, "† write fence, then slot word"),
    control(
        "move-waits-for-fences", "right", DEATH_MOVE, A, "† a move waits for the old row's fences"
    ),
    control("adopt-highest", "right", DEATH_MOVE, A, "† the highest number used is adopted"),
    control("highest-used", "right", DEATH_MOVE, A, "† numbers are never reused"),
    control("unverified-reads", "right", DEATH, A, "† unverified reads are checked at their end"),
    control(
        "poison-all",
        "right",
        DEATH + " -DSTREAMS=2",
        A,
        "† all numbers above the standing one are poisoned",
    ),
    control("heir-file-before-writer-word", "right", DEATH, A, "† heir file, then writer word"),
    control("release-after-poison", "right", DEATH, A, "† poison, then release of the timelines"),
    control(
        "heir-clears-marked",
        "right",
        DEATH + " -DVERSIONS",
        A,
        "a marked slot has no version after a death",
    ),
    control(
        "wait-for-current",
        "right",
        DEATH + " -DSTREAMS=2",
        A,
        "ordered behind the current version's write fence",
    ),
    control("move-waits-for-writing", "right", MOVES, A, "a move waits for writing to be clear"),
    control("writing-before-check", "right", MOVES, A, "writing, then the check of the right"),
    control(
        "publication-before-count",
        "sleep",
        "-DNO_THREAD1 -DNO_THREAD2",
        E,
        "† publication, then publish count",
    ),
    control(
        "expected-first",
        "sleep",
        "-DNO_THREAD1 -DNO_THREAD2",
        E,
        "† expected counts, then flag and re-check",
    ),
    control("recheck", "sleep", "-DNO_THREAD1 -DNO_THREAD2", E, "† re-check before sleeping"),
    control("undo-wakes", "sleep", "-DNO_THREAD1 -DNO_THREAD2", E, "† undo looks at wanted too"),
    control(
        "removal-event",
        "sleep",
        "-DDEATH -DNO_THREAD1",
        E,
        "† removing a subscriber bumps the event count",
    ),
    control(
        "writer-word-before-event-count",
        "sleep",
        "-DMOVE -DNO_THREAD1 -DNO_THREAD2",
        E,
        "† writer word, then event count",
    ),
    control(
        "move-event", "sleep", "-DMOVE -DNO_THREAD1 -DNO_THREAD2", E, "a move bumps the event count"
    ),
    control(
        "count-of-sleepers", "sleep", "-DNO_THREAD2", E, "a private count behind the sleep flag"
    ),
    control(
        "clear-before-wanted",
        "sleep",
        "-DNO_THREAD1 -DNO_THREAD2",
        E,
        "clear the bit, then look at wanted",
    ),
    control(
        "release-count",
        "sleep",
        "-DNO_THREAD1 -DNO_THREAD2",
        E,
        "the release count is bumped, not only woken",
    ),
    control(
        "scan-again",
        "sleep",
        "-DNO_THREAD1 -DNO_THREAD2",
        E,
        "a writer scans again before it sleeps",
    ),
    control(
        "take-back-wakes",
        "single",
        "-DONE_READER -DVM=2",
        A,
        "† a mark taken back at a deadline wakes",
    ),
    control("drop-wakes", "single", "-DONE_READER -DVM=2", A, "† a drop wakes"),
    control(
        "drop-clears",
        "single",
        "-DONE_READER -DVM=2",
        A,
        "† a dropped slot has no version, slots = 1",
    ),
    control(
        "handed-out",
        "single",
        "-DONE_READER -DVM=2",
        A,
        "a death after the hand-out leaves no version",
    ),
    control("restore", "single", "-DONE_READER -DVM=2", A, "a death before the hand-out restores"),
    control(
        "handed-out-first",
        "single",
        "-DONE_READER -DVM=2",
        A,
        "HANDED_OUT is set before the first byte",
    ),
    control(
        "writer-event",
        "single",
        "-DONE_READER -DVM=2",
        A,
        "a new writer word bumps the event count",
    ),
    control(
        "recheck-of-writer-word",
        "withdraw",
        "-DNO_THREAD1",
        A,
        "acquire checks withdrawn after the bit",
    ),
    control(
        "wait-for-holds", "withdraw", "-DNO_THREAD1", A, "bytes are reused when no row holds them"
    ),
    control("wait-for-writing", "withdraw", "-DNO_THREAD1", A, "and no write is under way"),
    control(
        "wait-for-write-fences", "withdraw", "-DNO_THREAD1", A, "and its write fences are complete"
    ),
    control(
        "wait-for-read-fences", "withdraw", "-DNO_THREAD1", A, "and its read fences are complete"
    ),
    control(
        "holds-before-fences",
        "withdraw",
        "-DNO_THREAD1",
        A,
        "the masks are loaded before the fences",
    ),
    control("fence-before-clear", "withdraw", "-DNO_THREAD1", A, "release: fence, then bit"),
    control(
        "writing-before-check", "withdraw", "-DNO_THREAD1", A, "writing, then the check of the flag"
    ),
]

RUNS = CORRECT + CONTROLS + LARGER


class Result(NamedTuple):
    found: str  # "pass", "assertion", "end state", or why there is none
    states: int
    seconds: float


def read_result(output: str) -> tuple[str, int]:
    """Return what pan's report says; anything that is not a complete search is no result."""
    stored = re.search(r"(\d+) states, stored", output)
    errors = re.search(r"errors: (\d+)", output)
    states = int(stored.group(1)) if stored else 0
    if "max search depth too small" in output:
        return "depth limit reached", states
    if "out of memory" in output or "reached -DMEMLIM" in output:
        return "memory limit reached", states
    if errors is None or states == 0:
        return "no report: " + output.strip()[-200:], states
    if "assertion violated" in output:
        return "assertion", states
    if "invalid end state" in output.partition("Full statespace")[0]:
        return "end state", states
    if errors.group(1) != "0" or "Search not completed" in output:
        return "unknown error: " + output.strip()[:200], states
    return "pass", states


def check(run: Run) -> Result:
    started = time.monotonic()

    def done(found: str, states: int = 0) -> Result:
        return Result(found, states, time.monotonic() - started)

    optimise = "-O2" if run.expected == "pass" else "-O1"  # a control ends soon: compile fast
    pan = ["gcc", optimise, "-w", "-DSAFETY", f"-DMEMLIM={MEMORY_MIB}", "-o", "pan", "pan.c"]
    with tempfile.TemporaryDirectory(prefix="memlease-model-") as folder:
        for step in (["spin", "-a", *run.switches.split(), str(MODELS / f"{run.model}.pml")], pan):
            built = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
            if built.returncode != 0 or "Error" in built.stdout:
                return done(f"{step[0]} failed: {(built.stdout + built.stderr).strip()[:400]}")
        limit_s = FULL_CPU_LIMIT_S if run.full else CPU_LIMIT_S
        search = subprocess.run(
            ["sh", "-c", f"ulimit -t {limit_s}; exec ./pan -m{DEPTH}"],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if search.returncode < 0:
            return done(
                f"killed by signal {-search.returncode}; the limit is {limit_s} s of processor time"
            )
        return done(*read_result(search.stdout + search.stderr))


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
                f"{result.seconds:>6.1f}  {'without: ' if run.expected != 'pass' else ''}"
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
