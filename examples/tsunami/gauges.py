"""Records tide gauges with PyTorch: each tensor is the ranks' own memory, looked at through DLPack.

A fast reader: it reads a few cells of each step, and should miss few steps. On a GPU it does so in
a stream that waits for the ranks', and the host for nothing; a PyTorch without CUDA reads copies.
"""

import argparse
import csv
from contextlib import ExitStack
from pathlib import Path

import memlease
import numpy as np
import terrain
import torch
from matplotlib.figure import Figure
from places import PLACES, gauge_cells
from surface import SurfaceReader, is_on_gpu, on_host


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path())
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # six cells a step need no pool, and the ranks need the cores

    with memlease.connect(start=False) as client:
        print("ready", flush=True)
        reader = SurfaceReader(client, arguments.ranks, "gauges", stream_on)
        with ExitStack() as leases:
            ground = [leases.enter_context(client.open(name).read()) for name in terrain.NAMES]
            cells = gauge_cells(*(lease.array for lease in ground))
        times_s, levels_m = record(reader, cells)
        reader.save_report(arguments.out)
    save_series(arguments.out / "gauges.csv", times_s, levels_m)
    plot_series(arguments.out / "gauges.png", times_s, levels_m)
    for place, level in zip(PLACES, levels_m.T, strict=True):
        highest = int(level.argmax())
        print(
            f"{place.name:14} highest {level[highest]:+.2f} m after {times_s[highest] / 60:.0f} min"
            f", lowest {level.min():+.2f} m"
        )


def stream_on(gpu: int) -> torch.cuda.Stream | None:
    return torch.cuda.Stream(gpu) if torch.cuda.is_available() else None


def tensor_of(part: memlease.ReadLease) -> torch.Tensor:
    if is_on_gpu(part) and not torch.cuda.is_available():
        return torch.from_numpy(on_host(part))
    return torch.from_dlpack(part)


def record(reader: SurfaceReader, cells: list) -> tuple[torch.Tensor, torch.Tensor]:
    """Return times (n), and levels above the calm sea (n, gauges)."""
    first_rows = np.cumsum([0, *reader.rows])
    ranks = np.searchsorted(first_rows, [cell.row for cell in cells], side="right") - 1
    places = [(rank, cell.row - int(first_rows[rank]), cell.column)
              for rank, cell in zip(ranks, cells, strict=True)]  # fmt: skip
    times_s, levels_m = [], []
    with ExitStack() as streams:
        for stream in reader.streams:
            streams.enter_context(torch.cuda.stream(stream))
        for frame in reader.frames():
            surfaces = [tensor_of(part) for part in frame.parts]
            home = surfaces[0].device
            levels = [surfaces[rank][row, column].to(home) for rank, row, column in places]
            levels_m.append(torch.stack(levels))  # a GPU's stay there until the end
            times_s.append(frame.time_s)
            del surfaces, levels  # views end before their leases do
        return torch.tensor(times_s), torch.stack(levels_m).cpu()


def save_series(path: Path, times_s: torch.Tensor, levels_m: torch.Tensor) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time_s", *(f"{place.name} (m)" for place in PLACES)])
        for time_s, levels in zip(times_s.tolist(), levels_m.tolist(), strict=True):
            writer.writerow([f"{time_s:.1f}", *(f"{level:.4f}" for level in levels)])


def plot_series(path: Path, times_s: torch.Tensor, levels_m: torch.Tensor) -> None:
    figure = Figure(figsize=(8, 7), dpi=110, layout="constrained")
    all_axes = figure.subplots(len(PLACES), sharex=True)
    minutes = (times_s / 60).numpy()
    for axes, place, level in zip(all_axes, PLACES, levels_m.T.numpy(), strict=True):
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
