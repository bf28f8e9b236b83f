"""Plots as SVG pictures: scores against what they cost, orders of candidates, and how a set came to be.

The same numbers give the same bytes. No name of a user enters a picture, but plain ones of sets.
"""

import base64
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from prism.artifacts.results import HEADINGS
from prism.reports.curves import Curves, binned
from prism.reports.rows import Row
from prism.reports.series import BLACK, COLOURS, CYCLE, SHAPES, Mark, Series
from prism.reports.sheet import Picture
from prism.reports.text import significant

BLUE, RED = COLOURS[0], COLOURS[1]
INK, FAINT = "#444444", "#d9d6cf"
MARKERS = dict(zip(SHAPES, "osD^vpX*", strict=True))
STYLE: Any = {
    "svg.hashsalt": "prism",
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#8a8a8a",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": "#8a8a8a",
    "ytick.color": "#8a8a8a",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.5,
}
WIDE, LARGE, SMALL = (7.0, 3.8), (4.5, 3.2), (3.6, 2.9)
"""Width and height in inches."""


@dataclass(frozen=True)
class Budget:
    """A cost that scores are plotted against."""

    axis: str
    of: Callable[[Row], float]
    caption: str


SCORE_NAMES = {"classification": "Accuracy", "retrieval": "Recall"}
BUDGETS = (
    Budget("on disk (MiB)", lambda row: row.num_bytes / 2**20, "bytes on disk"),
    Budget("stored frames as float32 (MiB)", lambda row: row.float32_mib, "the paper's count"),
    Budget("clips trained on, over all epochs", lambda row: max(row.shown, 1), "clips trained on"),
)


def score_plots(series: Sequence[Series]) -> list[Picture]:
    """The leading score against each budget, with error bars, chance and the ceiling.

    Args:
        series: of one group of rows.
    """
    first = series[0].rows[0]
    name = SCORE_NAMES[first.task]
    score = f"{HEADINGS[first.metric]} {name.lower()}"
    plots = []
    for budget in BUDGETS:
        alt = f"{score.capitalize()} of {len(series)} series against {budget.axis}; "
        words = (f"{alt}the numbers are in the table above.", f"{name} against {budget.caption}.")
        plots.append(_picture(partial(_scores, series=series, budget=budget, score=score), words, LARGE))
    return plots


def _scores(axes: Axes, series: Sequence[Series], budget: Budget, score: str) -> None:
    rows = [row for one in series for row in one.rows]
    costs = [budget.of(row) for row in rows]
    chance = rows[0].chance[rows[0].metric]
    highest = max([chance, *(row.lead[0] + row.lead[1] for row in rows)])
    axes.set_ylim(0, min(104, 112 * highest))
    _cost_axis(axes, costs, budget.axis, score)
    _level(axes, 100 * chance, "chance", (0, (1, 2)), below=True)
    for row in rows:
        if row.role == "ceiling":
            _level(axes, 100 * row.lead[0], "full", (0, (5, 3)), below=False)
    dodges = iter(_dodges(costs))
    for one in series:
        points = [(budget.of(row), 100 * row.lead[0], 100 * row.lead[1]) for row in one.rows]
        # Scores of one cost have no order that a line could follow.
        is_joined = len({cost for cost, _, _ in points}) == len(points)
        _draw_points(axes, points, one.mark, dodges, "_", "-" if is_joined else None)


Dashes = str | tuple[int, tuple[int, ...]]
Point = tuple[float, float, float]
"""A cost, the score at it and its deviation in percent (0: not known)."""


@dataclass(frozen=True)
class Trade:
    """The scores of one method at several costs.

    Attributes:
        name: a text of ours, not of a user.
        is_printed: whether the paper says so; else we measured it.
        points: in the order in which a line joins them.
    """

    name: str
    is_printed: bool
    points: tuple[Point, ...]


def trade_plot(trades: Sequence[Trade], cost: str, score: str) -> Picture:
    """Scores against a cost (paper, figure 3): filled and solid as measured, hollow and dashed as printed."""
    printed = "; hollow and dashed: the paper's" if any(trade.is_printed for trade in trades) else ""
    words = (
        f"{score} against {cost}; the numbers are in the table above.",
        f"{score} against {cost}. Filled: ours{printed}.",
    )
    return _picture(partial(_trades, trades=trades, cost=cost, score=score), words, WIDE)


