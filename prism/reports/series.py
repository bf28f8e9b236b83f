"""Series: the rows of one method along its budgets, and the mark that stands for it in table and plots."""

from collections.abc import Sequence
from dataclasses import dataclass

from prism.reports.rows import Row, grouped

# Okabe and Ito's colours, told apart with every common kind of colour blindness; yellow is too pale for marks.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
SHAPES = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
    "square": "M-3.8 -3.8L3.8 -3.8L3.8 3.8L-3.8 3.8Z",
    "diamond": "M0 -5L5 0L0 5L-5 0Z",
    "triangle": "M0 -4.6L4.6 3.8L-4.6 3.8Z",
    "inverted": "M0 4.6L4.6 -3.8L-4.6 -3.8Z",
    "pentagon": "M0 -4.8L4.6 -1.5L2.8 3.9L-2.8 3.9L-4.6 -1.5Z",
    "cross": "M-4.5 -2.2L-2.2 -4.5L0 -2.2L2.2 -4.5L4.5 -2.2L2.2 0L4.5 2.2L2.2 4.5L0 2.2L-2.2 4.5L-4.5 2.2L-2.2 0Z",
    "star": "M0 -5.6L1.3 -1.8L5.3 -1.7L2.1 0.7L3.3 4.5L0 2.2L-3.3 4.5L-2.1 0.7L-5.3 -1.7L-1.3 -1.8Z",
}
"""The marks as SVG paths in a square from −6 to 6."""
CYCLE = tuple(SHAPES)[:-1]
GREY, BLACK = "#7a7a7a", "#222222"


@dataclass(frozen=True)
class Mark:
    """A shape (of `SHAPES`) in a colour, filled or hollow."""

    shape: str
    colour: str
    filled: bool = True


@dataclass(frozen=True)
class Series:
    """Rows that differ only in their budget and their seeds, smallest first."""

    name: str
    role: str
    mark: Mark
    rows: tuple[Row, ...]


def series_of(rows: Sequence[Row]) -> list[Series]:
    """The series of a group of rows, each with its own mark, in the order of the rows."""
    ranks: dict[str, int] = {}
    curves: list[list[Row]] = []
    for members in grouped(rows, lambda row: row.variant):
        is_curve = len({row.clips for row in members}) == len(members)
        # Two rows of one budget are no curve: they stay together only if they share a label, too.
        curves += [members] if is_curve else grouped(members, lambda row: row.label)
    found = []
    for members in sorted(curves, key=lambda members: rows.index(members[0])):
        role = members[0].role
        ranks[role] = ranks.get(role, -1) + 1
        name = " / ".join(sorted({row.label for row in members}))
        ordered = tuple(sorted(members, key=lambda row: (row.clips, row.num_bytes)))
        found.append(Series(name, role, _mark(role, ranks[role]), ordered))
    return found


def _mark(role: str, rank: int) -> Mark:
    if role == "ceiling":
        return Mark("star", BLACK, rank % 2 == 0)
    if role == "floor":
        return Mark(CYCLE[rank % len(CYCLE)], GREY, False)
    # Both cycles have lengths without a common factor: 42 series look different, then filled turns hollow.
    return Mark(CYCLE[rank % len(CYCLE)], COLOURS[rank % len(COLOURS)], (rank // 42) % 2 == 0)
