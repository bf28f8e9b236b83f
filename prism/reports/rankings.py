"""Rankings: whether sets put candidates in the order of the full data, as tables, a plot and sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from statistics import fmean
from typing import TYPE_CHECKING

from prism.artifacts.estimates import LEVEL
from prism.artifacts.rankings import FULL, Kind, Ranking
from prism.artifacts.ranks import Agreement, best
from prism.artifacts.results import percent
from prism.errors import OutputError
from prism.machine.files import check_output_file, write_atomically
from prism.machine.texts import csv_text
from prism.networks.options import NETWORKS
from prism.reports.plots import Panel, ranking_plot
from prism.reports.sheet import Column, Picture, Sheet, markdown, terminal_table
from prism.reports.text import counted, in_bytes, in_seconds, listed

if TYPE_CHECKING:
    from rich.table import Table

AGAIN = "full"
"""The row of the full data's agreement with itself."""
BESIDE = (".md", ".csv", ".svg")
"""The files that are written beside a ranking."""


@dataclass(frozen=True)
class RankRow:
    """Sets of one kind, or all training clips once more.

    Attributes:
        kind: None for all training clips.
        found: their agreement with the full data, or None for all training clips.
        values: for each measure its mean over the sets.
        clips, stored_clips, num_bytes: means over the sets.
        make_seconds: mean time to make a set; 0 where that is not recorded.
        seconds: of a search over all candidates with one network of each.
        saved: what that is less than on all clips.
        picks: which candidates the sets choose, and how many of them.
    """

    name: str
    kind: Kind | None
    found: Agreement | None
    values: dict[str, float]
    clips: int
    stored_clips: int
    num_bytes: int
    make_seconds: float
    seconds: float
    saved: float
    picks: dict[str, int]

    def measure(self, name: str, scale: float = 1, digits: int = 2) -> str:
        """A measure with its interval, `0.62 [0.35, 0.80]`."""
        numbers = [self.values[name], *(self.found.interval(name, LEVEL) if self.found else ())]
        mean, *ends = (f"{scale * number:z.{digits}f}" for number in numbers)
        return f"{mean} [{', '.join(ends)}]" if ends else mean


COLUMNS = (
    Column("set", lambda row: row.name, False),
    Column("sets", lambda row: str(len(row.kind.sets)) if row.kind else "–"),
    Column("clips", lambda row: f"{row.clips:,}"),
    Column("stored clips", lambda row: f"{row.stored_clips:,}"),
    Column("on disk", lambda row: in_bytes(row.num_bytes)),
    Column("Kendall's τ", lambda row: row.measure("tau")),
    Column("Spearman's ρ", lambda row: row.measure("rho")),
    Column("regret, points", lambda row: row.measure("regret", 100, 1)),
    Column("picks", lambda row: _picks(row, most=2), False),
    Column("search", lambda row: in_seconds(row.seconds)),
    Column("saved", lambda row: in_seconds(row.saved) if row.kind else "–"),
    Column("to make it", lambda row: in_seconds(row.make_seconds) if row.make_seconds else "–"),
)
TERMINAL = ("set", "Kendall's τ", "Spearman's ρ", "regret, points", "saved")

RAW: dict[str, Callable[[RankRow], object]] = {
    "set": lambda row: row.name,
    "sets": lambda row: len(row.kind.sets) if row.kind else None,
    "clips": lambda row: row.clips,
    "stored_clips": lambda row: row.stored_clips,
    "num_bytes": lambda row: row.num_bytes,
    **{
        f"{name}{end}": lambda row, name=name, place=place: _raw(row, name, place)
        for name in ("tau", "rho", "regret")
        for place, end in ((None, ""), (0, "_low"), (1, "_high"))
    },
    "picks": lambda row: _picks(row),
    "search_seconds": lambda row: row.seconds,
    "saved_seconds": lambda row: row.saved if row.kind else None,
    "condense_seconds": lambda row: row.make_seconds or None,
}
"""The columns of the CSV file; None is empty. Regrets are shares in 0..1."""


def _raw(row: RankRow, name: str, place: int | None) -> float | None:
    if place is None:
        return row.values[name]
    return row.found.interval(name, LEVEL)[place] if row.found else None


