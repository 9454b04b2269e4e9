"""Pictures of the sea surface over shaded ground. Knows nothing of where surfaces come from."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import AsinhNorm, LightSource, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from PIL import Image
from places import PLACES, gauge_cells

INK = "#1d2733"
HIGHEST_M = 3.0
GROUND = 140  # of the 256 colours of a picture
SEA = LinearSegmentedColormap.from_list(
    "sea", ["#0b2a5b", "#2166ac", "#7db8da", "#eaf1f2", "#f4a582", "#c0262d", "#5f0a1e"]
)
LAND = LinearSegmentedColormap.from_list(
    "land",
    [(0.0, "#7f9a6d"), (0.1, "#9fae7c"), (0.3, "#c6bd92"), (0.55, "#ab9273"), (1.0, "#f5f3ef")],
)
NORM = AsinhNorm(linear_width=0.15, vmin=-HIGHEST_M, vmax=HIGHEST_M)
SUN = LightSource(azdeg=315, altdeg=45)


class Painter:
    """Draws one surface after another into the same figure.

    Only the sea changes between frames; land, coast, gauges and scales are drawn once.
    """

    def __init__(
        self,
        bed: np.ndarray,
        longitude: np.ndarray,
        latitude: np.ndarray,
        rank_rows: Sequence[int] = (),
        dpi: int = 100,
    ):
        self._bed = bed
        self._land = _shaded_land(bed)
        self._sea_floor_light = 0.93 + 0.12 * _light(bed, exaggeration=0.04)
        self._figure = Figure(figsize=(7.2, 5.4), dpi=dpi, facecolor="white")
        self._canvas = FigureCanvasAgg(self._figure)
        axes = self._figure.add_axes((0.08, 0.055, 0.785, 0.845))
        extent = (longitude[0], longitude[-1], latitude[0], latitude[-1])
        self._image = axes.imshow(
            self._land, origin="lower", extent=extent, interpolation="bilinear"
        )
        axes.set_aspect(1 / np.cos(np.radians(latitude.mean())))
        axes.contour(longitude, latitude, bed, levels=[0], colors=INK, linewidths=0.7)
        self._decorate(axes)
        self._mark_gauges(axes, bed, longitude, latitude)
        self._mark_ranks(axes, longitude, latitude, rank_rows)
        self._clock = self._figure.text(
            0.865, 0.94, "", ha="right", va="center", fontsize=12, color=INK, family="monospace"
        )

    def draw(self, surface: np.ndarray, time_s: float) -> Image.Image:
        """One frame; `surface` in metres above sea level, NaN where the ground is dry."""
        self._image.set_data(self._colours(surface))
        minutes = round(time_s / 60)
        self._clock.set_text(f"{minutes // 60} h {minutes % 60:02d} min")
        self._canvas.draw()
        return Image.fromarray(np.asarray(self._canvas.buffer_rgba())).convert("RGB")

    def _colours(self, surface: np.ndarray) -> np.ndarray:
        # On flooded land the depth tells more than the height above the far sea.
        height = np.where(self._bed > 0, surface - self._bed, surface)
        wet = np.isfinite(surface) & ((self._bed <= 0) | (height > 0.05))
        height = np.where(wet, height, 0.0)
        light = self._sea_floor_light * (0.9 + 0.2 * _light(height, exaggeration=120.0))
        sea = SEA(NORM(height))[..., :3] * light[..., None]
        return np.where(wet[..., None], np.clip(sea, 0, 1), self._land)

    def _decorate(self, axes) -> None:
        axes.tick_params(labelsize=7, colors=INK)
        axes.xaxis.set_major_formatter(lambda degrees, _: f"{-degrees:g}° W")
        axes.yaxis.set_major_formatter(lambda degrees, _: f"{degrees:g}° N")
        self._figure.text(
            0.08, 0.95, "A tsunami enters the Salish Sea", fontsize=13, weight="bold", color=INK
        )
        self._figure.text(
            0.08,
            0.918,
            "shallow-water equations over real topography and sea floor; the earthquake is made up",
            fontsize=7,
            color="#56616d",
        )
        axes.apply_aspect()  # so that the bar ends where the map does
        place = axes.get_position()
        bar_axes = self._figure.add_axes((0.885, place.y0, 0.02, place.height))
        bar = self._figure.colorbar(
            ScalarMappable(NORM, SEA),
            cax=bar_axes,
            ticks=[-3, -2, -1, -0.5, -0.2, 0, 0.2, 0.5, 1, 2, 3],
        )
        bar.ax.yaxis.set_major_formatter(lambda metres, _: f"{metres:+g}" if metres else "0")
        bar.ax.minorticks_off()
        bar.ax.tick_params(labelsize=7, colors=INK)
        bar.set_label("height of the sea surface (m)", fontsize=7.5, color=INK)

    def _mark_gauges(self, axes, bed, longitude, latitude) -> None:
        halo = [withStroke(linewidth=2.5, foreground="white", alpha=0.85)]
        for place, cell in zip(PLACES, gauge_cells(bed, longitude, latitude), strict=True):
            at = (longitude[cell.column], latitude[cell.row])
            axes.plot(*at, "o", ms=5, mfc="#ffd23f", mec=INK, mew=1.1)
            axes.annotate(
                place.name, at, (6, 5), textcoords="offset points", fontsize=7.5, color=INK,
                path_effects=halo,
            )  # fmt: skip

    def _mark_ranks(self, axes, longitude, latitude, rank_rows) -> None:
        first = 0
        for rank, rows in enumerate(rank_rows):
            if first:
                axes.axhline(latitude[first], color=INK, lw=0.8, ls=(0, (6, 5)), alpha=0.6)
            axes.text(
                longitude[-1] - 0.03, latitude[first] + 0.02, f"rank {rank}", ha="right",
                va="bottom", fontsize=7, color=INK, alpha=0.8,
            )  # fmt: skip
            first += rows


def save_animation(frames: Sequence[Image.Image], path: Path, frame_ms: int = 100) -> None:
    """Write a GIF.

    One palette for all frames, undithered: still ground neither flickers nor takes up room.
    """
    palette = _palette(frames[0])
    flat = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [frame_ms] * (len(flat) - 1) + [2000]
    flat[0].save(path, save_all=True, append_images=flat[1:], duration=durations, loop=0)


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write a PNG of 256 colours, a third as large as one of all."""
    flat = picture.quantize(palette=_palette(picture), dither=Image.Dither.NONE)
    flat.save(path, optimize=True)


