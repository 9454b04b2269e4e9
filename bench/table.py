"""Hold the figures against the goals, and write it down."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from goals import GOALS, Goal

Series = dict[str, list[float]]  # by program/series

HEAD = ["program", "what : floor or rival", "measured", "floor", "ratio", "goal", ""]
SCALES = {
    "ns": (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)),
    "calls": (),
    "/s": (),
    "B": (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0)),
}


def series_of(reports: list[dict[str, Any]]) -> Series:
    """Name the series of all programs by program/series."""
    return {
        f"{report['program'].removeprefix('bench_')}/{name}": values
        for report in reports
        for name, values in report["series"].items()
    }


@dataclass(frozen=True)
class Verdict:
    measured: float
    floor: float | None
    ratio: float | None
    spread: tuple[float, float] | None  # the smallest and the largest ratio of a block
    word: str  # "met", "MISSED", or "" without a limit


def verdict(goal: Goal, series: Series) -> Verdict | None:
    """Judge block by block; None if something was not measured.

    The figure is the median of the blocks' ratios, and the goal counts as missed if most blocks
    miss it.
    """
    if goal.measured not in series or (goal.floor and goal.floor not in series):
        return None
    measured = np.array(series[goal.measured])
    floor = np.array(series[goal.floor]) if goal.floor else np.zeros(len(measured))
    limit = (goal.most or 0.0) * floor + goal.plus
    missed = 2 * int(np.sum(measured > limit)) > len(measured)
    limited = goal.most is not None or goal.plus > 0
    ratios = measured / floor if goal.floor else None
    return Verdict(
        float(np.median(measured)),
        float(np.median(floor)) if goal.floor else None,
        float(np.median(ratios)) if ratios is not None else None,
        (float(ratios.min()), float(ratios.max())) if ratios is not None else None,
        ("MISSED" if missed else "met") if limited else "",
    )


def quantity(value: float | None, unit: str) -> str:
    """Write a time or a size for people."""
    if value is None:
        return ""
    for name, size in SCALES[unit]:
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g} {unit}"


def times(ratio: float | None) -> str:
    """Write a ratio; small ones as what they are one part of."""
    if ratio is None:
        return ""
    return f"{ratio:.2f}x" if ratio >= 0.1 else f"1/{1 / ratio:.0f}"


def ratio_text(goal: Goal, found: Verdict) -> str:
    """Write the ratio, and its spread for rows that want it."""
    if goal.spread and found.spread is not None:
        smallest, largest = map(times, found.spread)
        return f"{times(found.ratio)} ({smallest} to {largest})"
    return times(found.ratio)


def limit_text(goal: Goal) -> str:
    """Write the goal."""
    if goal.most is None and goal.plus == 0:
        return ""
    plus = quantity(goal.plus, goal.unit)
    if goal.most is None:
        return f"<= {plus}"
    if goal.plus:
        return f"<= floor + {plus}"
    return f"<= {goal.most:g}x" if goal.most >= 1 else f"<= 1/{1 / goal.most:g}"


def rows_of(series: Series, goals: Sequence[Goal] = GOALS) -> list[list[str]]:
    """Make the table of the programs that have run, without its head."""
    programs = {name.partition("/")[0] for name in series}
    rows = []
    for goal in goals:
        program = goal.measured.partition("/")[0]
        if program not in programs:
            continue
        found = verdict(goal, series)
        if found is None:
            figures = ["-", "-", "-", limit_text(goal), "not run"]
        else:
            figures = [
                quantity(found.measured, goal.unit),
                quantity(found.floor, goal.unit),
                ratio_text(goal, found),
                limit_text(goal),
                found.word,
            ]
        rows.append([program, goal.what, *figures])
    return rows


def markdown(rows: list[list[str]]) -> str:
    """Write the rows as a Markdown table that can be read as it is, too."""
    widths = [max(len(row[i]) for row in [HEAD, *rows]) for i in range(len(HEAD))]
    lines = [HEAD, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )
