"""One figure of what memlease's calls cost beside floors and rivals."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

BARS = [
    ("bench_hold", "rmw", "one atomic RMW"),
    ("bench_hold", "shared_ptr", "copy of a shared_ptr"),
    ("bench_hold", "hold", "read + release, C++"),
    ("bench_publish", "memlease.nobody_waits", "write + publish, C++"),
    ("bench_py", "with", "with read(), Python"),
    ("bench_publish", "spin.hot.p50", "one way: raw spin"),
    ("bench_publish", "memlease.hot.p50", "one way: publish to read"),
    ("bench_publish", "futex.hot.p50", "one way: futex"),
    ("bench_publish", "socket.hot.p50", "one way: UNIX socket"),
    ("bench_py", "shared_memory.attach", "attach, multiprocessing.shared_memory"),
    ("bench_create", "call", "small gRPC call to the daemon"),
    ("bench_py", "torch.round_trip", "round trip, torch.multiprocessing"),
]


def draw(series: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Bars on a logarithmic axis, of what was measured."""
    found = [
        (label, float(np.median(series[program][name])))
        for program, name, label in BARS
        if name in series.get(program, {})
    ]
    figure, axes = plt.subplots(figsize=(8, 0.4 * len(found) + 1), layout="constrained")
    labels = [label for label, _ in found]
    colors = ["tab:blue" if "read" in label or "publish" in label else "0.6" for label in labels]
    bars = axes.barh(labels, [ns for _, ns in found], color=colors)
    axes.bar_label(bars, [f"{ns:,.0f} ns" for _, ns in found], padding=3)
    axes.set_xscale("log")
    axes.set_xlabel("nanoseconds")
    axes.invert_yaxis()
    axes.margins(x=0.2)
    figure.savefig(path, dpi=120)
