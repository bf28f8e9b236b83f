"""Tables: the columns that rows have, and the forms in which they are written."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from prism.artifacts.results import HEADINGS, METRICS, Result, percent
from prism.reports.alike import alike, sheet_of
from prism.reports.notes import cautions_on
from prism.reports.rows import Row, build_rows, grouped, groups, network_of
from prism.reports.sheet import NETWORK, Column, label_and_role, terminal_table
from prism.reports.text import in_bytes, in_seconds, significant

if TYPE_CHECKING:
    from rich.table import Table

LABEL = Column("set", lambda row: row.label, False)
METHOD = Column("method", lambda row: row.method + (f" ({row.role})" if row.role else ""), False)
STORED = Column("stored clips", lambda row: f"{row.stored_clips:,}")
COSTS = (
    Column("clips", lambda row: f"{row.clips:,}"),
    STORED,
    Column("trained on", lambda row: f"{row.shown:,}"),
    Column("key-frames", lambda row: f"{row.keyframes:,} ({row.keyframes_per_video:.2f})"),
    Column("on disk", lambda row: in_bytes(row.num_bytes)),
    Column("float32 MiB", lambda row: significant(row.float32_mib)),
    Column("% of full", lambda row: significant(row.percent_of_full)),
    Column("time/run", lambda row: in_seconds(row.seconds)),
)
WHERE = (
    Column("data", lambda row: row.data, False),
    Column("split", lambda row: row.split, False),
    Column("protocol", lambda row: row.protocol, False),
)

COSTS_ON_TERMINAL = ("clips", "stored clips", "on disk", "time/run")
SCORES_ON_TERMINAL = 2
"""More of them would not fit 80 characters; the page has them all."""
LABEL_AND_ROLE = Column("set", label_and_role, False)


def columns_of(task: str, rows: Sequence[Row]) -> list[Column]:
    """All columns of a table of rows of one task, apart from those that say where they were scored."""
    return [LABEL, METHOD, NETWORK, *_scores(task), *_costs(rows)]


def _costs(rows: Sequence[Row]) -> list[Column]:
    """The columns of costs; that of the stored clips only where a set holds others than an epoch shows."""
    differs = any(row.stored_clips != row.clips for row in rows)
    return [column for column in COSTS if differs or column is not STORED]


def _scores(task: str) -> list[Column]:
    return [
        Column(f"{HEADINGS[metric]} %", lambda row, metric=metric: percent(row.scores[metric]))
        for metric in METRICS[task]
    ]


def summary_tables(results: Iterable[Result]) -> list[tuple["Table", list[str]]]:
    """A short table for a terminal for each data set and task, and the cautions of the page about its rows.

    Rows that must not be compared stand in different sections. Tables of the sets that were made alike follow,
    one for each network, because a column of networks would not fit 80 characters.
    """
    results = list(results)
    found = []
    for rows in grouped(build_rows(results), lambda row: (row.fingerprint, row.task)):
        cautions = [
            caution
            for group in groups(rows)
            for caution in cautions_on([result for result in results if result.group == group[0].group], group)
        ]
        found.append((_summary_table(rows), cautions))
    return [*found, *_alike_tables(results)]


def _alike_tables(results: Sequence[Result]) -> list[tuple["Table", list[str]]]:
    found = []
    for some in grouped(results, lambda result: (result.group, network_of(result.config))):
        if sheet := sheet_of(alike(some)):
            (row, *_), (explained, *cautions) = build_rows(some), sheet.notes
            place = ", ".join(column.text(row) for column in (*WHERE, NETWORK))
            caption = place if found else f"{place}. {explained}"
            found.append((terminal_table(sheet.columns, [sheet.rows], [caption]), cautions))
    return found


def _summary_table(rows: Sequence[Row]) -> "Table":
    # A text that is the same in every row stands in the caption, so that the table fits 80 characters.
    texts = {column: {column.text(row) for row in rows} for column in (*WHERE, NETWORK)}
    same = [text for found in texts.values() if len(found) == 1 for text in found]
    varying = [column for column, found in texts.items() if len(found) > 1]
    costs = [column for column in _costs(rows) if column.heading in COSTS_ON_TERMINAL]
    columns = [LABEL_AND_ROLE, *varying, *_scores(rows[0].task)[:SCORES_ON_TERMINAL], *costs]
    chance = " or ".join(f"{100 * share:.3g}" for share in sorted({row.chance[row.metric] for row in rows}))
    caption = f"{', '.join(same)}; mean ± sample standard deviation (networks trained); chance {chance} %"
    return terminal_table(columns, groups(rows), [caption])
