"""Plots of how a set came to be: what its telemetry says of every iteration."""

import math
from functools import partial

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from prism.reports.curves import Curves, binned
from prism.reports.pictures import BLUE, RED, SMALL, picture
from prism.reports.series import BLACK
from prism.reports.sheet import Picture


def history_plots(curves: Curves, num_frames: int) -> list[Picture]:
    """How a set came to be: loss, key-frames, insertions, cosines; what was not recorded is left out."""
    plots = []
    if len(curves.steps):
        alt = "Loss over iterations, on a logarithmic axis, and the between-class energy"
        plots.append(picture(partial(_loss, curves=curves), (alt, "Loss and between-class energy"), SMALL))
        words = ("Mean key-frames per video over iterations", "Key-frames per video, on average")
        plots.append(picture(partial(_keyframes, curves=curves, num_frames=num_frames), words, SMALL))
    if len(curves.unseen):
        words = (
            f"alignment ends at {curves.unseen[-1, 1]:.2f}",
            "On networks that the videos were not trained on",
        )
        plots.append(picture(partial(_unseen, curves=curves), words, SMALL))
    if len(curves.insertions):
        alt = "Heat map of inserted frames over iterations"
        words = (alt, "Insertions: which frame, when (colour: how many)")
        plots.append(picture(partial(_insertions, curves=curves, num_frames=num_frames), words, SMALL))
    if len(curves.cosines):
        alt = "Quantiles of the candidates' cosines over iterations"
        words = (alt, "Cosines of the candidates with their neighbours")
        plots.append(picture(partial(_cosines, curves=curves), words, SMALL))
    return plots


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
    last = _last_iteration(curves) + 1
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


def _last_iteration(curves: Curves) -> float:
    parts = (curves.steps, curves.cosines, curves.insertions, curves.unseen)
    # A set of no iterations has none of them.
    return max((float(part[:, 0].max()) for part in parts if len(part)), default=0.0)


def _over_iterations(axes: Axes, curves: Curves, quantity: str) -> None:
    axes.set_xlim(0, max(1.0, _last_iteration(curves)))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_xlabel("iteration")
    axes.set_ylabel(quantity)
