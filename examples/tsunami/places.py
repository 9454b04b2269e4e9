"""Where the example's tide gauges stand."""

from typing import NamedTuple

import numpy as np


class Place(NamedTuple):
    name: str
    longitude: float
    latitude: float


PLACES = (
    Place("Tofino", -125.93, 49.13),
    Place("Ucluelet", -125.62, 48.88),
    Place("Neah Bay", -124.62, 48.42),
    Place("Port Renfrew", -124.47, 48.52),
    Place("Victoria", -123.40, 48.38),
    Place("Port Townsend", -122.78, 48.16),
)


class Cell(NamedTuple):
    row: int
    column: int


def gauge_cells(bed: np.ndarray, longitude: np.ndarray, latitude: np.ndarray) -> list[Cell]:
    """For each place the nearest cell with at least 10 m of water, so that it never runs dry."""
    east, north = np.meshgrid(longitude, latitude)
    squeeze = np.cos(np.radians(latitude.mean()))
    cells = []
    for place in PLACES:
        distance = np.hypot((east - place.longitude) * squeeze, north - place.latitude)
        distance[bed > -10] = np.inf
        row, column = np.unravel_index(np.argmin(distance), bed.shape)
        cells.append(Cell(int(row), int(column)))
    return cells
