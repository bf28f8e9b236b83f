"""The comparison: every number of the paper beside ours, with what both cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prism.artifacts.estimates import LEVEL, NO_INTERVAL
from prism.artifacts.results import HEADINGS, TESTS
from prism.machine.text_io import csv_text
from prism.reports.plots import Trade, trade_plot
from prism.reports.tables import Column, Picture, Sheet, markdown, terminal_table
from prism.reports.text import in_bytes, in_seconds, significant
from prism.reproduction.lines import ABOVE, BELOW, INSIDE, Line, Progress, lines_of
from prism.reproduction.paper import FLOOR, STORAGE, Exhibit, Printed
from prism.reproduction.plan import Place

if TYPE_CHECKING:
    from rich.table import Table

LEAD, DISK = f"lead over {FLOOR}", "on disk"

STORED = Column("stored clips", lambda line: f"{line.stored_clips:,}" if line.stored_clips else "")
COLUMNS = (
    Column("row", lambda line: line.cell.label, False),
    Column("data", lambda line: line.store, False),
    Column("VPC", lambda line: str(line.cell.vpc) if line.cell.vpc else "all"),
    Column("network", lambda line: line.cell.network, False),
    Column("score", lambda line: HEADINGS.get(line.cell.metric, "MiB"), False),
    Column("paper", lambda line: _printed(line.cell.printed)),
    Column("ours", lambda line: _ours(line)),
    Column("", lambda line: line.mark, False),
    Column(LEAD, lambda line: str(line.lead) if line.lead else "–"),
    Column("paper's MiB", lambda line: _paper_storage(line)),
    Column("our float32 MiB", lambda line: _our_storage(line)),
    Column(DISK, lambda line: in_bytes(line.num_bytes) if line.num_bytes else ""),
    STORED,
    Column("trained on", lambda line: f"{line.shown:,}" if line.shown else ""),
    Column("key-frames", lambda line: f"{line.keyframes:.2f}" if line.keyframes else ""),
    Column("to condense", lambda line: in_seconds(line.condense_seconds) if line.condense_seconds else ""),
    Column("time/run", lambda line: in_seconds(line.run_seconds) if line.run_seconds else ""),
)

TERMINAL = ("row", "data", "VPC", "network", "score", "paper", "ours", "")


def _printed(printed: Printed | None) -> str:
    if printed is None:
        return "–"
    return f"{printed.mean:g}" if printed.std is None else f"{printed.mean:.1f} ± {printed.std:.1f}"


def _ours(line: Line) -> str:
    if line.failure:
        return "diverged"
    if line.cell.metric == STORAGE:
        return significant(line.float32_bytes / 2**20) if line.float32_bytes else "–"
    return line.ours.in_percent if line.ours else "–"


def _paper_storage(line: Line) -> str:
    storage = line.cell.storage
    return f"{storage.mean:g} ({line.cell.storage_share:.1f} %)" if storage else "–"


def _our_storage(line: Line) -> str:
    if not line.float32_bytes:
        return ""
    share = 100 * line.float32_bytes / line.full_float32_bytes
    return f"{significant(line.float32_bytes / 2**20)} ({share:.1f} %)"


@dataclass(frozen=True)
class Comparison:
    """An exhibit of the paper with our numbers in it.

    Attributes:
        path: its files, without their endings.
    """

    exhibit: Exhibit
    scale: str
    lines: tuple[Line, ...]
    path: Path

    def file(self, ending: str) -> Path:
        """Its file with an ending, as `.md` or `-disk.svg`."""
        return self.path.with_name(self.path.name + ending)

    @property
    def sheet(self) -> Sheet:
        """The table as people read it: a column with one word for all lines stands in its notes."""
        title = f"{self.exhibit.title}: the paper's {self.exhibit.place.split(',')[0]} and ours"
        texts = {column: [column.text(line) for line in self.lines] for column in COLUMNS}
        same = [c for c in COLUMNS[1:] if not c.is_number and len(set(texts[c])) == 1]
        used = [c for c in COLUMNS if c not in same and set(texts[c]) - {"", "–"}]
        if all(line.stored_clips == line.clips for line in self.lines):
            used = [c for c in used if c is not STORED]
        everywhere = [f"{c.heading} {texts[c][0]}" for c in same if texts[c][0]]
        said = [f"All lines: {', '.join(everywhere)}."] if everywhere else []
        return Sheet(title, [*said, *self.notes], used, list(self.lines))

    @property
    def plots(self) -> dict[str, Picture]:
        """Scores against each cost for each store, by a name for a file, where the videos per class vary."""
        cells = [line.cell for line in self.lines]
        if any(cell.metric == STORAGE for cell in cells) or len({cell.vpc for cell in cells} - {0}) < 2:
            return {}
        stores = list(dict.fromkeys(line.store for line in self.lines))
        found = {}
        for name, cost in COSTS.items():
            for number, store in enumerate(stores, 1):
                trades = _trades([line for line in self.lines if line.store == store], cost)
                if trades:
                    of_store = f"{name}-{number}" if len(stores) > 1 else name
                    found[of_store] = trade_plot(trades, cost.axis, HEADINGS[self.lines[0].cell.metric])
        return found

    @property
    def notes(self) -> list[str]:
        """What a reader must know before comparing."""
        said = ["MiB: every stored frame as float32, with its share of all training clips. Key-frames: per video."]
        said += [f"The paper: {self.exhibit.place}. Ours: scale {self.scale}, {self._spreads}."]
        if leads := [line.lead for line in self.lines if line.lead]:
            said.append(
                f"Lead over {FLOOR}: in points, with its {100 * LEVEL:g} % interval (Student's t); sets of one "
                "seed are paired where both rows have the same seeds."
            )
            said += [NO_INTERVAL] if any(lead.interval is None for lead in leads) else []
        if protocols := sorted({line.protocol for line in self.lines if line.protocol}):
            said.append(f"Protocol {' and '.join(protocols)}.")
        if splits := sorted({line.split for line in self.lines} - {"", *TESTS}):
            said.append(f"Scored on {' and '.join(splits)} clips, not on those of the paper's scores.")
        if others := sorted({line.store for line in self.lines if not line.is_same_data}):
            guide = " and ".join(sorted({line.data for line in self.lines if not line.is_same_data}))
            said.append(
                f"{', '.join(others)} is not the paper's data: the paper's numbers are those of {guide}, "
                "for their order only."
            )
        if any(line.mark for line in self.lines):
            said.append(
                f"{ABOVE} or {BELOW}: our mean lies above or below the paper's mean ± deviation; {INSIDE}: in it."
            )
        said += dict.fromkeys(f"Caution: {line.caution}" for line in self.lines if line.caution)
        failed = (f"{line.cell.label}, VPC {line.cell.vpc}: {line.failure}" for line in self.lines if line.failure)
        said += list(dict.fromkeys(failed))
        return said

    @property
    def _spreads(self) -> str:
        """What stands behind ± and in parentheses."""
        numbers = {len(line.ours.scores) > 1 for line in self.lines if line.ours}
        one = "mean ± sample deviation (networks), which tells nothing of other sets"
        many = "mean ± standard error of the mean over sets (sets × networks of each)"
        if True not in numbers:
            return f"one set of each row: {one}"
        return f"{many}; of one set, {one}" if False in numbers else many

    def summary_table(self) -> "Table":
        """A short table for a terminal; its notes follow it."""
        sheet = self.sheet
        # Both would not fit 80 characters.
        last = LEAD if any(line.lead for line in self.lines) else DISK
        shown = [column for column in sheet.columns if column.heading in (*TERMINAL, last)]
        return terminal_table(shown, [self.lines], sheet.notes)

    def to_markdown(self) -> str:
        """The table with its notes, as Markdown."""
        return markdown(self.sheet)

    def to_csv(self) -> str:
        """The table with unrounded numbers; ours are shares in 0..1, the paper's in percent as printed."""
        return csv_text(RAW, ([value(line) for value in RAW.values()] for line in self.lines))