def _trades(axes: Axes, trades: Sequence[Trade], cost: str, score: str) -> None:
    names = list(dict.fromkeys(trade.name for trade in trades))
    marks = {name: Mark(CYCLE[i % len(CYCLE)], COLOURS[i % len(COLOURS)]) for i, name in enumerate(names)}
    ordered = sorted(trades, key=lambda trade: not trade.is_printed)
    dodges = iter(_dodges([cost for trade in ordered for cost, _, _ in trade.points]))
    for trade in ordered:
        mark = replace(marks[trade.name], filled=not trade.is_printed)
        label = "_" if trade.is_printed and len(trades) > len(names) else trade.name
        _draw_points(axes, trade.points, mark, dodges, label, (0, (3, 2)) if trade.is_printed else "-")
    axes.set_ylim(0, 1.05 * max(mean + std for trade in trades for _, mean, std in trade.points))
    _cost_axis(axes, [cost for trade in trades for cost, _, _ in trade.points], cost, score)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _level(axes: Axes, height: float, name: str, dashes: Dashes, below: bool) -> None:
    axes.axhline(height, color="#8a8a8a", linestyle=dashes, linewidth=0.9)
    place = {"xytext": (3, 0), "textcoords": "offset points", "va": "top" if below else "bottom", "size": 9}
    axes.annotate(name, (1, height), xycoords=("axes fraction", "data"), annotation_clip=False, **place)


def _dodges(costs: Sequence[float], near: float = 1.02, apart: float = 6.0) -> list[float]:
    """Horizontal offsets in points, so that error bars of almost equal cost stand side by side."""
    order = sorted(range(len(costs)), key=lambda i: (costs[i], i))
    clusters: list[list[int]] = []
    for i in order:
        if clusters and costs[i] <= near * costs[clusters[-1][0]]:
            clusters[-1].append(i)
        else:
            clusters.append([i])
    offsets = [0.0] * len(costs)
    for cluster in clusters:
        for rank, i in enumerate(cluster):
            offsets[i] = apart * (rank - (len(cluster) - 1) / 2)
    return offsets


def _draw_points(
    axes: Axes, points: Sequence[Point], mark: Mark, dodges: Iterator[float], label: str, dashes: Dashes | None
) -> None:
    """Scores with their deviations, each moved aside by the next dodge, and the line that joins them (or none)."""
    scale = axes.figure.dpi_scale_trans
    asides = [axes.transData + ScaledTranslation(next(dodges) / 72, 0, scale) for _ in points]
    line = {"arrowstyle": "-", "shrinkA": 0, "shrinkB": 0}
    line |= {"color": mark.colour, "linestyle": dashes, "linewidth": 1.1}
    for (start, end), (here, there) in zip(pairwise(points), pairwise(asides), strict=True):
        if dashes is not None:
            axes.annotate("", end[:2], start[:2], xycoords=there, textcoords=here, arrowprops=line, zorder=2)
    look: Any = {"color": mark.colour, "elinewidth": 1.1, "capsize": 2.5, "zorder": 3}
    look |= {"fmt": MARKERS[mark.shape], "markersize": 11 if mark.shape == "star" else 7}
    if mark.filled:
        look |= {"markerfacecolor": mark.colour, "markeredgecolor": "white", "markeredgewidth": 0.7}
    else:
        look |= {"markerfacecolor": "white", "markeredgecolor": mark.colour, "markeredgewidth": 1.3}
    for (cost, mean, std), aside in zip(points, asides, strict=True):
        axes.errorbar([cost], [mean], [std], transform=aside, label=label, **look)
        label = "_"


def _cost_axis(axes: Axes, values: Sequence[float], cost: str, score: str) -> None:
    # Whole decades, so that even neighbouring budgets stand between two labelled ticks.
    low = math.floor(math.log10(min(values) / 1.25))
    high = max(low + 1, math.ceil(math.log10(max(values) * 1.25)))
    axes.set_xscale("log")
    axes.set_xlim(10.0**low, 10.0**high)
    step = 1 + (high - low) // 6
    axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in range(low, high + 1, step)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(cost)
    axes.set_ylabel(f"{score} (%)")


def history_plots(curves: Curves, num_frames: int) -> list[Picture]:
    """How a set came to be: loss, key-frames, insertions, cosines; what was not recorded is left out."""
    plots = []
    if len(curves.steps):
        alt = "Loss over iterations, on a logarithmic axis, and the between-class energy"
        plots.append(_picture(partial(_loss, curves=curves), (alt, "Loss and between-class energy"), SMALL))
        words = ("Mean key-frames per video over iterations", "Key-frames per video, on average")
        plots.append(_picture(partial(_keyframes, curves=curves, num_frames=num_frames), words, SMALL))
    if len(curves.unseen):
        words = (
            f"alignment ends at {curves.unseen[-1, 1]:.2f}",
            "On networks that the videos were not trained on",
        )
        plots.append(_picture(partial(_unseen, curves=curves), words, SMALL))
    if len(curves.insertions):
        alt = "Heat map of inserted frames over iterations"
        words = (alt, "Insertions: which frame, when (colour: how many)")
        plots.append(_picture(partial(_insertions, curves=curves, num_frames=num_frames), words, SMALL))
    if len(curves.cosines):
        alt = "Quantiles of the candidates' cosines over iterations"
        words = (alt, "Cosines of the candidates with their neighbours")
        plots.append(_picture(partial(_cosines, curves=curves), words, SMALL))
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
    parts = (curves.steps, curves.cosines, curves.insertions)
    # A set of no iterations has none of them.
    return max((float(part[:, 0].max()) for part in parts if len(part)), default=0.0)


