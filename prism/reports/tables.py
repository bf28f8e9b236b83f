"""Tables: the columns that rows have, and the forms in which they are written."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from prism.artifacts.results import HEADINGS, METRICS, Result
from prism.reports.rows import Row, build_rows, by_task, groups
from prism.reports.sheet import Column, markdown_table, terminal_table
from prism.reports.text import in_bytes, in_percent, in_seconds, printable, significant

if TYPE_CHECKING:
    from rich.table import Table

NAMES = (
    Column("set", lambda row: row.label, False),
    Column("method", lambda row: row.method + (f" ({row.role})" if row.role else ""), False),
    Column("network", lambda row: row.network, False),
)
COSTS = (
    Column("clips", lambda row: f"{row.clips:,}"),
    Column("trained on", lambda row: f"{row.shown:,}"),
    Column("key-frames", lambda row: f"{row.keyframes:,} ({row.keyframes_per_video:.2f})"),
    Column("on disk", lambda row: in_bytes(row.num_bytes)),
    Column("float32 MiB", lambda row: significant(row.float32_mib)),
    Column("% of full", lambda row: significant(row.percent_of_full)),
    Column("time/run", lambda row: in_seconds(row.seconds)),
)
TERMINAL = ("network", "clips", "on disk", "time/run")
SCORES_ON_TERMINAL = 2
"""More of them would not fit 80 characters; the page has them all."""
WHERE = (
    Column("data", lambda row: row.data, False),
    Column("split", lambda row: row.split, False),
    Column("protocol", lambda row: row.protocol, False),
)


def score_columns(task: str) -> list[Column]:
    """A column for each metric of a task."""
    return [
        Column(f"{HEADINGS[metric]} %", lambda row, metric=metric: in_percent(row.scores[metric]))
        for metric in METRICS[task]
    ]


def columns_of(task: str) -> list[Column]:
    """All columns of a task's table, apart from those that say where it was scored."""
    return [*NAMES, *score_columns(task), *COSTS]


def summary_tables(results: Iterable[Result]) -> list["Table"]:
    """A short table for a terminal for each task; what must not be compared stands in different sections."""
    return [_summary_table(rows) for rows in by_task(build_rows(results)).values()]


def _summary_table(rows: list[Row]) -> "Table":
    return terminal_table(_terminal_columns(rows), groups(rows), _caption(rows))


def _terminal_columns(rows: Sequence[Row]) -> list[Column]:
    # What is the same in every row stands in the caption, so that the table fits 80 characters.
    varying = [column for column in WHERE if len({column.text(row) for row in rows}) > 1]
    names, costs = ([column for column in some if column.heading in TERMINAL] for some in (NAMES, COSTS))
    if len({row.network for row in rows}) == 1:
        names = []
    scores = score_columns(rows[0].task)[:SCORES_ON_TERMINAL]
    return [Column("set", _label_and_role, False), *varying, *names, *scores, *costs]


def _label_and_role(row: Row) -> str:
    return f"{row.label} ({row.role})" if row.role else row.label


def _caption(rows: Sequence[Row]) -> str:
    same = [
        printable(names.pop())
        for of in ("data", "split", "protocol", "network")
        if len(names := _all(rows, of)) == 1
    ]
    chance = " or ".join(f"{100 * share:.3g}" for share in sorted({row.chance[row.metric] for row in rows}))
    return f"{', '.join(same)}; mean ± sample standard deviation (networks trained); chance {chance} %"


def _all(rows: Sequence[Row], name: str) -> set[str]:
    return {getattr(row, name) for row in rows}


def to_markdown(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table for each task, with data, split and protocol."""
    return "\n".join(markdown_table((*columns_of(task), *WHERE), some) for task, some in by_task(rows).items())


RAW = (
    *("label", "task", "role", "method", "network", "protocol", "data", "fingerprint", "split", "num_test_clips"),
    *("num_classes", "clips", "shown", "keyframes", "keyframes_per_video", "num_bytes", "float32_bytes"),
    *("full_float32_bytes", "percent_of_full", "seconds"),
)


def to_csv(rows: Sequence[Row]) -> str:
    """The rows with unrounded numbers; scores are shares in 0..1, and empty where a task does not have them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    metrics = [metric for task in by_task(rows) for metric in METRICS[task]]
    writer.writerow([*RAW, *(f"{metric}_{part}" for metric in metrics for part in ("mean", "std", "n"))])
    for row in rows:
        scores = [part for metric in metrics for part in row.scores.get(metric, ("", "", ""))]
        writer.writerow([*(_for_csv(getattr(row, name)) for name in RAW), *scores])
    return text.getvalue()


def _for_csv(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value