def _picks(row: RankRow, most: int = 2**20) -> str:
    """The candidates that sets choose, `wide (3), narrow (2)`; of more than `most` the others are counted."""
    if len(row.picks) == 1:
        return next(iter(row.picks))
    said = [f"{name} ({count})" for name, count in row.picks.items()]
    others = [counted(len(said) - most, "other")] if len(said) > most else []
    return ", ".join([*said[:most], *others])


def rank_rows(ranking: Ranking) -> list[RankRow]:
    """A row for each kind of set, and one for all training clips, where they can be set against themselves."""
    full = ranking.seconds(FULL)
    rows = []
    for kind in ranking.kinds:
        subjects = [ranking.sets[number].subject for number in kind.sets]
        found, seconds = ranking.agreements[kind.name], fmean(ranking.seconds(number) for number in kind.sets)
        recorded = [made for number in kind.sets if (made := ranking.sets[number].make_seconds)]
        clips, stored, size = (
            round(fmean(getattr(subject, name) for subject in subjects))
            for name in ("num_videos", "stored_clips", "num_bytes")
        )
        of_kind = (fmean(recorded or [0.0]), seconds, full - seconds, ranking.picks(kind))
        rows.append(RankRow(kind.name, kind, found, dict(found.values), clips, stored, size, *of_kind))
    if own := ranking.own_agreement:
        clips, size = ranking.full.num_videos, ranking.full.num_bytes
        picks = dict.fromkeys(ranking.best(FULL), 1)
        rows.append(RankRow(AGAIN, None, None, own, clips, clips, size, 0.0, full, 0.0, picks))
    return rows


def ranking_sheets(ranking: Ranking) -> list[Sheet]:
    """The table of the sets with the plot, and that of the candidates.

    Raises:
        ResultError: the ranking is not finished.
    """
    rows, name = rank_rows(ranking), PurePath(ranking.data.path).name
    columns = [column for column in COLUMNS if column.heading != "stored clips"]
    if any(row.stored_clips != row.clips for row in rows):
        columns = list(COLUMNS)
    title = f"Do sets rank {len(ranking.candidates)} candidates as all clips of {name} do?"
    sets = Sheet(title, [*verdicts(ranking), *_notes(ranking)], columns, rows, [plot(ranking)])
    scores = [Column("candidate", lambda row: row[0], False), Column("all clips", lambda row: row[1][0])]
    scores += [
        Column(kind.name, lambda row, place=place: row[1][place]) for place, kind in enumerate(ranking.kinds, 1)
    ]
    said = ["Top-1 in percent: mean ± sample deviation (networks); on sets, of all networks of the kind."]
    return [sets, Sheet("The candidates, by their scores on all clips", said, scores, _scores(ranking))]


def _scores(ranking: Ranking) -> list[tuple[str, list[str]]]:
    tables = [ranking.scores[FULL], *(ranking.of_kind(kind).transpose(0, 1).flatten(1) for kind in ranking.kinds)]
    order = ranking.scores[FULL].mean(-1).argsort(descending=True, stable=True).tolist()
    names = list(ranking.candidates)
    return [
        (names[place], [percent((float(t.mean()), float(t.std()) if len(t) > 1 else 0.0, len(t))) for t in row])
        for place, row in ((place, [table[place] for table in tables]) for place in order)
    ]


def verdicts(ranking: Ranking) -> list[str]:
    """For the first kind beside each other one whether it ranks better, as well, or worse."""
    first, *others = ranking.kinds
    if not others:
        return [
            "No other sets stand beside. Random clips may rank as well: make some with prism select, and name "
            "them too."
        ]
    found = []
    for other in others:
        ours, theirs = ranking.agreements[first.name], ranking.agreements[other.name]
        difference, low, high = ours.lead(theirs, "tau", LEVEL)
        if low > 0:
            said = f"{first.name} ranks better than {other.name}"
        elif high < 0:
            said = f"{other.name} ranks better than {first.name}"
        else:
            said = f"{other.name} may rank as well as {first.name}, for the interval holds 0"
        found.append(f"{said}: the difference of their τ is {difference:+z.2f} [{low:+z.2f}, {high:+z.2f}].")
    return found


