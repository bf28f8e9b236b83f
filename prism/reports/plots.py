"""Plots of scores against costs, as SVG pictures without names of users: the same numbers give the same bytes."""

import base64
import io
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from prism.artifacts.results import HEADINGS, Result
from prism.reports.tables import Picture, grouped, role_of, variant_of
from prism.reports.text import significant

# Okabe and Ito's colours, told apart with every common kind of colour blindness; yellow is too pale for marks.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
BLUE, RED = COLOURS[:2]
GREY, BLACK = "#7a7a7a", "#222222"
MARKERS = "osD^vpX"
STYLE: Any = {
    "svg.hashsalt": "prism",
    "font.size": 10.5,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#d9d6cf",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), "#8a8a8a"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), "#444444"),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
}
WIDE, LARGE, SMALL = (7.0, 3.8), (4.5, 3.2), (3.6, 2.9)
"""Width and height in inches."""


def picture(draw: Callable[[Axes], None], words: tuple[str, str], size: tuple[float, float]) -> Picture:
    """A picture of one pair of axes, with a description and a caption; its size is in inches."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(size, layout="constrained")
        draw(figure.add_subplot())
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    encoded = base64.b64encode(text.getvalue().encode()).decode()
    width, height = (round(100 * side) for side in size)
    return Picture(f"data:image/svg+xml;base64,{encoded}", *words, width, height)


@dataclass(frozen=True)
class Mark:
    """A marker of matplotlib in a colour, filled or hollow."""

    marker: str
    colour: str
    filled: bool = True

    @property
    def svg_path(self) -> str:
        """Its outline in a square from −6 to 6, for the page."""
        style = MarkerStyle(self.marker)
        path = style.get_path().transformed(style.get_transform())
        letters = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}
        parts = []
        for points, code in path.iter_segments(simplify=False):
            numbers = " ".join(f"{sign * 9 * value:.2f}" for value, sign in zip(points, (1, -1) * 3, strict=False))
            parts.append(letters[code] + ("" if code == Path.CLOSEPOLY else numbers))
        return "".join(parts)


@dataclass(frozen=True)
class Series:
    """Results that differ only in their budget and their seeds, smallest first."""

    name: str
    role: str
    mark: Mark
    results: tuple[Result, ...]


def series_of(results: Sequence[Result]) -> list[Series]:
    """The series of results that may be compared, each with its own mark, in the order of the rows."""
    curves: list[list[Result]] = []
    for members in grouped(results, variant_of):
        is_curve = len({one.subject.num_videos for one in members}) == len(members)
        # Two rows of one budget are no curve: they stay together only if they share a label, too.
        curves += [members] if is_curve else grouped(members, lambda one: one.label)
    ranks, found = Counter[str](), []
    for members in sorted(curves, key=lambda members: results.index(members[0])):
        role = role_of(members[0])
        name = " / ".join(sorted({one.label for one in members}))
        ordered = sorted(members, key=lambda one: (one.subject.num_videos, one.subject.num_bytes))
        found.append(Series(name, role, _mark(role, ranks[role]), tuple(ordered)))
        ranks[role] += 1
    return found


def _mark(role: str, rank: int) -> Mark:
    if role == "ceiling":
        return Mark("*", BLACK, rank % 2 == 0)
    marker = MARKERS[rank % len(MARKERS)]
    if role == "floor":
        return Mark(marker, GREY, False)
    # Both cycles have lengths without a common factor: 42 series look different, then filled turns hollow.
    return Mark(marker, COLOURS[rank % len(COLOURS)], (rank // 42) % 2 == 0)


SCORE_NAMES = {"classification": "accuracy", "retrieval": "recall"}
COSTS: tuple[tuple[str, str, Callable[[Result], float]], ...] = (
    ("on disk (MiB)", "bytes on disk", lambda one: one.subject.num_bytes / 2**20),
    ("stored frames as float32 (MiB)", "the paper's count", lambda one: one.subject.float32_bytes / 2**20),
    ("clips trained on, over all epochs", "clips trained on", lambda one: max(one.shown, 1)),
)


def score_plots(series: Sequence[Series]) -> list[Picture]:
    """The leading score of results that may be compared against each cost, with error bars, chance and ceiling."""
    first = series[0].results[0]
    name = SCORE_NAMES[first.task]
    score = f"{HEADINGS[first.metrics[0]]} {name}"
    plots = []
    for axis, caption, cost in COSTS:
        alt = f"{score.capitalize()} of {len(series)} series against {axis}; the numbers are in the table above."
        words = (alt, f"{name.capitalize()} against {caption}.")
        plots.append(picture(partial(_scores, series=series, axis=axis, cost=cost, score=score), words, LARGE))
    return plots


def _scores(axes: Axes, series: Sequence[Series], axis: str, cost: Callable[[Result], float], score: str) -> None:
    results = [result for one in series for result in one.results]
    chance = results[0].data.chance[results[0].metrics[0]]
    highest = max(chance, *(mean + (std or 0) for mean, std, _ in (one.summary() for one in results)))
    axes.set_ylim(0, min(104, 112 * highest))
    _cost_axis(axes, [cost(one) for one in results], axis, score)
    _level(axes, 100 * chance, "chance", (0, (1, 2)), below=True)
    for one in results:
        if role_of(one) == "ceiling":
            _level(axes, 100 * one.summary()[0], "full", (0, (5, 3)), below=False)
    for one in series:
        points = []
        for result in one.results:
            mean, std, _ = result.summary()
            points.append((cost(result), 100 * mean, 100 * (std or 0)))
        # Scores of one cost have no order that a line could follow.
        is_joined = len({place for place, _, _ in points}) == len(points)
        _draw_points(axes, points, one.mark, "_", "-" if is_joined else None)


Dashes = str | tuple[int, tuple[int, ...]]
Point = tuple[float, float, float]
"""A cost, the score at it and its deviation in percent (0: not known)."""


@dataclass(frozen=True)
class Trade:
    """The scores of one method at several costs, as printed in the paper or as measured, joined by a line."""

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
    for trade in sorted(trades, key=lambda trade: not trade.is_printed):
        rank = names.index(trade.name)
        mark = Mark(MARKERS[rank % len(MARKERS)], COLOURS[rank % len(COLOURS)], not trade.is_printed)
        label = "_" if trade.is_printed and len(trades) > len(names) else trade.name
        _draw_points(axes, trade.points, mark, label, (0, (3, 2)) if trade.is_printed else "-")
    axes.set_ylim(0, 1.05 * max(mean + std for trade in trades for _, mean, std in trade.points))
    _cost_axis(axes, [place for trade in trades for place, _, _ in trade.points], cost, score)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _level(axes: Axes, height: float, name: str, dashes: Dashes, below: bool) -> None:
    axes.axhline(height, color="#8a8a8a", linestyle=dashes, linewidth=0.9)
    place = {"xytext": (3, 0), "textcoords": "offset points", "va": "top" if below else "bottom", "size": 9}
    axes.annotate(name, (1, height), xycoords=("axes fraction", "data"), annotation_clip=False, **place)


def _draw_points(axes: Axes, points: Sequence[Point], mark: Mark, label: str, dashes: Dashes | None) -> None:
    """Scores with their deviations, and the line that joins them (or none)."""
    costs, means, deviations = zip(*points, strict=True)
    size = 11 if mark.marker == "*" else 7
    look: Any = {"markersize": size, "linewidth": 1.1, "elinewidth": 1.1, "capsize": 2.5}
    look |= {"fmt": mark.marker, "linestyle": dashes or "none", "color": mark.colour, "label": label}
    # Marks of equal cost cover each other: half transparent, with shapes of their own, all of them are seen.
    if mark.filled:
        look |= {"markerfacecolor": mark.colour, "markeredgecolor": "white", "markeredgewidth": 0.7, "alpha": 0.7}
    else:
        look |= {"markerfacecolor": "none", "markeredgecolor": mark.colour, "markeredgewidth": 1.3}
    axes.errorbar(costs, means, deviations, zorder=3, **look)


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