@dataclass(frozen=True)
class Cost:
    """What a set costs.

    Attributes:
        axis: its name and unit.
        of: our own.
        printed: the paper's, where it prints that.
    """

    axis: str
    of: Callable[[Line], float]
    printed: Callable[[Line], float] | None = None


COSTS = {
    "float32": Cost(
        "stored frames as float32 (% of the full set)",
        lambda line: 100 * line.float32_bytes / line.full_float32_bytes,
        lambda line: line.cell.storage_share,
    ),
    "disk": Cost("bytes on disk (MiB)", lambda line: line.num_bytes / 2**20),
    "shown": Cost("clips trained on, over all epochs", lambda line: line.shown),
}


def _trades(lines: Sequence[Line], cost: Cost) -> list[Trade]:
    """Each row as measured, and on the paper's own data as printed."""
    found = []
    for label in dict.fromkeys(line.cell.label for line in lines):
        row = [line for line in lines if line.cell.label == label]
        measured = [(cost.of(line), 100 * line.ours.mean, 100 * line.ours.spread) for line in row if line.ours]
        printed = [
            (cost.printed(line), line.cell.printed.mean, line.cell.printed.std or 0.0)
            for line in row
            if cost.printed and line.is_same_data and line.cell.printed and line.cell.storage
        ]
        both = ((False, measured), (True, printed))
        found += [Trade(label, is_printed, tuple(points)) for is_printed, points in both if points]
    return found


