"""What the demo says at its end, from the reports its processes left."""

import json
from pathlib import Path

import numpy as np
from visits import KILLED, LEAVES, Visit, gaps_after, gaps_before


def load_reports(folder: Path, ranks: int) -> list[dict]:
    names = [*(f"rank{rank}" for rank in range(ranks)), "gauges", "render"]
    return [json.loads((folder / f"{name}.json").read_text()) for name in names]


def strangers(reports: list[dict], readers: list[dict]) -> list[str]:
    """Readers who saw a byte elsewhere than in the pages the ranks wrote: each would be a copy."""
    found = []
    for reader in readers:
        for rank, seen in reader["pages"].items():
            owned = set(reports[int(rank)]["pages"][rank])
            if not seen or not set(seen) <= owned:
                found.append(f"{reader['name']} of rank {rank}'s surface")
    return found


def versions_table(
    reports: list[dict], ranks: int, visits: list[Visit], own_copies: int
) -> list[str]:
    lines = [
        "  versions      published       read    skipped     copies",
        f"  {'this program':12}{'':33}{own_copies:>11}",
    ]
    for number, report in enumerate(reports):
        versions = f"{report['versions']:,}"
        lines.append(
            f"  {report['name']:12}{versions:>11}{'':22}{report['copies']:>11}"
            if number < ranks
            else f"  {report['name']:12}{'':11}{versions:>11}{report['skipped']:>11,}"
            f"{report['copies']:>11}"
        )
    for end, name in ((LEAVES, "that left"), (KILLED, "killed")):
        told = [visit.report for visit in visits if visit.end == end]
        read, skipped, copies = (
            sum(report[what] for report in told) for what in ("versions", "skipped", "copies")
        )
        lines.append(f"  {f'{len(told)} {name}':12}{'':11}{read:>11,}{skipped:>11,}{copies:>11}")
    return lines


def copies_text(readers: list[dict], on_host: bool) -> list[str]:
    mixed = sum(reader["mixed"] for reader in readers)
    read = sum(reader["versions"] for reader in readers)
    return [
        "  The copies are of the ground: put() shared it, and render took it for its own by get().",
        *(_read_on_host(readers) if on_host else _read_on_gpu(readers)),
        f"  Readings whose ranks were not of one step: {mixed:,} of {read:,}.",
    ]


def _read_on_host(readers: list[dict]) -> list[str]:
    pages = sum(len(seen) for reader in readers for seen in reader["pages"].values())
    return [
        f"  The surfaces were read where the ranks wrote them: {pages} slots compared, and each",
        "  has the same device, inode and offset on both sides.",
    ]


def _read_on_gpu(readers: list[dict]) -> list[str]:
    copied = ", ".join(reader["name"] for reader in readers if reader["copies"])
    return [
        f"  And of surfaces, from the GPU to the host, for {copied}: who draws needs them there,",
        "  and so do NumPy and a PyTorch without CUDA. GPU memory has no pages to compare.",
    ]


def gaps_table(reports: list[dict], visits: list[Visit], window_s: float) -> list[str]:
    left, killed = (sum(visit.end == end for visit in visits) for end in (LEAVES, KILLED))
    heads = (f"before ({left + killed})", f"a reader left ({left})", f"kill -9 ({killed})")
    lines = [
        f"  ms from one version to the next (median / 99 % / longest) in {window_s:g} s windows:",
        f"  {'':12}" + "".join(f"{head:>24}" for head in heads),
    ]
    for report in reports:
        times_s = np.array(report["times_s"])
        cells = (
            gaps_before(times_s, visits, window_s),
            gaps_after(times_s, visits, LEAVES, window_s),
            gaps_after(times_s, visits, KILLED, window_s),
        )
        lines.append(f"  {report['name']:12}" + "".join(f"{_percentiles(c):>24}" for c in cells))
    lines.append("  Chance moves all columns: read the last one against its neighbours.")
    return lines


def _percentiles(gaps_s: np.ndarray) -> str:
    if not len(gaps_s):
        return "none"
    median, high, longest = np.percentile(gaps_s * 1e3, [50, 99, 100])
    return f"{median:.1f} / {high:.1f} / {longest:.1f}"
