"""Plots of scores against what they cost.

No name of a user enters a picture, but plain ones of sets.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from prism.artifacts.results import HEADINGS
from prism.reports.pictures import LARGE, WIDE, picture
from prism.reports.rows import Row
from prism.reports.series import COLOURS, CYCLE, SHAPES, Mark, Series
from prism.reports.sheet import Picture
from prism.reports.text import significant

MARKERS = dict(zip(SHAPES, "osD^vpX*", strict=True))


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
        plots.append(picture(partial(_scores, series=series, budget=budget, score=score), words, LARGE))
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
    return picture(partial(_trades, trades=trades, cost=cost, score=score), words, WIDE)


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
