"""Histories: the telemetry of a condensation as arrays, and the plots of how a set came to be."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from prism.artifacts.results import LARGEST
from prism.artifacts.telemetry import QUANTILES, Telemetry
from prism.errors import ArtifactError
from prism.reports.plots import BLACK, BLUE, RED, SMALL, picture
from prism.reports.tables import Picture

Array = NDArray[np.float64]
LARGEST_DRAWN = 1e100  # Axes of larger numbers cannot be computed in float64.


@dataclass(frozen=True)
class Curves:
    """The course of one condensation.

    Attributes:
        steps: (n, 4) iteration, loss, between-class energy (0 where it is not known), mean key-frames per video.
        cosines: (m, 1 + q) iteration and the quantiles of the candidates' cosines.
        insertions: (k, 2) iteration and frame of every inserted key-frame.
        unseen: (u, 3) iteration, alignment and nearest share, on networks that the videos are not trained on.
        seconds: duration, or None if the run did not end.
        peak_memory_bytes: of the run, or None if it did not end.
    """

    steps: Array
    cosines: Array
    insertions: Array
    unseen: Array
    seconds: float | None = None
    peak_memory_bytes: int | None = None
    hardware: str = ""

    @property
    def last_iteration(self) -> float:
        """0 for a set of no iterations."""
        parts = (self.steps, self.cosines, self.insertions, self.unseen)
        return max((float(part[:, 0].max()) for part in parts if len(part)), default=0.0)

    @classmethod
    def read(cls, telemetry: Telemetry) -> "Curves":
        """The numbers of telemetry; a record without one is refused."""
        try:
            steps = telemetry.of_kind("step")
            cosines = [[r["iteration"], *r["quantiles"]] for r in telemetry.of_kind("cosines")]
            insertions = [[r["iteration"], r["frame"]] for r in telemetry.of_kind("insertion")]
            unseen = [[r["iteration"], r["alignment"], r["nearest"]] for r in telemetry.of_kind("unseen")]
            end = (telemetry.of_kind("end") or [{}])[-1]
            start = (telemetry.of_kind("start") or [{}])[0]
            seconds, memory = end.get("seconds"), end.get("peak_memory_bytes")
            return cls(
                _table([[r["iteration"], r["loss"], r["between_class"] or 0.0, r["keyframes"]] for r in steps], 4),
                _table(cosines, 1 + len(QUANTILES)),
                _table(insertions, 2),
                _table(unseen, 3),
                None if seconds is None else _finite(seconds),
                None if memory is None else int(_finite(memory)),
                str(start.get("gpu") or start.get("processor") or ""),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ArtifactError(f"the telemetry holds a record that cannot be drawn: {error!r}.") from None


def _table(rows: list[list[Any]], width: int) -> Array:
    table = np.array(rows, dtype=np.float64).reshape(-1, width)
    if len(table) != len(rows) or not (np.abs(table) < LARGEST_DRAWN).all():
        raise ValueError("a value is missing or not finite")
    if len(table) and not (table[:, 0].min() >= 0 and table[:, 0].max() < LARGEST):
        raise ValueError("an iteration is out of range")
    return table


def _finite(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError("a value is not finite")
    return number


def binned(x: Array, y: Array, bins: int = 300) -> tuple[Array, Array, Array, Array]:
    """A long curve made short: centre, median, lowest and highest value of each run of neighbouring points."""
    parts = np.array_split(np.arange(len(x)), min(bins, len(x)))
    table = np.array([(x[part].mean(), np.median(y[part]), y[part].min(), y[part].max()) for part in parts])
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def history_plots(curves: Curves, num_frames: int) -> list[Picture]:
    """How a set came to be; what was not recorded is left out."""
    loss = (
        "Loss over iterations, on a logarithmic axis, and the between-class energy",
        "Loss and between-class energy",
    )
    keyframes = ("Mean key-frames per video over iterations", "Key-frames per video, on average")
    alignment = f"alignment ends at {curves.unseen[-1, 1]:.2f}" if len(curves.unseen) else ""
    unseen = (alignment, "On networks that the videos were not trained on")
    insertions = (
        "Heat map of inserted frames over iterations",
        "Insertions: which frame, when (colour: how many)",
    )
    cosines = (
        "Quantiles of the candidates' cosines over iterations",
        "Cosines of the candidates with their neighbours",
    )
    wanted = [
        (curves.steps, _loss, loss),
        (curves.steps, partial(_keyframes, num_frames=num_frames), keyframes),
        (curves.unseen, _unseen, unseen),
        (curves.insertions, partial(_insertions, num_frames=num_frames), insertions),
        (curves.cosines, _cosines, cosines),
    ]
    return [picture(partial(draw, curves=curves), words, SMALL) for rows, draw, words in wanted if len(rows)]


def _loss(axes: Axes, curves: Curves) -> None:
    x, loss, low, high = binned(curves.steps[:, 0], curves.steps[:, 1])
    energy = binned(curves.steps[:, 0], curves.steps[:, 2])[1]
    axes.fill_between(x, low, high, color=BLUE, alpha=0.18, linewidth=0)
    axes.plot(x, loss, color=BLUE)
    drawn = curves.steps[:, 1:3][curves.steps[:, 1:3] > 0]
    if len(drawn):
        axes.set_yscale("log", nonpositive="mask")
        subs = (1.0, 2.0, 5.0) if math.log10(drawn.max() / drawn.min()) < 2.5 else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=8))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    above = bool(loss[-1] >= energy[-1])
    _name_line(axes, float(loss[-1]), "loss", BLUE, above)
    if energy.any():
        axes.plot(x, energy, color=RED, linestyle=(0, (4, 2)))
        _name_line(axes, float(energy[-1]), "between\nclasses", RED, not above)
    _over_iterations(axes, curves, "squared distance")


def _unseen(axes: Axes, curves: Curves) -> None:
    for column, name, colour in ((1, "alignment", BLUE), (2, "nearest", RED)):
        axes.plot(curves.unseen[:, 0], curves.unseen[:, column], color=colour, marker=".")
        _name_line(axes, float(curves.unseen[-1, column]), name, colour, column == 1)
    axes.axhline(1, color="#8a8a8a", linestyle=(0, (1, 2)), linewidth=1)
    _over_iterations(axes, curves, "1 is ideal")


def _name_line(axes: Axes, height: float, text: str, colour: str, above: bool) -> None:
    look = {"va": "bottom" if above else "top", "size": 9.5, "color": colour, "annotation_clip": False}
    axes.annotate(text, (1, height), (4, 0), ("axes fraction", "data"), "offset points", **look)


def _keyframes(axes: Axes, curves: Curves, num_frames: int) -> None:
    axes.step(curves.steps[:, 0], curves.steps[:, 3], where="post", color=BLUE)
    axes.axhline(num_frames, color="#8a8a8a", linestyle=(0, (1, 2)), linewidth=1)
    where = ("axes fraction", "data")
    axes.annotate("every frame", (1, num_frames), (0, -2), where, "offset points", ha="right", va="top", size=9.5)
    axes.set_ylim(0, num_frames * 1.06)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _over_iterations(axes, curves, "key-frames per video")


def _insertions(axes: Axes, curves: Curves, num_frames: int) -> None:
    last = curves.last_iteration + 1
    edges = (np.linspace(0, last, 1 + int(min(50, last))), np.arange(num_frames + 1) - 0.5)
    counts = np.histogram2d(curves.insertions[:, 0], curves.insertions[:, 1], bins=edges)[0].T
    image = axes.imshow(
        np.ma.masked_equal(counts, 0),
        aspect="auto",
        origin="lower",
        extent=(0, last, -0.5, num_frames - 0.5),
        cmap=ListedColormap(colormaps["Blues"](np.linspace(0.2, 0.9, 128))),
        vmin=0,
        vmax=max(1, counts.max()),
        interpolation="none",
    )
    axes.grid(False)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    figure = axes.get_figure()
    if counts.max() > 1 and figure is not None:
        figure.colorbar(image, ax=axes, pad=0.03, ticks=MaxNLocator(integer=True, nbins=5))
    _over_iterations(axes, curves, "frame")


def _cosines(axes: Axes, curves: Curves) -> None:
    x, quantiles = curves.cosines[:, 0], curves.cosines[:, 1:]
    axes.fill_between(x, quantiles[:, 1], quantiles[:, 5], color=BLUE, alpha=0.14, linewidth=0)
    axes.fill_between(x, quantiles[:, 2], quantiles[:, 4], color=BLUE, alpha=0.28, linewidth=0)
    axes.plot(x, quantiles[:, 3], color=BLUE, marker="." if len(x) < 10 else "")
    axes.axhline(0, color=BLACK, linewidth=0.7)
    _over_iterations(axes, curves, "cosine")


def _over_iterations(axes: Axes, curves: Curves, quantity: str) -> None:
    axes.set_xlim(0, max(1.0, curves.last_iteration))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_xlabel("iteration")
    axes.set_ylabel(quantity)