def _notes(ranking: Ranking) -> list[str]:
    """What a reader must know before believing the numbers."""
    config, data, full = ranking.config, ranking.data, ranking.scores[FULL].mean(-1)
    best = listed(ranking.best(FULL))
    said = [
        f"τ and ρ: 1 is the order of all clips, 0 is none. Regret: all clips put {best} first, with "
        f"{100 * float(full.max()):.1f} %; a set loses what its own pick has less. A candidate picked at random "
        f"loses {100 * float(full.max() - full.mean()):.1f} points.",
        f"In brackets: the {100 * LEVEL:g} % interval of {config['resamples']:,} bootstrap draws over candidates, "
        "sets and networks. It is for other candidates like these, on the same clips.",
        f"Scored on {data.num_clips:,} {data.split} clips. A network takes about {config['steps']:,} steps "
        f"of up to {config['batch_size']:,} clips on a set, and {config['full_steps']:,} on all clips. Of each "
        f"candidate {counted(config['seeds'], 'network')} on each set, {counted(config['full_seeds'], 'network')} "
        "on all clips.",
        "Search: one network of each candidate. Saved: what that takes less than on all clips; the time to make "
        "the set stands beside it.",
    ]
    if ranking.own_agreement:
        said.append(
            f"Row {AGAIN}: each network on all clips against the mean of the others. That is the noise of the "
            "networks themselves. Sets stand against the mean of all, which is a little easier."
        )
    if config["seeds"] == 1 and any(len(kind.sets) == 1 for kind in ranking.kinds):
        said.append("Caution: one network on one set, so the intervals do not see how other ones would rank.")
    leaks = {kind.name: ranking.sets[kind.sets[0]].subject.said_of_leaks for kind in ranking.kinds}
    said += [f"Caution: “{name}”: {one}" for name, one in leaks.items() if one]
    if data.split == "test":
        said.append("Caution: scored on test clips. Report no score of a candidate that was picked here.")
    names = list(ranking.candidates)
    if lost := sorted({trial.candidate for trial in ranking.trials if trial.score is None}):
        said.append(f"Caution: networks of {listed([names[i] for i in lost])} diverged, which counts as 0 %.")
    return said


def plot(ranking: Ranking) -> Picture:
    """The score of each candidate on sets against that on all clips, a panel for each kind."""
    full, panels = ranking.scores[FULL], []
    models = [str(options.get("model")) for options in ranking.candidates.values()]
    networks = [model if model in NETWORKS.homes else "own" for model in models]
    for kind in ranking.kinds:
        scores, found = ranking.of_kind(kind).mean(-1), ranking.agreements[kind.name]
        low, high = found.interval("tau", LEVEL)
        deviation = scores.std(0) if len(scores) > 1 else scores.new_zeros(scores.shape[1])
        picked = best(scores).any(0).nonzero().flatten().tolist()
        panels.append(
            Panel(
                kind.name,
                f"τ {found.values['tau']:.2f} [{low:.2f}, {high:.2f}]",
                tuple((100 * full.mean(-1)).tolist()),
                tuple((100 * scores.mean(0)).tolist()),
                tuple((100 * deviation).tolist()),
                tuple(networks),
                frozenset(picked),
            )
        )
    return ranking_plot(panels, 100 * ranking.data.chance["top1"])


def summary_table(ranking: Ranking) -> "Table":
    """A short table for a terminal; its notes follow it."""
    shown = [column for column in COLUMNS if column.heading in TERMINAL]
    return terminal_table(shown, [rank_rows(ranking)], [*verdicts(ranking), *_notes(ranking)])


def to_csv(ranking: Ranking) -> str:
    """The table of the sets with unrounded numbers."""
    return csv_text(RAW, ([value(row) for value in RAW.values()] for row in rank_rows(ranking)))


def beside(output: Path) -> list[Path]:
    """The files that `write_tables` writes beside the ranking at `output`.

    Raises:
        OutputError: the ranking itself would be one of them.
    """
    if output.suffix in BESIDE:
        raise OutputError(f"output '{output}' is to be a ranking, but tables take {output.suffix}. Try .json.")
    return [output.with_suffix(suffix) for suffix in BESIDE]


def write_tables(ranking: Ranking, output: Path) -> None:
    """Write the tables as Markdown and CSV, and the plot as SVG, beside a ranking.

    Raises:
        OutputError: one of them cannot be written.
        ResultError: the ranking is not finished.
    """
    sheets: Sequence[Sheet] = ranking_sheets(ranking)
    texts = ("\n".join(map(markdown, sheets)).encode(), to_csv(ranking).encode(), sheets[0].plots[0].svg)
    for path, text in zip(beside(output), texts, strict=True):
        check_output_file(path, overwrite=True)
        write_atomically(path, text)
