"""Plots of scores against costs as SVG pictures: the same numbers give the same bytes."""

import base64
import io
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from prism.artifacts.estimates import Sample
from prism.artifacts.results import HEADINGS
from prism.reports.rows import Row
from prism.reports.text import Picture, significant

# Okabe and Ito's colours, distinct with every common kind of colour blindness; yellow is too pale for marks.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
GREY, BLACK = "#7a7a7a", "#222222"
GLYPHS = {"o": "●○", "s": "■□", "D": "◆◇", "^": "▲△", "v": "▼▽", "*": "★☆"}
"""By marker of matplotlib: the characters that show it filled and hollow in text; the star marks a ceiling."""
MARKERS = "osD^v"
STYLE: Any = {
    "svg.hashsalt": "prism",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#d9d6cf",
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
        """The mark of the row with an index `rank`; 60 marks differ."""
        # 5 markers and 6 colours have no common factor, so 30 filled marks differ, and then 30 hollow ones.
        return cls(MARKERS[rank % len(MARKERS)], COLOURS[rank % len(COLOURS)], (rank // 30) % 2 == 0)

    @property
    def glyph(self) -> str:
        """The mark as a character, for the page."""
        return GLYPHS[self.marker][not self.filled]


def marks_of(rows: Sequence[Row]) -> list[Mark]:
    """A mark for each row: hollow and grey for a floor, a black star for a ceiling."""
    marks, ranks = list[Mark](), Counter[str]()
    for row in rows:
        rank = ranks[row.role]
        ranks[row.role] += 1
        mark = Mark.of_rank(rank)
        if row.role:
            mark = Mark(mark.marker, GREY, False) if row.role == "floor" else Mark("*", BLACK, rank % 2 == 0)
        marks.append(mark)
    return marks


@dataclass(frozen=True)
class Curve:
    """Scores of one method at several costs, dashed where its mark is hollow.

    Attributes:
        points: (cost, score, error bar), the last two in percent; an error bar of 0 is not drawn.
        name: name in the legend; empty for none.
    """

    points: Sequence[tuple[float, float, float]]
    mark: Mark
    name: str = ""


def plot_of_rows(rows: Sequence[Row]) -> Picture:
    """Plot of comparable rows: leading score against bytes on disk, with error bars, chance and ceiling."""
    metric = rows[0].first.metrics[0]
    levels = [("chance", 100 * rows[0].first.data.chance[metric])]
    levels += [("full", 100 * row.sample.mean) for row in rows if row.role == "ceiling"]
    points = [point_of(row.sample, row.mean(lambda one: one.subject.num_bytes / 2**20)) for row in rows]
    curves = [Curve([point], mark) for point, mark in zip(points, marks_of(rows), strict=True)]
    caption = "Accuracy against bytes on disk; bars are standard errors."
    return score_plot(curves, "on disk (MiB)", f"{HEADINGS[metric]} accuracy", caption, levels)


def point_of(sample: Sample, cost: float) -> tuple[float, float, float]:
    return cost, 100 * sample.mean, 100 * (sample.spread or 0.0)


def score_plot(
    curves: Sequence[Curve], cost: str, score: str, caption: str, levels: Sequence[tuple[str, float]] = ()
) -> Picture:
    """Scores in percent against a cost on a logarithmic axis, with named levels and a legend of named curves."""
    points, has_legend = [point for curve in curves for point in curve.points], any(curve.name for curve in curves)
    size, text = (7.0, 3.8) if has_legend else (4.5, 3.2), io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(size, layout="constrained")
        axes = figure.add_subplot(xlabel=cost, ylabel=f"{score} (%)", xscale="log")
        for name, height in levels:
            axes.axhline(height, color="#8a8a8a", linestyle=":")
            # Names on different sides of their lines stay legible where a ceiling is close to chance.
            side = "top" if name == "chance" else "bottom"
            axes.annotate(name, (1, height), (3, 0), ("axes fraction", "data"), "offset points", va=side)
        for curve in curves:
            # Marks of equal cost overlap; transparent and of different shapes, all of them stay visible.
            mark, look = curve.mark, dict[str, Any](alpha=0.7, capsize=2.5, markersize=8, label=curve.name or "_")
            look |= {"markerfacecolor": mark.colour if mark.filled else "none", "color": mark.colour}
            # Scores at one cost have no order, so no line joins them.
            is_line = len({at for at, *_ in curve.points}) == len(curve.points)
            line = ("-" if mark.filled else "--") if is_line else "none"
            costs, means, deviations = zip(*curve.points, strict=True)
            axes.errorbar(costs, means, deviations, marker=mark.marker, linestyle=line, **look)
        highest = max([mean + std for _, mean, std in points] + [height for _, height in levels])
        # Whole decades, so that even close costs lie between two labelled ticks.
        low = math.floor(math.log10(min(at for at, *_ in points) / 1.25))
        high = max(low + 1, math.ceil(math.log10(max(at for at, *_ in points) * 1.25)))
        axes.set(xlim=(10.0**low, 10.0**high), ylim=(0, max(1, min(104, 1.12 * highest))))
        axes.xaxis.set_major_formatter(lambda value, _: significant(value))
        axes.minorticks_off()
        if has_legend:
            axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    encoded = base64.b64encode(text.getvalue().encode()).decode()
    alt = f"{score.capitalize()} of {len(curves)} curves against {cost}; the numbers are in the table above."
    width, height = (round(100 * side) for side in size)
    return Picture(f"data:image/svg+xml;base64,{encoded}", alt, caption, width, height)
