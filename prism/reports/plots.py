"""Plots of scores against costs, as SVG pictures without names of users: the same numbers give the same bytes."""

import base64
import io
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from prism.artifacts.estimates import Sample
from prism.artifacts.results import HEADINGS, Result
from prism.reports.rows import Row
from prism.reports.text import Picture, significant

# Okabe and Ito's colours, told apart with every common kind of colour blindness; yellow is too pale for marks.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
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
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), "#8a8a8a"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), "#444444"),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
}


@dataclass(frozen=True)
class Mark:
    """A marker of matplotlib in a colour, filled or hollow."""

    marker: str
    colour: str
    filled: bool = True

    @classmethod
    def of_rank(cls, rank: int) -> "Mark":
        """The mark of a row by its place; 84 of them differ."""
        # Both cycles have lengths without a common factor: 42 marks look different, then filled turns hollow.
        return cls(MARKERS[rank % len(MARKERS)], COLOURS[rank % len(COLOURS)], (rank // 42) % 2 == 0)

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


def marks_of(rows: Sequence[Row]) -> list[Mark]:
    """A mark for each row: hollow and grey for a floor, a black star for a ceiling."""
    ranks, marks = Counter[str](), list[Mark]()
    for row in rows:
        mark, rank = Mark.of_rank(ranks[row.role]), ranks[row.role]
        if row.role:
            mark = Mark(mark.marker, GREY, False) if row.role == "floor" else Mark("*", BLACK, rank % 2 == 0)
        marks.append(mark)
        ranks[row.role] += 1
    return marks


@dataclass(frozen=True)
class Curve:
    """Scores of one method at several costs.

    Attributes:
        points: of each a cost, and the score at it and its deviation in percent (0: not known).
        name: in the legend; empty where it has no place there.
    """

    points: Sequence[tuple[float, float, float]]
    mark: Mark
    name: str = ""
    is_dashed: bool = False


COSTS: tuple[tuple[str, str, Callable[[Result], float]], ...] = (
    ("on disk (MiB)", "bytes on disk", lambda one: one.subject.num_bytes / 2**20),
    ("stored frames as float32 (MiB)", "the paper's count", lambda one: one.subject.float32_bytes / 2**20),
    ("clips trained on, over all epochs", "clips trained on", lambda one: max(one.shown, 1)),
)


def score_plots(rows: Sequence[Row]) -> list[Picture]:
    """The leading score of rows that may be compared against each cost, with error bars, chance and ceiling."""
    metric = rows[0].first.metrics[0]
    levels = [("chance", 100 * rows[0].first.data.chance[metric])]
    levels += [("full", 100 * row.sample.mean) for row in rows if row.role == "ceiling"]
    plots = []
    for axis, against, cost in COSTS:
        marked = zip(rows, marks_of(rows), strict=True)
        curves = [Curve([point_of(row.sample, row.mean(cost))], mark) for row, mark in marked]
        words = f"{HEADINGS[metric]} accuracy", f"Accuracy against {against}."
        plots.append(score_plot(curves, axis, *words, levels))
    return plots


def point_of(sample: Sample, cost: float) -> tuple[float, float, float]:
    """The point of a `Curve` for some scores."""
    return cost, 100 * sample.mean, 100 * (sample.spread or 0.0)


def score_plot(
    curves: Sequence[Curve], cost: str, score: str, caption: str, levels: Sequence[tuple[str, float]] = ()
) -> Picture:
    """Scores in percent against a cost on a logarithmic axis, with named levels and a legend of named curves."""
    has_legend = any(curve.name for curve in curves)
    size = (7.0, 3.8) if has_legend else (4.5, 3.2)
    with matplotlib.rc_context(STYLE):
        figure = Figure(size, layout="constrained")
        axes = figure.add_subplot()
        draw(axes, curves, levels)
        axes.set_xlabel(cost)
        axes.set_ylabel(f"{score} (%)")
        if has_legend:
            axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    encoded = base64.b64encode(text.getvalue().encode()).decode()
    alt = f"{score.capitalize()} of {len(curves)} curves against {cost}; the numbers are in the table above."
    width, height = (round(100 * side) for side in size)
    return Picture(f"data:image/svg+xml;base64,{encoded}", alt, caption, width, height)


def draw(axes: Axes, curves: Sequence[Curve], levels: Sequence[tuple[str, float]]) -> None:
    """The curves with their deviations, and the levels as dotted lines."""
    points = [point for curve in curves for point in curve.points]
    highest = max([mean + std for _, mean, std in points] + [height for _, height in levels])
    axes.set_ylim(0, min(104, 1.12 * highest))
    _logarithmic(axes, [cost for cost, _, _ in points])
    for name, height in levels:
        axes.axhline(height, color="#8a8a8a", linestyle=":", linewidth=0.9)
        axes.annotate(name, (1, height), (3, 0), ("axes fraction", "data"), "offset points", va="center", size=9)
    for curve in curves:
        costs, means, deviations = zip(*curve.points, strict=True)
        # Scores of one cost have no order that a line could follow.
        line = ("--" if curve.is_dashed else "-") if len({*costs}) == len(costs) else "none"
        mark, label = curve.mark, curve.name or "_"
        # Marks of equal cost cover each other: half transparent, with shapes of their own, all of them are seen.
        look: Any = {"markerfacecolor": mark.colour, "markeredgecolor": "white", "alpha": 0.7}
        if not mark.filled:
            look = {"markerfacecolor": "none", "markeredgecolor": mark.colour, "markeredgewidth": 1.3}
        look |= {"markersize": 11 if mark.marker == "*" else 7, "linewidth": 1.1, "capsize": 2.5}
        style: Any = {"fmt": mark.marker, "linestyle": line, "color": mark.colour, "label": label}
        axes.errorbar(costs, means, deviations, zorder=3, **style, **look)


def _logarithmic(axes: Axes, costs: Sequence[float]) -> None:
    # Whole decades, so that even neighbouring budgets stand between two labelled ticks.
    low = math.floor(math.log10(min(costs) / 1.25))
    high = max(low + 1, math.ceil(math.log10(max(costs) * 1.25)))
    axes.set_xscale("log")
    axes.set_xlim(10.0**low, 10.0**high)
    step = 1 + (high - low) // 6
    axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in range(low, high + 1, step)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value)))
    axes.xaxis.set_minor_locator(NullLocator())
