"""How long the daemon takes from its start until it serves, without arrays.

In the background it says so itself: the process that was started ends when its child serves. Beside
it the same program when it has nothing to do but to print its version.
"""

import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import effort

BUILD = Path(os.environ.get("MEMLEASE_BUILD_DIR", Path(__file__).parents[1] / "build/release"))
DAEMON = BUILD / "bin/memleased"


def ns_of(*arguments: str) -> int:
    """Nanoseconds until the program has ended well."""
    begin = time.perf_counter_ns()
    subprocess.run([DAEMON, *arguments], check=True, capture_output=True)
    return time.perf_counter_ns() - begin


def start_and_end(directory: Path) -> int:
    """Nanoseconds until a daemon serves there, which has ended when this returns."""
    took = ns_of("--directory", str(directory), "--background")
    lock = directory / "memleased.lock"
    os.kill(int(lock.read_text()), signal.SIGTERM)
    while lock.exists():
        time.sleep(0.001)
    return took


def main() -> None:
    """Measure and print."""
    rounds = effort.pick(21, 7, 1)
    series: dict[str, list[float]] = {"serves": [], "version": []}
    with tempfile.TemporaryDirectory(prefix="memlease-bench-") as folder:
        for _ in range(effort.blocks()):
            pairs = [
                (start_and_end(Path(folder) / "run"), ns_of("--version")) for _ in range(rounds)
            ]
            for name, samples in zip(("serves", "version"), zip(*pairs, strict=True), strict=True):
                series[name].append(statistics.median(samples))
    effort.print_report("bench_start", series, {"starts": str(rounds * effort.blocks())})


if __name__ == "__main__":
    main()
