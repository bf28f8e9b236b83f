"""The comparison: every number of the paper beside ours, with what both cost."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.estimates import LEVEL, NO_INTERVAL, Estimate, Sample, warn_copies
from prism.artifacts.results import HEADINGS, TESTS, Result
from prism.artifacts.telemetry import seconds_to_make
from prism.machine.text_io import csv_text
from prism.reports.plots import Trade, trade_plot
from prism.reports.tables import Column, Picture, Sheet, markdown, terminal_table
from prism.reports.text import in_bytes, in_seconds, significant
from prism.reproduction.paper import FLOOR, STORAGE, Cell, Exhibit
from prism.reproduction.plan import Place

if TYPE_CHECKING:
    from rich.table import Table

ABOVE, INSIDE, BELOW = "▲", "·", "▼"
"""Ours lies above, inside or below the paper's mean ± deviation."""
LEAD, DISK = f"lead over {FLOOR}", "on disk"


@dataclass(frozen=True)
class Made:
    """The numbers of a set; the set itself may take a gigabyte. `seconds` are 0 where they are not recorded."""

    clips: int
    stored_clips: int
    keyframes: float
    float32_bytes: int
    num_bytes: int
    seconds: float
    fingerprint: str

    @classmethod
    def of(cls, condensed: CondensedSet, path: Path) -> "Made":
        """The numbers of a set and its file."""
        return cls(
            len(condensed),
            condensed.stored_clips,
            condensed.num_keyframes / len(condensed),
            condensed.float32_bytes,
            path.stat().st_size,
            seconds_to_make(path, condensed),
            condensed.fingerprint,
        )


