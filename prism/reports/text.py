"""Texts of numbers and names, and tables for the page, as Markdown and on a terminal."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from prism.machine.text_io import printable

Item = TypeVar("Item")

LONGEST = 40  # Characters of a cell on a terminal.


def in_bytes(count: int) -> str:
    """A number of bytes in the largest binary unit that leaves at least one."""
    power = min(3, max(0, count.bit_length() - 1) // 10)
    return f"{significant(count / 1024**power)} {('B', 'KiB', 'MiB', 'GiB')[power]}"


def significant(value: float) -> str:
    """Three significant digits, without an exponent for large values."""
    text = f"{value:.3g}"
    # The rounded value decides: 999.6 becomes 1,000.
    return f"{value:,.0f}" if abs(float(text)) >= 1000 else text


def in_seconds(seconds: float) -> str:
    """A duration below two minutes as `12.3 s`, a longer one as `1:02:03`."""
    return f"{significant(seconds)} s" if seconds < 120 else str(timedelta(seconds=round(seconds)))


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 video`, `2 videos`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


@dataclass(frozen=True)
class Column:
    """A column: heading, function of a row's text, whether the texts are numbers, and whether they may wrap."""

    heading: str
    text: Callable[[Any], str]
    is_number: bool = True
    wraps: bool = False


@dataclass(frozen=True)
class Picture:
    """A picture for the page: data URI, alternative text, caption, and width and height in pixels."""

    source: str
    alt: str
    caption: str
    width: int
    height: int


@dataclass(frozen=True)
class Sheet:
    """A table with notes that a reader needs before comparing rows, and plots of its numbers.

    Attributes:
        marks: the `Mark` of each row in the plots; empty without plots of rows.
        conclusion: a sentence on the best row, or empty.
    """

    title: str
    notes: Sequence[str]
    columns: Sequence[Column]
    rows: Sequence[Any]
    plots: Sequence[Picture] = ()
    marks: Sequence[Any] = ()
    conclusion: str = ""


def markdown(sheet: Sheet) -> str:
    lines = [
        [_for_markdown(column.heading) for column in sheet.columns],
        ["---:" if column.is_number else "---" for column in sheet.columns],
        *([_for_markdown(column.text(row)) for column in sheet.columns] for row in sheet.rows),
    ]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    notes = "".join(f"- {_for_markdown(note)}\n" for note in sheet.notes)
    return f"# {_for_markdown(sheet.title)}\n\n{table}\n{notes}"


def _for_markdown(text: str) -> str:
    escaped = "".join(f"\\{c}" if c in "\\`*_{}[]|#!~$" else c for c in printable(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def terminal_table(columns: Sequence[Column], rows: Sequence[Any], notes: Sequence[str]) -> Table:
    """Rows as a table for a terminal, with notes below it."""

    def short(text: str) -> Text:
        # rich reads markup in a plain str, and names chosen by users could contain it.
        shown = printable(text)
        return Text(shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…")

    caption = Text("\n".join(map(printable, notes)), "table.caption")
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=caption, caption_justify="left")
    for column in columns:
        side = "right" if column.is_number else "left"
        table.add_column(short(column.heading), justify=side, no_wrap=column.is_number and not column.wraps)
    for row in rows:
        table.add_row(*(short(column.text(row)) for column in columns))
    return table


def grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    """The items grouped by key, in the order of each key's first item."""
    found: dict[Hashable, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())
