"""The comparison: every number of the paper beside ours, with what both cost."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.estimates import LEVEL, NO_INTERVAL, Estimate, Sample, warn_copies
from prism.artifacts.results import HEADINGS, TESTS, Result
from prism.artifacts.telemetry import seconds_to_make
from prism.machine.text_io import csv_text
from prism.reports.plots import Trade, trade_plot
from prism.reports.tables import Column, Picture, Sheet, grouped, markdown, terminal_table
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
    """The numbers of a set (which may itself take a gigabyte), or means of several; 0 where they are not known."""

    clips: float = 0
    stored_clips: float = 0
    keyframes: float = 0
    float32_bytes: float = 0
    num_bytes: float = 0
    seconds: float = 0
    fingerprint: str = ""

    @classmethod
    def of(cls, condensed: CondensedSet, path: Path) -> "Made":
        """The numbers of a set and its file."""
        clips, keyframes = len(condensed), condensed.num_keyframes / len(condensed)
        sizes = (condensed.float32_bytes, path.stat().st_size)
        seconds = seconds_to_make(path, condensed)
        return cls(clips, condensed.stored_clips, keyframes, *sizes, seconds, condensed.fingerprint)


@dataclass
class Progress:
    """The sets, results (of the planned networks alone) and divergences of a reproduction so far, by file."""

    sets: dict[Path, Made] = field(default_factory=dict)
    results: dict[Path, Result] = field(default_factory=dict)
    failures: dict[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A number of the paper beside ours.

    Attributes:
        store: the shortest end of the store's path that no other store of the table has.
        ours: the scores of the networks of each set, by the set's seed; None where there is none yet, where a
            set or network diverged, and in a table of storage.
        made: means over the sets.
        shown: clips of all epochs of a network.
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
    made: Made
    full_float32_bytes: int
    shown: int = 0
    run_seconds: float = 0.0
    failure: str = ""
    caution: str = ""
    lead: Estimate | None = None

    @property
    def mark(self) -> str:
        """Where our mean lies, seen from the paper's mean and deviation; empty where they must not be compared."""
        printed, is_comparable = self.cell.printed, self.is_same_data and self.split in TESTS
        if not is_comparable or self.ours is None or printed is None or printed.std is None:
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
            return self.mib or "–"
        return self.ours.in_percent if self.ours else "–"

    @property
    def mib(self) -> str:
        """Stored frames as float32, in MiB."""
        return significant(self.made.float32_bytes / 2**20) if self.made.float32_bytes else ""

    @property
    def share_percent(self) -> float:
        """Stored frames as float32, of all training clips."""
        return 100 * self.made.float32_bytes / self.full_float32_bytes

    @property
    def raw(self) -> dict[str, object]:
        """The row of the CSV file; None is empty. `n` are networks; `std` is theirs, and only one set has it."""
        cell, made, ours, lead = self.cell, self.made, self.ours, self.lead
        printed, (low, high) = cell.printed, (lead and lead.interval) or (None, None)
        where = {"exhibit_row": cell.label, "data": self.store, "paper_data": self.data}
        how = {"is_same_data": self.is_same_data, "protocol": self.protocol, "split": self.split}
        which = {"vpc": cell.vpc, "network": cell.network, "metric": cell.metric}
        paper = {"paper_mean": printed and printed.mean, "paper_std": printed and printed.std}
        score = {"mean": ours and ours.mean, "standard_error": ours and ours.error}
        score |= {
            "sets": ours and len(ours.scores),
            "std": ours and ours.deviation,
            "n": ours and ours.num_networks,
        }
        leads = {"lead": lead and lead.mean, "lead_low": low, "lead_high": high, "mark": self.mark}
        storage = {"paper_mib": cell.storage and cell.storage.mean}
        storage |= {"paper_share_percent": cell.storage and cell.storage_share}
        size = {"float32_bytes": round(made.float32_bytes), "full_float32_bytes": self.full_float32_bytes}
        size |= {"num_bytes": round(made.num_bytes), "stored_clips": round(made.stored_clips), "shown": self.shown}
        cost = {"keyframes_per_video": made.keyframes, "condense_seconds": made.seconds}
        last = {"run_seconds": self.run_seconds, "failure": self.failure}
        return {**where, **how, **which, **paper, **score, **leads, **storage, **size, **cost, **last}