RAW: dict[str, Callable[[Line], object]] = {
    "exhibit_row": lambda line: line.cell.label,
    "data": lambda line: line.store,
    "paper_data": lambda line: line.data,
    "is_same_data": lambda line: line.is_same_data,
    "protocol": lambda line: line.protocol,
    "split": lambda line: line.split,
    "vpc": lambda line: line.cell.vpc,
    "network": lambda line: line.cell.network,
    "metric": lambda line: line.cell.metric,
    "paper_mean": lambda line: line.cell.printed and line.cell.printed.mean,
    "paper_std": lambda line: line.cell.printed and line.cell.printed.std,
    "mean": lambda line: line.ours and line.ours.mean,
    "standard_error": lambda line: line.ours and line.ours.error,
    "sets": lambda line: line.ours and len(line.ours.scores),
    "std": lambda line: line.ours and line.ours.deviation,
    "n": lambda line: line.ours and line.ours.num_networks,
    "lead": lambda line: line.lead and line.lead.mean,
    "lead_low": lambda line: line.lead and line.lead.interval and line.lead.interval[0],
    "lead_high": lambda line: line.lead and line.lead.interval and line.lead.interval[1],
    "mark": lambda line: line.mark,
    "paper_mib": lambda line: line.cell.storage and line.cell.storage.mean,
    "paper_share_percent": lambda line: line.cell.storage and line.cell.storage_share,
    "float32_bytes": lambda line: line.float32_bytes,
    "full_float32_bytes": lambda line: line.full_float32_bytes,
    "num_bytes": lambda line: line.num_bytes,
    "stored_clips": lambda line: line.stored_clips,
    "shown": lambda line: line.shown,
    "keyframes_per_video": lambda line: line.keyframes,
    "condense_seconds": lambda line: line.condense_seconds,
    "run_seconds": lambda line: line.run_seconds,
    "failure": lambda line: line.failure,
}
"""The columns of the CSV file; None is empty. `n` are networks; `std` is theirs, and only one set has it."""


def compare(exhibit: Exhibit, scale: str, places: Sequence[Place], done: Progress, path: Path) -> Comparison:
    """The comparison as far as its sets and results are there."""
    return Comparison(exhibit, scale, lines_of(places, done), path)
