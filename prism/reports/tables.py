"""Tables: results as rows, and the forms in which they are written: for the page, as Markdown, on a terminal."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from prism.artifacts.results import HEADINGS, SEEDS, Result, percent
from prism.machine.text_io import canonical_json
from prism.reports.text import in_bytes, in_seconds, printable, significant

if TYPE_CHECKING:
    from rich.table import Table

Item = TypeVar("Item")

LONGEST = 40  # Characters of a cell on a terminal.
NUMBERS = ("float32", "float16", "uint8")  # What any other storage keeps depends on its quality.
BUDGET_KEYS = {"vpc", "lr", "batch_real", "dynamic_lr", "hallucinator_lr"}
"""Options that change along one accuracy-against-compression curve (the paper tunes them per VPC)."""


@dataclass(frozen=True)
class Column:
    """A column: its heading, a row's text in it, whether that is a number, and one that a terminal may wrap."""

    heading: str
    text: Callable[[Any], str]
    is_number: bool = True
    wraps: bool = False


@dataclass(frozen=True)
class Picture:
    """A picture for the page: its data URI, what it shows, and what to read from it."""

    source: str
    alt: str
    caption: str
    width: int
    height: int


@dataclass(frozen=True)
class Sheet:
    """A table, sentences that a reader must know before comparing, and pictures of its numbers."""

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


def _for_markdown(text: str) -> str:
    escaped = "".join(f"\\{c}" if c in "\\`*_{}[]|#!~$" else c for c in printable(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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


def grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    """The items of each key, in the order in which the keys are first met."""
    found: dict[Hashable, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())


def in_order(results: Iterable[Result]) -> list[Result]:
    """The rows of a table: rivals of equal network and budget together, the floor first."""

    def place(one: Result) -> tuple[Any, ...]:
        budget = network_of(one), one.subject.num_videos, ("floor", "", "ceiling").index(role_of(one))
        return (data_of(one), *one.group, *budget, method_of(one), one.label, one.summary()[0], variant_of(one))

    return sorted(results, key=place)


def role_of(result: Result) -> str:
    """`floor` for random real clips, `ceiling` for all real training clips, else empty."""
    subject, data = result.subject, result.data
    # Results of earlier versions name no fingerprint.
    is_own = subject.fingerprint == data.fingerprint if subject.fingerprint else subject.path == data.path
    if subject.made_from or (subject.kind == "store" and not is_own):
        return ""  # Clips of another store are neither floor nor ceiling of this one.
    if subject.method in ("random", "subset") and subject.stored_clips == subject.num_videos:
        return "floor"
    return "ceiling" if subject.method == "full" else ""


def named(label: str, role: str) -> str:
    """`label (role)`, where it has a role."""
    return f"{label} ({role})" if role else label


def network_of(result: Result) -> str:
    """The architecture of an evaluation, with sizes that its options name."""
    sizes = [f"{key} {result.config[key]}" for key in ("width", "hidden") if result.config.get(key)]
    return ", ".join([str(result.config.get("model", "unknown")), *sizes])


def method_of(result: Result) -> str:
    """The method of a set, with the storage and the takes of its clips, where they are not the plain ones."""
    subject, storage = result.subject, result.subject.config.get("storage")
    # Storage and takes decide, too, how much there is to see at equal bytes and at equal clips.
    kept = "" if storage in (None, *NUMBERS) else f"{storage} {subject.config.get('quality')}"
    takes = "takes" if subject.stored_clips != subject.num_videos else ""
    return ", ".join(filter(None, [subject.method, kept, takes]))


def data_of(result: Result) -> str:
    """The name of the store that scored."""
    return PurePath(result.data.path).name or result.data.path


def variant_of(result: Result) -> str:
    """Equal for results that differ only in their budget and their seeds."""
    options = {k: v for k, v in result.subject.config.items() if k not in {*BUDGET_KEYS, *SEEDS}}
    return canonical_json([result.subject.method, network_of(result), options])


def _keyframes(result: Result) -> str:
    count = result.subject.num_keyframes
    return f"{count:,} ({count / result.subject.num_videos:.2f})"


LABEL = Column("set", lambda one: one.label, False)
LABEL_AND_ROLE = Column("set", lambda one: named(one.label, role_of(one)), False)
METHOD = Column("method", lambda one: named(method_of(one), role_of(one)), False)
NETWORK = Column("network", network_of, False)
WHERE = (
    Column("data", data_of, False),
    Column("split", lambda one: one.data.split, False),
    Column("protocol", lambda one: one.protocol, False),
)
STORED = Column("stored clips", lambda one: f"{one.subject.stored_clips:,}")
COSTS = (
    Column("clips", lambda one: f"{one.subject.num_videos:,}"),
    STORED,
    Column("trained on", lambda one: f"{one.shown:,}"),
    Column("key-frames", _keyframes),
    Column("on disk", lambda one: in_bytes(one.subject.num_bytes)),
    Column("float32 MiB", lambda one: significant(one.subject.float32_bytes / 2**20)),
    Column("% of full", lambda one: significant(100 * one.subject.float32_bytes / one.data.train_float32_bytes)),
    Column("time/run", lambda one: in_seconds(fmean(run.seconds for run in one.runs))),
)


def score_columns(results: Sequence[Result]) -> list[Column]:
    """A column for each metric of results on one data set."""
    return [
        Column(f"{HEADINGS[metric]} %", lambda one, metric=metric: percent(one.summary(metric)))
        for metric in results[0].metrics
    ]


def cost_columns(results: Sequence[Result]) -> list[Column]:
    """The columns of costs; of the stored clips only where a set holds others than an epoch shows."""
    differs = any(one.subject.stored_clips != one.subject.num_videos for one in results)
    return [column for column in COSTS if differs or column is not STORED]
