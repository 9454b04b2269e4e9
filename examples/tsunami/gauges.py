"""Records tide gauges, with PyTorch where it is installed, else with NumPy.

A fast reader: it reads a few cells of each step, and should miss few steps.
"""

import argparse
import csv
import sys
from contextlib import ExitStack
from pathlib import Path

import memlease
import numpy as np
import terrain
from levels import NumpyLevels
from matplotlib.figure import Figure
from places import PLACES, gauge_cells
from surface import SurfaceReader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--library", choices=("auto", "torch", "numpy"), default="auto")
    arguments = parser.parse_args()
    levels = chosen_levels(arguments.library)

    with memlease.connect(start=False) as client:
        print(f"ready with {levels.library}", flush=True)
        reader = SurfaceReader(client, arguments.ranks, "gauges", levels.stream_on)
        with ExitStack() as leases:
            ground = [leases.enter_context(client.open(name).read()) for name in terrain.NAMES]
            cells = gauge_cells(*(lease.array for lease in ground))
        times_s = record(reader, levels, cells)
        levels_m = levels.table()
        reader.save_report(arguments.out)
    save_series(arguments.out / "gauges.csv", times_s, levels_m)
    plot_series(arguments.out / "gauges.png", times_s, levels_m)
    for place, level in zip(PLACES, levels_m.T, strict=True):
        highest = int(level.argmax())
        print(
            f"{place.name:14} highest {level[highest]:+.2f} m after {times_s[highest] / 60:.0f} min"
            f", lowest {level.min():+.2f} m"
        )


def chosen_levels(library: str) -> NumpyLevels:
    """Return what reads the levels: of `auto`, with PyTorch where it is installed."""
    if library == "numpy":
        return NumpyLevels()
    try:
        from torch_levels import TorchLevels
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        if library == "torch":
            sys.exit("PyTorch was asked for and is not installed; --gauges numpy does without")
        return NumpyLevels()
    return TorchLevels()


def record(reader: SurfaceReader, levels: NumpyLevels, cells: list) -> np.ndarray:
    """Return the times of the steps; `levels` then has what the gauges showed."""
    first_rows = np.cumsum([0, *reader.rows])
    ranks = np.searchsorted(first_rows, [cell.row for cell in cells], side="right") - 1
    places = [(int(rank), cell.row - int(first_rows[rank]), cell.column)
              for rank, cell in zip(ranks, cells, strict=True)]  # fmt: skip
    times_s = []
    with levels.within(reader.streams):
        for frame in reader.frames():
            levels.look(frame.parts, places)
            times_s.append(frame.time_s)
    return np.array(times_s)


def save_series(path: Path, times_s: np.ndarray, levels_m: np.ndarray) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time_s", *(f"{place.name} (m)" for place in PLACES)])
        for time_s, levels in zip(times_s.tolist(), levels_m.tolist(), strict=True):
            writer.writerow([f"{time_s:.1f}", *(f"{level:.4f}" for level in levels)])


def plot_series(path: Path, times_s: np.ndarray, levels_m: np.ndarray) -> None:
    figure = Figure(figsize=(8, 7), dpi=110, layout="constrained")
    all_axes = figure.subplots(len(PLACES), sharex=True)
    minutes = times_s / 60
    for axes, place, level in zip(all_axes, PLACES, levels_m.T, strict=True):
        axes.fill_between(minutes, level, 0, where=level > 0, color="#c0262d", alpha=0.25, lw=0)
        axes.fill_between(minutes, level, 0, where=level < 0, color="#2166ac", alpha=0.25, lw=0)
        axes.plot(minutes, level, color="#1d2733", lw=0.9)
        axes.set_title(place.name, loc="left", fontsize=9, pad=2)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.margins(x=0)
    figure.suptitle("Sea surface at the gauges (m)", fontsize=12, weight="bold")
    all_axes[-1].set_xlabel("minutes after the earthquake", fontsize=9)
    figure.savefig(path)


if __name__ == "__main__":
    main()
