"""The one figure: from publishing a payload to its consumer having it, by size."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

Series = dict[str, list[float]]

TICKS = {"1KiB": 2**10, "32KiB": 2**15, "1MiB": 2**20, "16MiB": 2**24, "256MiB": 2**28}
TICKS["1GiB"] = 2**30
SIZES = TICKS | {"4KiB": 2**12, "64MiB": 2**26}  # those of bench_rivals, too
BYTES = dict(sorted(SIZES.items(), key=lambda item: item[1]))

# (series without the size, label, colour, style)
LINES = [
    ("bytes/grpc.get", "gRPC byte stream, C++", "tab:red", "o-"),
    ("py_bytes/pipe.get", "multiprocessing.Pipe", "tab:brown", "o-"),
    ("py_bytes/torch.get", "torch.multiprocessing", "tab:orange", "o-"),
    ("py_bytes/shared_memory.get", "multiprocessing.shared_memory", "tab:purple", "o-"),
    ("py_bytes/memlease.get", "memlease, Python", "tab:cyan", "o-"),
    ("bytes/memlease.get", "memlease, C++", "tab:blue", "o-"),
    ("bytes/memlease.get_and_sum", "memlease, C++, and all bytes summed", "tab:blue", "o:"),
    ("bytes/local.copy", "floor: memcpy", "0.5", "--"),
    ("rivals/adios2.get", "ADIOS2, SST", "tab:green", "s-."),
    ("rivals/ray.get", "Ray", "tab:olive", "s-."),
    ("rivals/zenoh.get", "zenoh", "tab:pink", "s-."),
    ("rivals/pyzmq.get", "pyzmq", "tab:gray", "s-."),
    ("rivals/torch.get", "torch.multiprocessing, beside rivals", "tab:orange", "s-."),
    ("rivals/iceoryx2.get", "iceoryx2, Python", "tab:purple", "s-."),
    ("rivals/memlease.get", "memlease, Python, beside rivals", "tab:cyan", "s-."),
    ("rivals/posix_ipc.get", "posix_ipc, by hand", "black", "s-."),
]
FLOORS = [
    ("publish/futex.cold.p50", "floor: waking a sleeper"),
    ("publish/spin.hot.p50", "floor: a word seen by spinning"),
    ("publish/rmw", "floor: one atomic RMW"),
]


def draw(series: Series, path: Path) -> None:
    """Draw what was measured."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for name, label, color, style in LINES:
        found = {
            size: series[f"{name}.{text}"]
            for text, size in BYTES.items()
            if f"{name}.{text}" in series
        }
        if found:
            us = [float(np.median(values)) / 1e3 for values in found.values()]
            axes.plot(list(found), us, style, color=color, label=label, markersize=4)
    for name, label in FLOORS:
        if name not in series:
            continue
        us = float(np.median(series[name])) / 1e3
        axes.axhline(us, color="0.5", linestyle="--", linewidth=1)
        axes.annotate(
            label,
            (1.0, us),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 2),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=8,
            color="0.4",
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(list(TICKS.values()), list(TICKS))
    axes.set_xlabel("payload")
    axes.set_ylabel("microseconds from publishing until the consumer has it")
    axes.grid(which="major", alpha=0.3)
    if axes.lines:
        axes.legend(fontsize=7, loc="upper left", ncols=2)
    figure.savefig(path, dpi=120)