def _over_iterations(axes: Axes, curves: Curves, quantity: str) -> None:
    axes.set_xlim(0, max(1.0, _last_iteration(curves)))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_xlabel("iteration")
    axes.set_ylabel(quantity)


@dataclass(frozen=True)
class Panel:
    """The candidates of a ranking on sets of one kind.

    Attributes:
        name: of the kind; it is left out where it has other letters than plain ones.
        title: what the panel says.
        full, scores: for each candidate its score on all clips and the mean over the sets, in percent.
        deviations: the deviations over the sets, in percent.
        networks: the model of each candidate.
        picked: the candidates that a set puts first.
    """

    name: str
    title: str
    full: tuple[float, ...]
    scores: tuple[float, ...]
    deviations: tuple[float, ...]
    networks: tuple[str, ...]
    picked: frozenset[int]


ACROSS = 3
"""Panels side by side at most, so that their text can be read on a page."""


def ranking_plot(panels: Sequence[Panel], chance: float) -> Picture:
    """The scores of candidates on sets against those on all clips, a panel for each kind of set.

    Args:
        panels: one or more, of the same candidates.
        chance: the score of random guesses, in percent.
    """
    across = ACROSS if len(panels) not in (2, 4) else 2
    rows, columns = -(-len(panels) // across), min(across, len(panels))
    size = (max(2.75 * columns, 3.6), 2.75 * rows + 0.5)
    alt = f"Top-1 of {len(panels[0].full)} candidates on {len(panels)} kinds of sets against that on all clips; "
    words = (f"{alt}the numbers are in the tables.", "A ring: the pick of a set. Dotted: chance. Bars: over sets.")
    return _pictured(partial(_rankings, panels=panels, chance=chance, shape=(rows, columns)), words, size)


def _rankings(figure: Figure, panels: Sequence[Panel], chance: float, shape: tuple[int, int]) -> None:
    top = 1.08 * max(
        max(panel.scores[i] + panel.deviations[i] for i in range(len(panel.full))) for panel in panels
    )
    low, high = min(*panels[0].full, chance), max(panels[0].full)
    margin = 0.06 * max(high - low, 1)
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(*shape, number + 1)
        _candidates(axes, panel)
        for line in (axes.axhline, axes.axvline):
            line(chance, color="#8a8a8a", linestyle=(0, (1, 2)), linewidth=0.9)
        axes.set_xlim(low - margin, high + margin)
        axes.set_ylim(0, min(104, max(top, 1.3 * chance)))
        plain = panel.name.isascii() and panel.name.replace("-", "").replace(" ", "").isalnum()
        name = panel.name if plain and len(panel.name) <= 20 else f"kind {number + 1}"
        axes.set_title(f"{name}\n{panel.title}", fontsize=10.5, loc="left")
        axes.set_xlabel("on all clips, top-1 %")
        if number % shape[1] == 0:
            axes.set_ylabel("on the set, top-1 %")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9.5, loc="outside lower center", ncols=len(labels))


def _candidates(axes: Axes, panel: Panel) -> None:
    for rank, network in enumerate(dict.fromkeys(panel.networks)):
        places = [i for i, one in enumerate(panel.networks) if one == network]
        colour, marker = COLOURS[rank % len(COLOURS)], MARKERS[CYCLE[rank % len(CYCLE)]]
        x, y, bars = ([values[i] for i in places] for values in (panel.full, panel.scores, panel.deviations))
        look: Any = {"fmt": marker, "markersize": 6, "markeredgecolor": "white", "markeredgewidth": 0.7}
        axes.errorbar(x, y, bars, color=colour, elinewidth=0.8, label=network, zorder=3, **look)
    for i in sorted(panel.picked):
        ring: Any = {"marker": "o", "markersize": 12, "markerfacecolor": "none", "markeredgewidth": 1.1}
        axes.plot([panel.full[i]], [panel.scores[i]], color=BLACK, zorder=4, **ring)


def _picture(draw: Callable[[Axes], None], words: tuple[str, str], size: tuple[float, float]) -> Picture:
    return _pictured(lambda figure: draw(figure.add_subplot()), words, size)


def _pictured(draw: Callable[[Figure], None], words: tuple[str, str], size: tuple[float, float]) -> Picture:
    with matplotlib.rc_context(STYLE):
        figure = Figure(size, layout="constrained")
        draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    encoded = base64.b64encode(text.getvalue().encode()).decode()
    width, height = (round(100 * side) for side in size)
    return Picture(f"data:image/svg+xml;base64,{encoded}", *words, width, height)
