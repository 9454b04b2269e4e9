"""The ground of the example: real topography and bathymetry around Vancouver Island.

matplotlib ships them as sample data (48-50° N, 126-122° W, about 2.4 km apart). Waves want finer
cells than that, so the grid is refined. That invents nothing: between the data it interpolates and
rounds, which moves shores by a part of an original cell and shows no strait the data do not have.
"""

from typing import NamedTuple

import matplotlib.cbook
import numpy as np

NAMES = ("tsunami/bed", "tsunami/longitude", "tsunami/latitude")


class Terrain(NamedTuple):
    bed: np.ndarray  # metres above sea level, float32, rows from south to north
    longitude: np.ndarray  # degrees, float64, negative to the west
    latitude: np.ndarray


def load(refinement: int) -> Terrain:
    """Read the sample data, with `refinement` cells for each of the original's."""
    with matplotlib.cbook.get_sample_data("topobathy.npz") as data:
        bed, longitude, latitude = (data[n].astype("f8") for n in ("topo", "longitude", "latitude"))
    bed = _refined(_refined(bed, refinement).T, refinement).T
    return Terrain(
        np.ascontiguousarray(bed, "f4"),
        np.linspace(longitude[0] - 360.0, longitude[-1] - 360.0, bed.shape[1]),
        np.linspace(latitude[0], latitude[-1], bed.shape[0]),
    )


def _refined(rows: np.ndarray, refinement: int) -> np.ndarray:
    """Interpolate linearly between rows, then round off the creases this leaves."""
    count = (rows.shape[0] - 1) * refinement + 1
    position = np.linspace(0, rows.shape[0] - 1, count)
    below = np.minimum(position.astype(int), rows.shape[0] - 2)
    part = (position - below)[:, None]
    fine = rows[below] * (1 - part) + rows[below + 1] * part
    for _ in range(refinement - 1):
        fine[1:-1] = (fine[:-2] + 2 * fine[1:-1] + fine[2:]) / 4
    return fine
