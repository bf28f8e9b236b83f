"""The comparison: every number of the paper beside ours, with the costs of both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.table import Table

from prism.artifacts.estimates import NO_INTERVAL, doubts_of
from prism.artifacts.results import HEADINGS, TESTS, Result
from prism.machine.files import write_atomically
from prism.reports.plots import Curve, Mark, point_of, score_plot
from prism.reports.rows import COSTS, STORED, Row
from prism.reports.text import Column, Picture, Sheet, grouped, markdown, terminal_table
from prism.reproduction.paper import FLOOR, Exhibit
from prism.reproduction.plan import Line

LEAD = f"lead over {FLOOR}"
SIZES = "MiB: every stored frame as float32, with its share of all clips. Key-frames: stored (for each video)."
TERMINAL = ("row", "data", "VPC", "network", "score", "paper", "ours")


@dataclass
class Done:
    """Finished steps of a reproduction, by file: fingerprints of sets, results, and reasons of failures."""

    sets: dict[Path, str] = field(default_factory=dict)
    results: dict[Path, Result] = field(default_factory=dict)
    failures: dict[Path, str] = field(default_factory=dict)


def measured(lines: Sequence[Line], done: Done) -> tuple[Line, ...]:
    """The lines filled with the results so far, and with their leads over random selection."""

    def column(line: Line) -> tuple[object, ...]:
        return line.store.path, line.data, line.cell.vpc, line.cell.network, line.cell.metric

    found = [_measured(line, done) for line in lines]
    floors = {column(line): line.ours for line in found if line.cell.label == FLOOR}
    for at, line in enumerate(found):
        ours, floor = line.ours, floors.get(column(line))
        if ours and floor and line.cell.label != FLOOR:
            found[at] = replace(line, lead=ours.lead(floor))
    return tuple(found)


def _measured(line: Line, done: Done) -> Line:
    found, num_diverged = list[Result](), 0
    for step in line.scores:
        result = done.results.get(step.path)
        found += [result] if result and result.runs else []
        if step.path in done.failures or (step.made and step.made.path in done.failures):
            num_diverged += len(step.config.all_seeds) - (len(result.runs) if result else 0)
    failures = tuple(done.failures[one.path] for one in (*line.sets, *line.scores) if one.path in done.failures)
    return replace(line, row=Row(tuple(found)) if found else None, failures=failures, num_diverged=num_diverged)


COLUMNS = (
    Column("row", lambda line: line.cell.label, False),
    Column("data", lambda line: f"{line.store.name} ({line.store.fingerprint[:8]})", False),
    Column("VPC", lambda line: str(line.cell.vpc) if line.cell.vpc else "all"),
    Column("network", lambda line: line.cell.network, False),
    Column("score", lambda line: HEADINGS[line.cell.metric], False),
    Column("paper", lambda line: line.cell.printed or "–"),
    Column("ours", lambda line: line.score),
    Column(LEAD, lambda line: str(line.lead or "–")),
    Column(
        "paper's MiB", lambda line: f"{(c := line.cell).mib:g} ({c.share_percent:.1f} %)" if line.cell.mib else "–"
    ),
    Column("our float32 MiB", lambda line: line.size),
    *(Column(cost.heading, lambda line, cost=cost: cost.text(line.row) if line.row else "") for cost in COSTS),
)


@dataclass(frozen=True)
class Comparison:
    """An exhibit of the paper with our numbers in it.

    Attributes:
        path: path of the files that are written, without their endings.
        missing: commands that a dry run has left out.
    """

    exhibit: Exhibit
    scale: str
    lines: tuple[Line, ...]
    path: Path
    missing: tuple[str, ...] = ()

    def file(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    @property
    def sheet(self) -> Sheet:
        """The table for the page; a column of texts that is the same in all lines is moved to the notes."""
        title = f"{self.exhibit.title}: the paper's {self.exhibit.place.split(',')[0]} and ours"
        texts = {column: [column.text(line) for line in self.lines] for column in COLUMNS}
        same = [c for c in COLUMNS[1:] if not c.is_number and len(set(texts[c])) == 1]
        used = [c for c in COLUMNS if c not in same and set(texts[c]) - {"", "–"}]
        if not any(line.row and line.row.has_takes for line in self.lines):
            used = [c for c in used if c.heading != STORED]
        everywhere = [f"{c.heading} {texts[c][0]}" for c in same if texts[c][0]]
        notes = [f"All lines: {', '.join(everywhere)}."] if everywhere else []
        return Sheet(title, [*notes, *self.notes], used, list(self.lines))

    @property
    def notes(self) -> Iterator[str]:
        yield SIZES
        sets = "mean ± standard error over sets (sets × networks of each); of one set over its networks (networks)"
        said = f"The paper: {self.exhibit.place}. Ours: scale {self.scale}, {sets}"
        yield f"{said}, which says nothing of other sets. The paper's ± is a deviation over networks."
        if leads := [line.lead for line in self.lines if line.lead]:
            recordings = ", and over test recordings" if any(lead.recordings for lead in leads) else ""
            pairs = f"those of one seed paired{recordings}"
            yield f"Lead over {FLOOR}: in points, with its 95 % interval (Student's t) over sets, {pairs}."
            if any(lead.interval is None for lead in leads):
                yield NO_INTERVAL
        rows = [line.row for line in self.lines if line.row]
        if any(line.row and line.cell.metric not in line.row.first.metrics for line in self.lines):
            yield "Stores of up to five classes have no top-5 score."
        if protocols := sorted({row.first.protocol for row in rows}):
            yield f"Protocol {' and '.join(protocols)}."
        if splits := sorted({row.first.data.split for row in rows} - {*TESTS}):
            yield f"Scored on {' and '.join(splits)} clips, not on those of the paper's scores."
        for store, data in sorted({(line.store.name, line.data) for line in self.lines if not line.is_same_data}):
            yield f"{store} is not the paper's data: the paper's numbers are of {data}, for their order only."
        if self.scale == "full" and any(line.cell.recipe == "ablations/dm" for line in self.lines):
            yield "DM has PRISM's rates: the paper does not say its own, and DM's code has 30 at VPC 1."
        apart = [c for c in COLUMNS if c.heading in ("data", "network") and len({*map(c.text, self.lines)}) > 1]
        placed = [("".join(f"{column.text(line)}, " for column in apart), line) for line in self.lines]
        doubts = (f"Caution: {at}{why}" for at, line in placed if line.row for why in doubts_of(line.row.results))
        failed = (f"{at}{line.scores[0].label}: {why}" for at, line in placed for why in line.failures)
        yield from (said := dict.fromkeys((*doubts, *failed)))
        if any("--" in text for text in said):
            yield "Pass options that these cautions name by a recipe: --recipe FILE.toml."

    @property
    def plots(self) -> list[Picture]:
        """A plot per store of scores against bytes as the paper counts them, if the videos per class vary."""
        if len({line.cell.vpc for line in self.lines} - {0}) < 2:
            return []
        cost, score = "stored frames as float32 (% of the full set)", HEADINGS[self.lines[0].cell.metric]
        caption = f"{score} against {cost}. Filled: ours; hollow and dashed: the paper's."
        stores = grouped(self.lines, lambda line: line.store.path)
        return [score_plot(found, cost, score, caption) for lines in stores if (found := curves_of(lines))]

    def summary_table(self) -> Table:
        sheet = self.sheet
        # Both columns together would not fit 80 characters.
        last = LEAD if any(line.lead for line in self.lines) else "on disk"
        shown = [column for column in sheet.columns if column.heading in (*TERMINAL, last)]
        return terminal_table(shown, self.lines, [note for note in sheet.notes if note != SIZES])

    def to_markdown(self) -> str:
        return markdown(self.sheet)

    def save(self) -> None:
        write_atomically(self.file(".md"), self.to_markdown().encode())


def curves_of(lines: Sequence[Line]) -> list[Curve]:
    """The curves of a store: each row as measured, and as printed if the store holds the paper's data."""
    found = []
    for rank, row in enumerate(grouped(lines, lambda line: line.cell.label)):
        mark, label = Mark.of_rank(rank), row[0].cell.label
        ours = [point_of(one.ours, 100 * one.row.share) for one in row if one.row and one.ours]
        printed = [
            (one.cell.share_percent, float(score), float(deviation or 0))
            for one in row
            for score, _, deviation in [one.cell.printed.partition("±")]
            if one.is_same_data and score and one.cell.mib
        ]
        found += [Curve(ours, mark, label)] if ours else []
        found += [Curve(printed, replace(mark, filled=False))] if printed else []
    return found
