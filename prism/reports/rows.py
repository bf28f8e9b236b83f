"""Rows of a report: sets that differ only in their seeds, with scores, leads, costs and cautions."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean

from prism.artifacts.estimates import NO_INTERVAL, Estimate, Sample, doubts_of, sample_of
from prism.artifacts.results import HEADINGS, SEEDS, TESTS, Result
from prism.config import described
from prism.evaluation.options import PROTOCOLS, EvaluateConfig
from prism.machine.text_io import canonical_json
from prism.reports.text import Column, grouped, in_bytes, in_seconds, significant

OWN_KEYS = {"model", "width", "hidden", "protocol", "seed", "seeds", "train_vpc"}
"""Options of an evaluation that may differ between rows without a caution; compared rows share the protocol."""


@dataclass(frozen=True, eq=False)
class Row:
    """Results of the sets of one group; `file` is a file name, if another row has the same label."""

    results: tuple[Result, ...]
    file: str = ""

    @property
    def first(self) -> Result:
        """The first result, for facts that all results of the row share."""
        return self.results[0]

    @cached_property
    def sample(self) -> Sample:
        return sample_of(self.results)

    @cached_property
    def role(self) -> str:
        return role_of(self.first)

    @property
    def name(self) -> str:
        marks = ", ".join(filter(None, (self.role, self.file)))
        return f"{self.first.label} ({marks})" if marks else self.first.label

    @property
    def network(self) -> str:
        """The architecture, with width and hidden size if the options name them."""
        config = self.first.config
        sizes = [f"{key} {config[key]}" for key in ("width", "hidden") if config.get(key)]
        return ", ".join([str(config.get("model", "unknown")), *sizes])

    @property
    def budget(self) -> tuple[str, int]:
        """The network and the number of clips in an epoch: a row is compared with a floor of the same budget."""
        return self.network, self.first.subject.num_videos

    @property
    def has_takes(self) -> bool:
        """Whether the set stores more clips than an epoch shows."""
        return self.first.subject.stored_clips != self.first.subject.num_videos

    @property
    def share(self) -> float:
        """Bytes of stored frames as float32, as a share of the bytes of all training clips."""
        return self.mean(lambda one: one.subject.float32_bytes / one.data.train_float32_bytes)

    def mean(self, value: Callable[[Result], float]) -> float:
        return fmean(map(value, self.results))


def role_of(result: Result) -> str:
    """`floor` for random real clips, `ceiling` for all real training clips; else empty."""
    subject, data = result.subject, result.data
    if subject.made_from or (subject.kind == "store" and subject.fingerprint != data.fingerprint):
        return ""  # Clips of another store are neither floor nor ceiling of this one.
    if subject.method in ("random", "subset") and subject.stored_clips == subject.num_videos:
        return "floor"
    return "ceiling" if subject.method == "full" else ""


def rows_of(results: Sequence[Result]) -> list[Row]:
    """Rows of comparable results, grouped by making and scoring; sorted by budget, then floor, sets, ceiling."""

    def making(one: Result) -> str:
        scored = {key: value for key, value in one.config.items() if key not in ("seed", "seeds")}
        return canonical_json([one.label, role_of(one), one.subject.kind, one.subject.making, scored])

    def place(row: Row) -> tuple[object, ...]:
        return *row.budget, ("floor", "", "ceiling").index(row.role), row.sample.mean, row.name

    parts = [part for some in grouped(results, making) for part in _one_of_each_seed(some)]
    firsts = [some[0] for some in parts]
    labels = Counter((one.label, role_of(one)) for one in firsts)
    sets = Counter(one.subject_path for one in firsts)
    # One set that was scored in two ways has one path, but its results have two.
    places = [one.subject_path if sets[one.subject_path] == 1 else one.file or one.subject_path for one in firsts]
    names, are_alike = names_of(places), (labels[one.label, role_of(one)] > 1 for one in firsts)
    files = [names[at] * is_alike for at, is_alike in zip(places, are_alike, strict=True)]
    return sorted((Row(tuple(some), file) for some, file in zip(parts, files, strict=True)), key=place)


def names_of(paths: Iterable[Path]) -> dict[Path, str]:
    """The shortest ends of paths, without suffixes, that tell them apart."""
    ends = {path: (*path.parent.parts, path.stem) for path in paths}
    tails = {path: [end[-num:] for num in range(1, len(end) + 1)] for path, end in ends.items()}
    times = Counter(tail for some in tails.values() for tail in some)
    return {at: "/".join(next((one for one in some if times[one] == 1), some[0])) for at, some in tails.items()}


def _one_of_each_seed(results: Sequence[Result]) -> list[list[Result]]:
    """One group of all results; or a group per set if sets have equal seeds, as they differ in unrecorded ways."""
    seeds = {canonical_json([one.subject.config.get(name) for name in SEEDS]) for one in results}
    sets = grouped(results, lambda one: one.subject.fingerprint)
    return [list(results)] if len(seeds) == len(sets) else sets


def best_of(rows: Sequence[Row]) -> Row | None:
    """The row with the highest mean, without floor and ceiling; rows of several sets go before single sets."""
    sets = [row for row in rows if not row.role]
    # The best of many single sets may only be the luckiest.
    several = [row for row in sets if len(row.sample.scores) > 1 and row.first.subject.kind != "store"]
    return max(several or sets, key=lambda row: row.sample.mean, default=None)


def lead_over(row: Row, rows: Sequence[Row], label: str = "") -> Estimate | None:
    """The smallest lead over rows of a label and the same network, with as many clips if there are such.

    Without a label over floors, which must have as many clips. None if no row has sets of the same seeds.
    """
    rivals = [one for one in rows if one is not row and one.network == row.network]
    rivals = [one for one in rivals if (one.first.label == label if label else one.role == "floor")]
    alike = [one for one in rivals if one.budget == row.budget] or (rivals if label else [])
    leads = [lead for one in alike if (lead := row.sample.lead(one.sample))]
    return min(leads, key=lambda lead: lead.mean, default=None)


def columns_of(rows: Sequence[Row], over: str = "") -> list[Column]:
    """The columns of a table; network, stored clips and leads are left out if they show nothing."""
    is_silent = {
        "network": len({row.network for row in rows}) == 1,
        LEAD: not any(lead_over(row, rows) for row in rows),
        f"lead over “{over}”": not over,
        STORED: not any(row.has_takes for row in rows),
    }
    leading, *others = rows[0].first.metrics
    columns = (
        Column("set", lambda row: row.name, False),
        Column("network", lambda row: row.network, False),
        Column(f"{HEADINGS[leading]} %", lambda row: row.sample.in_percent),
        Column(LEAD, lambda row: str(lead_over(row, rows) or "–"), wraps=True),
        Column(f"lead over “{over}”", lambda row: str(lead_over(row, rows, over) or "–"), wraps=True),
        *(
            Column(f"{HEADINGS[metric]} %", lambda row, metric=metric: sample_of(row.results, metric).in_percent)
            for metric in others
        ),
        Column("% of full", lambda row: significant(100 * row.share)),
        *COSTS,
    )
    return [column for column in columns if not is_silent.get(column.heading)]


def _keyframes(row: Row) -> str:
    count = row.mean(lambda one: one.subject.num_keyframes)
    return f"{round(count):,} ({count / row.first.subject.num_videos:.2f})"


def _on_disk(row: Row) -> str:
    return in_bytes(round(row.mean(lambda one: one.subject.num_bytes)))


LEAD, STORED = "lead over the floor", "stored clips"
COSTS = (
    Column("clips", lambda row: f"{row.first.subject.num_videos:,}"),
    Column(STORED, lambda row: f"{row.first.subject.stored_clips:,}"),
    Column("clips shown", lambda row: f"{row.first.shown:,}"),
    Column("key-frames", _keyframes),
    Column("on disk", _on_disk),
    Column("time/run", lambda row: in_seconds(row.mean(lambda one: fmean(run.seconds for run in one.runs)))),
)
"""Columns with the costs of sets and of training."""


def notes_on(rows: Sequence[Row], over: str = "") -> list[str]:
    """Explanations of the numbers of rows, and cautions."""
    data, protocol = rows[0].first.data, rows[0].first.protocol
    chance = f"{100 * data.chance[rows[0].first.metrics[0]]:.3g}"
    seen = "networks may have been trained on, and settings" if data.split == "train" else "settings may have been"
    said = f"Accuracies in percent after the last epoch; a guess scores {chance}. A set counts once, with the mean"
    of = "of its networks: mean ± standard error over sets (sets × networks of each), or of one set over its"
    notes = [f"{said} {of} networks (networks), which says nothing of the next set."]
    leads = [lead for row in rows for of in {"", over} if (lead := lead_over(row, rows, of))]
    if leads or over:
        said = "Leads are over rows of the same network (the floor: with as many clips), the smallest of several,"
        of = "with a 95 % interval over pairs of one seed, and over test recordings where hits are known"
        notes.append(f"{said} in points, {of}; – without such pairs.")
        notes += [NO_INTERVAL] if any(lead.interval is None for lead in leads) else []
    notes += [PROTOCOLS[protocol]] if protocol in PROTOCOLS else []
    notes += cautions_on(rows)
    full = "stored frames, counted as float32 as the paper does, of the same count for all training clips"
    shown = "Clips: in an epoch; clips shown: in all epochs. Key-frames: stored (for each clip of an epoch)."
    notes.append(f"{shown} % of full: {full}.")
    if any(row.has_takes for row in rows):
        shown = "each epoch shows a random subset of them (Okanovic et al., arXiv 2305.18424)"
        notes.append(f"Stored clips: held by the set. Where they are more than the clips of an epoch, {shown}.")
    notes += [] if data.split in TESTS else [f"Scored on the {data.split} split, which {seen} chosen on."]
    return notes


def cautions_on(rows: Sequence[Row]) -> list[str]:
    """Reasons why the numbers of rows may mislead."""
    found = [doubt for row in rows for doubt in doubts_of([replace(one, label=row.name) for one in row.results])]
    # Results record these options only if they differ from the defaults.
    rare = {name: field.default for name, field in described(EvaluateConfig).items() if field.is_rare}
    for key in sorted({key for row in rows for key in row.first.config} - OWN_KEYS):
        users: dict[str, set[str]] = {}
        # The epochs of a ceiling may differ: training on all clips needs fewer.
        for row in (row for row in rows if key != "epochs" or row.role != "ceiling"):
            users.setdefault(str(row.first.config.get(key, rare.get(key, "none"))), set()).add(row.name)
        of = [f"{value} ({', '.join(f'“{n}”' for n in sorted(names))})" for value, names in sorted(users.items())]
        found += [f"the rows were trained with different {key}: {' and '.join(of)}."] if len(of) > 1 else []
    return [f"Caution: {text}" for text in found]


def conclusion_of(rows: Sequence[Row]) -> str:
    """A sentence that compares the best row with floor, ceiling and chance; empty if there is no such row."""
    best = best_of(rows)
    if best is None:
        return ""
    rivals = [row for row in rows if row.role and row.network == best.network]
    limits = {row.role: row for row in rivals if row.role == "ceiling" or row.budget == best.budget}
    mean, said = best.sample.mean, ""
    for role, word, sign in (("floor", "above", 1), ("ceiling", "below", -1)):
        if role in limits:
            limit, lead = limits[role].sample.mean, best.sample.lead(limits[role].sample)
            so = word if sign * mean > sign * limit else f"not {word}"
            if lead and lead.interval and lead.interval[0] <= 0 <= lead.interval[1]:
                so = "not separated from"
            ahead = f"; {lead}" if lead else ""
            said += f", {so} the {role} ({100 * limit:.1f} % in {_on_disk(limits[role])}{ahead})"
    chance = best.first.data.chance[best.first.metrics[0]]
    said += "" if mean > chance else f", not above chance ({100 * chance:.3g} %)"
    which = "row of several sets" if len(best.sample.scores) > 1 else "set"
    score = f"{HEADINGS[best.first.metrics[0]]} {best.sample.in_percent} % in {_on_disk(best)}"
    return f"The best {which} is “{best.name}”: {score}{said}."