def _palette(frame: Image.Image) -> Image.Image:
    """256 colours: left to itself a quantiser spends them on land and leaves the waves in bands."""
    sea = (SEA(np.linspace(0, 1, 253 - GROUND))[:, :3] * 255).round().astype(int).ravel().tolist()
    marks = [255, 210, 63, 255, 255, 255]
    palette = Image.new("P", (1, 1))
    palette.putpalette(sea + marks)
    pixels = np.asarray(frame).astype(int)
    missed_by = np.abs(
        pixels
        - np.asarray(frame.quantize(palette=palette, dither=Image.Dither.NONE).convert("RGB"))
    )
    others = pixels[missed_by.max(axis=2) > 6]
    # Rare colours, as of deep valleys, count for more than their share.
    colours, counts = np.unique(others, axis=0, return_counts=True)
    others = np.repeat(colours, np.ceil(np.sqrt(counts)).astype(int), axis=0).astype(np.uint8)
    ground = Image.fromarray(others[None]).quantize(GROUND, method=Image.Quantize.MEDIANCUT)
    palette.putpalette(sea + marks + ground.getpalette()[: 3 * GROUND])
    return palette


def _light(heights: np.ndarray, exaggeration: float) -> np.ndarray:
    """1 where a slope faces the sun, 0 where it turns away; heights one metre a cell at 1."""
    north, east = np.gradient(heights * exaggeration)
    return np.clip(0.5 + 0.35 * (east - north) / np.sqrt(1 + east**2 + north**2), 0, 1)


def _shaded_land(bed: np.ndarray) -> np.ndarray:
    colours = LAND(np.clip(bed, 0, 2000) / 2000)[..., :3]
    return SUN.shade_rgb(colours, bed, blend_mode="soft", vert_exag=0.008, fraction=1.1)


matplotlib.rcParams["font.family"] = "DejaVu Sans"
