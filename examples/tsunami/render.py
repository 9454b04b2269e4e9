"""Renders the sea as it moves: an animation and a still picture.

A slow reader on purpose: it keeps its leases while it draws, and the simulation does not wait.
"""

import argparse
from pathlib import Path

import memlease
import numpy as np
import terrain
from drawing import Painter, save_animation, save_picture
from surface import SurfaceReader, on_host

STILL_AT = 0.36  # of the run: the wave is in the strait


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--pictures", type=int, default=60, help="frames of the animation")
    arguments = parser.parse_args()

    with memlease.connect(start=False) as client:
        print("ready", flush=True)
        reader = SurfaceReader(client, arguments.ranks, "render")
        ground = [client.get(name) for name in terrain.NAMES]  # copies: figures keep what they draw
        pictures, still = render(reader, ground, arguments.pictures)
        reader.save_report(arguments.out)
    save_animation(pictures, arguments.out / "tsunami.gif")
    picture = Painter(*ground, reader.rows, dpi=160).draw(*still)
    save_picture(picture, arguments.out / "tsunami.png")


def render(reader: SurfaceReader, ground: list, count: int):
    """Return frames, evenly spread over the run, and the surface and time of the still."""
    painter = Painter(*ground, reader.rows)
    pictures, still = [], None
    for frame in reader.frames():
        done = frame.time_s / frame.duration_s
        if done < len(pictures) / count and done < 1:
            continue
        surface = np.concatenate([on_host(part) for part in frame.parts])
        pictures.append(painter.draw(surface, frame.time_s))
        if still is None and done >= STILL_AT:
            still = surface, frame.time_s
    return pictures, still


if __name__ == "__main__":
    main()
