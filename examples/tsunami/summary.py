"""What the demo says at its end, from the reports its processes left."""

import json
from pathlib import Path

import numpy as np


def load_reports(folder: Path, ranks: int) -> list[dict]:
    names = [*(f"rank{rank}" for rank in range(ranks)), "gauges", "render"]
    return [json.loads((folder / f"{name}.json").read_text()) for name in names]


def strangers(reports: list[dict], ranks: int) -> list[str]:
    """Readers whose bytes are not a writer's own memory: each would be a copy."""
    found = []
    for rank in range(ranks):
        owned = set(reports[rank]["backings"][str(rank)])
        for reader in reports[ranks:]:
            if not set(reader["backings"][str(rank)]) <= owned:
                found.append(f"{reader['name']} of rank {rank}'s surface")
    return found


def table(reports: list[dict], ranks: int, killed: dict, killed_at_s: float) -> list[str]:
    """Versions per process, and the gaps between them on either side of the kill."""
    lines = [
        "                            versions                gaps in ms, median / 99 % / longest",
        "              published      read   skipped     before the kill          after the kill",
    ]
    for number, report in enumerate(reports):
        versions = f"{report['versions']:,}"
        counts = (
            f"{versions:>9}" + 20 * " "
            if number < ranks
            else f"{'':9}{versions:>10}{report['skipped']:>10,}"
        )
        times_s = np.array(report["times_s"])
        before = _gaps(times_s[times_s < killed_at_s])
        after = _gaps(times_s[times_s >= killed_at_s])
        lines.append(f"  {report['name']:12}{counts}  {before:>22}  {after:>22}")
    lines.append(
        f"  {'bystander':12}{'':9}{killed['read']:>10,}{killed['skipped']:>10,}"
        f"     killed with kill -9 while it held version {killed['version']:,}"
    )
    return lines


def _gaps(times_s: np.ndarray) -> str:
    if len(times_s) < 2:
        return "too few"
    median, high, longest = np.percentile(np.diff(times_s) * 1e3, [50, 99, 100])
    return f"{median:.1f} / {high:.1f} / {longest:.1f}"
