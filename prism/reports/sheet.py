"""Sheets: a table with its title, notes and pictures, and what it is written as: Markdown, on a terminal."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prism.reports.text import printable

if TYPE_CHECKING:
    from rich.table import Table


LONGEST = 40
"""Characters of a cell on a terminal; of longer texts the end is left out."""


@dataclass(frozen=True)
class Column:
    """A column: its heading, a row's text in it, whether that is a number, and one that a terminal may wrap."""

    heading: str
    text: Callable[[Any], str]
    is_number: bool = True
    wraps: bool = False


def label_and_role(one: Any) -> str:
    """The name of a row, or of sets that were made alike, and whether they are the floor or the ceiling."""
    return f"{one.label} ({one.role})" if one.role else one.label


NETWORK = Column("network", lambda one: one.network, False)


@dataclass(frozen=True)
class Picture:
    """A picture for the page: its data URI, what it shows, and what to read from it."""

    source: str
    alt: str
    caption: str
    width: int
    height: int

    @property
    def svg(self) -> bytes:
        """The picture itself."""
        return base64.b64decode(self.source.partition(",")[2])


@dataclass(frozen=True)
class Sheet:
    """A table.

    Attributes:
        notes: what a reader must know before comparing, in sentences.
        plots: pictures of its numbers, for the page.
    """

    title: str
    notes: Sequence[str]
    columns: Sequence[Column]
    rows: Sequence[Any]
    plots: Sequence[Picture] = ()


def markdown(sheet: Sheet) -> str:
    """A sheet as Markdown."""
    lines = [
        [column.heading for column in sheet.columns],
        ["---:" if column.is_number else "---" for column in sheet.columns],
        *([_for_markdown(column.text(row)) for column in sheet.columns] for row in sheet.rows),
    ]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    notes = "".join(f"- {_for_markdown(note)}\n" for note in sheet.notes)
    return f"# {_for_markdown(sheet.title)}\n\n{table}\n{notes}"


def terminal_table(columns: Sequence[Column], groups: Sequence[Sequence[Any]], notes: Sequence[str]) -> "Table":
    """Groups of rows as a table for a terminal, with notes below it."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    # A plain str would be read as markup: names of users stand in it.
    caption = Text("\n".join(map(printable, notes)), "table.caption")
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=caption, caption_justify="left")
    for column in columns:
        side = "right" if column.is_number else "left"
        table.add_column(column.heading, justify=side, no_wrap=column.is_number and not column.wraps)
    for group in groups:
        for row in group:
            texts = (printable(column.text(row)) for column in columns)
            table.add_row(*(Text(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…") for text in texts))
        table.add_section()
    return table


def _for_markdown(text: str) -> str:
    escaped = "".join(f"\\{c}" if c in "\\`*_{}[]|#!~$" else c for c in printable(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