def lines_of(places: Sequence[Place], done: Progress) -> tuple[Line, ...]:
    """A line for each place, as far as its sets and results are there, with its lead over random selection."""
    names = _names([place.store.path for place in places])
    lines = [_line(place, names[place.store.path], done) for place in places]
    columns = [(one.store, one.data, one.cell.vpc, one.cell.network, one.cell.metric) for one in lines]
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
    results = list(scored.values())
    # Five guesses among at most five classes are no score.
    known = {seed: one.runs for seed, one in scored.items() if cell.metric in one.metrics}
    scores = {seed: [one.scores[cell.metric] for one in runs] for seed, runs in known.items()}
    failures = [done.failures[step.path] for step in (*place.sets, *place.scores) if step.path in done.failures]
    cautions = dict.fromkeys(f"of “{one.label}” {one.caution}" for one in results if one.caution)
    num_train = len(store.positions("train"))
    full = 4 * store.clip_bytes * num_train
    if not place.sets:  # All real clips are no set: they are counted as the store holds them.
        made = [Made(num_train, num_train, store.num_frames, full, full // 4)]
    numbers = zip(*(astuple(one)[:5] for one in made), strict=True)
    return Line(
        cell=cell,
        data=place.data,
        store=name,
        is_same_data=place.is_same_data,
        protocol=" and ".join(sorted({result.protocol for result in results})),
        split=" and ".join(sorted({result.data.split for result in results})),
        # Of a row some of whose sets diverged, the mean would be of the others alone.
        ours=Sample(scores) if scores and not failures else None,
        made=Made(*map(_mean, numbers), seconds=_mean(one.seconds for one in made if one.seconds)),
        full_float32_bytes=full,
        shown=round(_mean(result.shown for result in results)),
        run_seconds=_mean(run.seconds for one in results for run in one.runs),
        failure=failures[0] if failures else "",
        caution=" ".join(filter(None, [*cautions, warn_copies(cell.label, results)])),
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else 0.0


def _column(heading: str, value: Callable[[Line], float], text: Callable[[float], str]) -> Column:
    """A column of numbers; 0, which is not known, is empty."""
    return Column(heading, lambda line: text(value(line)) if value(line) else "")


def _with_share(mib: object, share: float) -> str:
    return f"{mib} ({share:.1f} %)" if mib else "–"


STORED = _column("stored clips", lambda line: line.made.stored_clips, "{:,.0f}".format)
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
    Column("paper's MiB", lambda line: _with_share(line.cell.storage, line.cell.storage_share)),
    Column("our float32 MiB", lambda line: _with_share(line.mib, line.share_percent)),
    _column(DISK, lambda line: line.made.num_bytes, lambda size: in_bytes(round(size))),
    STORED,
    _column("trained on", lambda line: line.shown, "{:,}".format),
    _column("key-frames", lambda line: line.made.keyframes, "{:.2f}".format),
    _column("to condense", lambda line: line.made.seconds, in_seconds),
    _column("time/run", lambda line: line.run_seconds, in_seconds),
)
TERMINAL = ("row", "data", "VPC", "network", "score", "paper", "ours", "")


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
        if all(line.made.stored_clips == line.made.clips for line in self.lines):
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
            stores, guides = (sorted({getattr(line, name) for line in others}) for name in ("store", "data"))
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
        numbers = {len(line.ours.scores) > 1 for line in self.lines if line.ours}
        one = "mean ± sample deviation (networks), which says nothing of other sets"
        many = "mean ± standard error of the mean over sets (sets × networks of each)"
        if True not in numbers:
            return f"one set of each row: {one}"
        return f"{many}; of one set, {one}" if False in numbers else many

    @property
    def plots(self) -> dict[str, Picture]:
        """Scores against each cost for each store, by a name for a file, where the videos per class vary."""
        cells, stores = [line.cell for line in self.lines], grouped(self.lines, lambda line: line.store)
        if cells[0].metric == STORAGE or len({cell.vpc for cell in cells} - {0}) < 2:
            return {}
        found = {}
        for name, (axis, _) in COSTS.items():
            for number, lines in enumerate(stores, 1):
                if trades := trades_of(lines, name):
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
        rows = [line.raw for line in self.lines]
        return csv_text(rows[0], (row.values() for row in rows))


COSTS: dict[str, tuple[str, Callable[[Line], float]]] = {
    "float32": ("stored frames as float32 (% of the full set)", lambda line: line.share_percent),
    "disk": ("bytes on disk (MiB)", lambda line: line.made.num_bytes / 2**20),
    "shown": ("clips trained on, over all epochs", lambda line: line.shown),
}
"""Costs of a set, by a name for files. The paper prints the first one alone."""


def trades_of(lines: Sequence[Line], cost: str) -> list[Trade]:
    """Each row as measured, and on the paper's own data as printed."""
    found, of = [], COSTS[cost][1]
    for row in grouped(lines, lambda line: line.cell.label):
        measured = [(of(line), 100 * line.ours.mean, 100 * line.ours.spread) for line in row if line.ours]
        printed = [
            (line.cell.storage_share, line.cell.printed.mean, line.cell.printed.std or 0.0)
            for line in row
            if cost == "float32" and line.is_same_data and line.cell.printed and line.cell.storage
        ]
        both, label = ((False, measured), (True, printed)), row[0].cell.label
        found += [Trade(label, is_printed, tuple(points)) for is_printed, points in both if points]
    return found