@dataclass
class Progress:
    """The sets, results (of the planned networks alone) and divergences of a reproduction so far, by file."""

    sets: dict[Path, Made] = field(default_factory=dict)
    results: dict[Path, Result] = field(default_factory=dict)
    failures: dict[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A number of the paper beside ours; costs are means over the sets, and 0 where they are not known yet.

    Attributes:
        store: the shortest end of the store's path that no other store of the table has.
        ours: the scores of the networks of each set, by the set's seed; None where there is none yet, where a
            set or network diverged, and in a table of storage.
        clips, stored_clips, shown: clips of an epoch, of the set, and of all epochs of a network.
        failure: why there is no number.
        lead: over random selection of the same data, videos per class, network and score, for several sets.
    """

    cell: Cell
    data: str
    store: str
    is_same_data: bool
    protocol: str
    split: str
    ours: Sample | None
    keyframes: float
    float32_bytes: int
    num_bytes: int
    clips: int
    stored_clips: int
    shown: int
    full_float32_bytes: int
    condense_seconds: float
    run_seconds: float
    failure: str
    caution: str = ""
    lead: Estimate | None = None

    @property
    def mark(self) -> str:
        """Where our mean lies, seen from the paper's mean and deviation; empty where they must not be compared."""
        printed = self.cell.printed
        if not self.is_same_data or self.split not in TESTS or self.ours is None:
            return ""
        if printed is None or printed.std is None:
            return ""
        # The paper rounds to a tenth of a percent; what it would print as inside its spread is inside.
        distance = round(100 * self.ours.mean, 1) - printed.mean
        if abs(distance) <= printed.std + 1e-9:
            return INSIDE
        return ABOVE if distance > 0 else BELOW

    @property
    def score(self) -> str:
        """Our number, as the table has it."""
        if self.failure:
            return "diverged"
        if self.cell.metric == STORAGE:
            return significant(self.float32_bytes / 2**20) if self.float32_bytes else "–"
        return self.ours.in_percent if self.ours else "–"

    @property
    def share_percent(self) -> float:
        """Stored frames as float32, of all training clips."""
        return 100 * self.float32_bytes / self.full_float32_bytes


def lines_of(places: Sequence[Place], done: Progress) -> tuple[Line, ...]:
    """A line for each place, as far as its sets and results are there, with its lead over random selection."""
    names = _names([place.store.path for place in places])
    lines = [_line(place, names[place.store.path], done) for place in places]
    columns = [(p.store.path, p.data, p.cell.vpc, p.cell.network, p.cell.metric) for p in places]
    floors = {column: line.ours for column, line in zip(columns, lines, strict=True) if line.cell.label == FLOOR}
    return tuple(
        replace(line, lead=line.ours.lead(floor))
        if (floor := floors.get(column)) and line.ours and line.cell.label != FLOOR
        else line
        for column, line in zip(columns, lines, strict=True)
    )


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """The shortest ends of paths that tell all of them apart."""
    ends, most = {path: path.absolute().parts for path in paths}, 1
    while len({parts[-most:] for parts in ends.values()}) < len(set(ends.values())):
        most += 1
    return {path: "/".join(parts[-most:]) for path, parts in ends.items()}


def _line(place: Place, name: str, done: Progress) -> Line:
    cell, store = place.cell, place.store
    made = [done.sets[step.path] for step in place.sets if step.path in done.sets]
    scored = {
        step.made.config.seed if step.made else 0: done.results[step.path]
        for step in place.scores
        if step.path in done.results and done.results[step.path].runs
    }
    # Five guesses among at most five classes are no score.
    scores = {
        seed: [r.scores[cell.metric] for r in one.runs]
        for seed, one in scored.items()
        if cell.metric in one.metrics
    }
    results = list(scored.values())
    failures = [done.failures[step.path] for step in (*place.sets, *place.scores) if step.path in done.failures]
    cautions = dict.fromkeys(f"of “{one.label}” {one.caution}" for one in results if one.caution)
    num_train = len(store.positions("train"))
    full = 4 * store.clip_bytes * num_train
    if not place.sets:
        # All real clips are no set: they are counted as the store holds them.
        made = [Made(num_train, num_train, store.num_frames, full, full // 4, 0, "")]
    return Line(
        cell=cell,
        data=place.data,
        store=name,
        is_same_data=place.is_same_data,
        protocol=" and ".join(sorted({result.protocol for result in results})),
        split=" and ".join(sorted({result.data.split for result in results})),
        # Of a row some of whose sets diverged, the mean would be of the others alone.
        ours=Sample(scores) if scores and not failures else None,
        keyframes=_mean(one.keyframes for one in made),
        float32_bytes=round(_mean(one.float32_bytes for one in made)),
        num_bytes=round(_mean(one.num_bytes for one in made)),
        clips=round(_mean(one.clips for one in made)),
        stored_clips=round(_mean(one.stored_clips for one in made)),
        shown=round(_mean(result.shown for result in results)),
        full_float32_bytes=full,
        condense_seconds=_mean(one.seconds for one in made if one.seconds),
        run_seconds=_mean(run.seconds for one in results for run in one.runs),
        failure=failures[0] if failures else "",
        caution=" ".join(filter(None, [*cautions, warn_copies(cell.label, results)])),
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else 0.0


STORED = Column("stored clips", lambda line: f"{line.stored_clips:,}" if line.stored_clips else "")
COLUMNS = (
    Column("row", lambda line: line.cell.label, False),
    Column("data", lambda line: line.store, False),
    Column("VPC", lambda line: str(line.cell.vpc) if line.cell.vpc else "all"),
    Column("network", lambda line: line.cell.network, False),
    Column("score", lambda line: HEADINGS.get(line.cell.metric, "MiB"), False),
    Column("paper", lambda line: str(line.cell.printed or "–")),
    Column("ours", lambda line: line.score),
    Column("", lambda line: line.mark, False),
    Column(LEAD, lambda line: str(line.lead or "–")),
    Column(
        "paper's MiB",
        lambda line: f"{line.cell.storage} ({line.cell.storage_share:.1f} %)" if line.cell.storage else "–",
    ),
    Column(
        "our float32 MiB",
        lambda line: (
            f"{significant(line.float32_bytes / 2**20)} ({line.share_percent:.1f} %)" if line.float32_bytes else ""
        ),
    ),
    Column(DISK, lambda line: in_bytes(line.num_bytes) if line.num_bytes else ""),
    STORED,
    Column("trained on", lambda line: f"{line.shown:,}" if line.shown else ""),
    Column("key-frames", lambda line: f"{line.keyframes:.2f}" if line.keyframes else ""),
    Column("to condense", lambda line: in_seconds(line.condense_seconds) if line.condense_seconds else ""),
    Column("time/run", lambda line: in_seconds(line.run_seconds) if line.run_seconds else ""),
)
TERMINAL = ("row", "data", "VPC", "network", "score", "paper", "ours", "")
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


@dataclass(frozen=True)
class Comparison:
    """An exhibit of the paper with our numbers in it; `path` is that of its files, without their endings."""

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
        notes = [f"All lines: {', '.join(everywhere)}."] if everywhere else []
        return Sheet(title, [*notes, *self.notes], used, list(self.lines))

    @property
    def notes(self) -> list[str]:
        """Sentences that a reader must know before comparing."""
        notes = [
            "MiB: every stored frame as float32, with its share of all training clips. Key-frames: per video."
        ]
        notes += [f"The paper: {self.exhibit.place}. Ours: scale {self.scale}, {self._spreads}."]
        if leads := [line.lead for line in self.lines if line.lead]:
            notes.append(
                f"Lead over {FLOOR}: in points, with its {100 * LEVEL:g} % interval (Student's t); sets of one "
                "seed are paired where both rows have the same seeds."
            )
            notes += [NO_INTERVAL] if any(lead.interval is None for lead in leads) else []
        if protocols := sorted({line.protocol for line in self.lines if line.protocol}):
            notes.append(f"Protocol {' and '.join(protocols)}.")
        if splits := sorted({line.split for line in self.lines} - {"", *TESTS}):
            notes.append(f"Scored on {' and '.join(splits)} clips, not on those of the paper's scores.")
        if others := [line for line in self.lines if not line.is_same_data]:
            stores, guides = (
                sorted(set(names)) for names in zip(*((x.store, x.data) for x in others), strict=True)
            )
            notes.append(
                f"{', '.join(stores)} is not the paper's data: the paper's numbers are those of "
                f"{' and '.join(guides)}, for their order only."
            )
        if any(line.mark for line in self.lines):
            notes.append(
                f"{ABOVE} or {BELOW}: our mean lies above or below the paper's mean ± deviation; {INSIDE}: in it."
            )
        notes += dict.fromkeys(f"Caution: {line.caution}" for line in self.lines if line.caution)
        failed = (f"{line.cell.label}, VPC {line.cell.vpc}: {line.failure}" for line in self.lines if line.failure)
        return [*notes, *dict.fromkeys(failed)]

    @property
    def _spreads(self) -> str:
        """The meaning of ± and of the parentheses."""
        numbers = {len(line.ours.scores) > 1 for line in self.lines if line.ours}
        one = "mean ± sample deviation (networks), which says nothing of other sets"
        many = "mean ± standard error of the mean over sets (sets × networks of each)"
        if True not in numbers:
            return f"one set of each row: {one}"
        return f"{many}; of one set, {one}" if False in numbers else many

    @property
    def plots(self) -> dict[str, Picture]:
        """Scores against each cost for each store, by a name for a file, where the videos per class vary."""
        cells = [line.cell for line in self.lines]
        if any(cell.metric == STORAGE for cell in cells) or len({cell.vpc for cell in cells} - {0}) < 2:
            return {}
        stores = list(dict.fromkeys(line.store for line in self.lines))
        found = {}
        for name, (axis, _) in COSTS.items():
            for number, store in enumerate(stores, 1):
                if trades := trades_of([line for line in self.lines if line.store == store], name):
                    of_store = f"{name}-{number}" if len(stores) > 1 else name
                    found[of_store] = trade_plot(trades, axis, HEADINGS[cells[0].metric])
        return found

    def summary_table(self) -> "Table":
        """A short table for a terminal, with its notes."""
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


COSTS: dict[str, tuple[str, Callable[[Line], float]]] = {
    "float32": ("stored frames as float32 (% of the full set)", lambda line: line.share_percent),
    "disk": ("bytes on disk (MiB)", lambda line: line.num_bytes / 2**20),
    "shown": ("clips trained on, over all epochs", lambda line: line.shown),
}
"""Costs of a set, by a name for files. The paper prints the first one alone."""


def trades_of(lines: Sequence[Line], cost: str) -> list[Trade]:
    """Each row as measured, and on the paper's own data as printed."""
    found, of = [], COSTS[cost][1]
    for label in dict.fromkeys(line.cell.label for line in lines):
        row = [line for line in lines if line.cell.label == label]
        measured = [(of(line), 100 * line.ours.mean, 100 * line.ours.spread) for line in row if line.ours]
        printed = [
            (line.cell.storage_share, line.cell.printed.mean, line.cell.printed.std or 0.0)
            for line in row
            if cost == "float32" and line.is_same_data and line.cell.printed and line.cell.storage
        ]
        both = ((False, measured), (True, printed))
        found += [Trade(label, is_printed, tuple(points)) for is_printed, points in both if points]
    return found
