"""The command line of the benchmark programs in Python, and how they print."""

import json
import statistics
import sys
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def directory() -> str:
    """Of a daemon that serves nobody else: PROGRAM DIRECTORY [--quick|--tiny]."""
    return sys.argv[1]


def pick(full: T, quick: T, tiny: T) -> T:
    """Choose by the effort; tiny measures nothing and shows that the program works."""
    options = sys.argv[2:]
    return tiny if "--tiny" in options else quick if "--quick" in options else full


def blocks() -> int:
    """Count the interleaved repetitions of everything."""
    return pick(5, 5, 2)


def add_distribution(series: dict[str, list[float]], name: str, samples: list[int]) -> None:
    """Add a block's median and 99th percentile."""
    series.setdefault(f"{name}.p50", []).append(statistics.median(samples))
    last = sorted(samples)[-1 - len(samples) // 100]
    series.setdefault(f"{name}.p99", []).append(last)


def print_report(program: str, series: Mapping[str, list[float]], notes: dict[str, str]) -> None:
    """As the C++ programs do."""
    json.dump({"program": program, "series": series, "notes": notes}, sys.stdout, indent=1)
