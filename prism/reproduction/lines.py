"""What a table says of one number of the paper: ours beside it, and what both cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.estimates import Estimate, Sample, warn_copies
from prism.artifacts.results import TESTS, NetworkRun, Result
from prism.artifacts.telemetry import seconds_to_make
from prism.reproduction.paper import FLOOR, Cell
from prism.reproduction.plan import Place

ABOVE, INSIDE, BELOW = "▲", "·", "▼"
"""Ours lies above, inside or below the paper's mean ± deviation."""


@dataclass(frozen=True)
class Line:
    """A number of the paper beside ours.

    Attributes:
        store: the shortest end of the store's path that no other store of the table has.
        split: the clips that are scored.
        ours: the scores of the networks of each set, by the set's seed; None where there is none yet, where a
            set or network diverged, and in a table of storage.
        keyframes: stored frames of one video, on average.
        float32_bytes: ours, as the paper counts.
        num_bytes: ours, on disk.
        clips, stored_clips: clips that an epoch shows, and that the set holds.
        shown: clips that one network is trained on, over all epochs.
        full_float32_bytes: all training clips, as the paper counts.
        condense_seconds: mean time to make one set; 0 where it is not recorded.
        run_seconds: mean time to train and score one network.
        failure: why there is no number.
        caution: what to know before believing it.
        lead: over random selection of the same data, videos per class, network and score; None where either has
            one set.
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


@dataclass(frozen=True)
class Made:
    """What a table says of a set; the set itself may take a gigabyte.

    Attributes:
        clips, stored_clips: clips that an epoch shows, and that it holds.
        keyframes: stored frames of one video, on average.
        seconds: time to condense it; 0 where it is not recorded.
        fingerprint: that of the set.
    """

    clips: int
    stored_clips: int
    keyframes: float
    float32_bytes: int
    num_bytes: int
    seconds: float
    fingerprint: str

    @classmethod
    def of(cls, condensed: CondensedSet, path: Path) -> "Made":
        """The record of a set and its file."""
        keyframes, size = condensed.num_keyframes / len(condensed), path.stat().st_size
        return cls(
            len(condensed),
            condensed.stored_clips,
            keyframes,
            condensed.float32_bytes,
            size,
            seconds_to_make(path, condensed),
            condensed.fingerprint,
        )


@dataclass
class Progress:
    """What a reproduction has so far, by file.

    Attributes:
        results: with the planned networks alone; those of an earlier command, beside them, do not count.
        failures: the steps that ended in a divergence, with its sentence.
    """

    sets: dict[Path, Made] = field(default_factory=dict)
    results: dict[Path, Result] = field(default_factory=dict)
    failures: dict[Path, str] = field(default_factory=dict)


def lines_of(places: Sequence[Place], done: Progress) -> tuple[Line, ...]:
    """A line for each place, as far as its sets and results are there, with its lead over random selection."""
    names = _names([place.store.path for place in places])
    lines = [_line(place, names[place.store.path], done) for place in places]
    columns = [(p.store.path, p.data, p.cell.vpc, p.cell.network, p.cell.metric) for p in places]
    floors = {column: line.ours for column, line in zip(columns, lines, strict=True) if line.cell.label == FLOOR}
    return tuple(_with_lead(line, floors.get(column)) for column, line in zip(columns, lines, strict=True))


def _with_lead(line: Line, floor: Sample | None) -> Line:
    if line.cell.label == FLOOR or line.ours is None or floor is None:
        return line
    return replace(line, lead=line.ours.lead(floor))


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """The shortest ends of paths that tell all of them apart."""
    ends, most = {path: path.absolute().parts for path in paths}, 1
    while len({parts[-most:] for parts in ends.values()}) < len(set(ends.values())):
        most += 1
    return {path: "/".join(parts[-most:]) for path, parts in ends.items()}


def _line(place: Place, name: str, done: Progress) -> Line:
    cell, store = place.cell, place.store
    made = [done.sets[step.path] for step in place.sets if step.path in done.sets]
    scored = [done.results[step.path] for step in place.scores if step.path in done.results]
    runs = _runs(place, done)
    scores = {seed: [run.scores[cell.metric] for run in some] for seed, some in runs.items()}
    failures = [done.failures[step.path] for step in (*place.sets, *place.scores) if step.path in done.failures]
    cautions = [f"of “{one.label}” {one.caution}" for one in scored if one.caution]
    num_train = len(store.positions("train"))
    full = 4 * store.clip_bytes * num_train
    # All real clips are no set: they are counted as the store holds them.
    whole = not place.sets
    return Line(
        cell=cell,
        data=place.data,
        store=name,
        is_same_data=place.is_same_data,
        protocol=" and ".join(sorted({result.protocol for result in scored})),
        split=" and ".join(sorted({result.data.split for result in scored})),
        # Of a row some of whose sets diverged, the mean would be that of the others.
        ours=Sample(scores) if scores and not failures else None,
        keyframes=store.num_frames if whole else _mean([one.keyframes for one in made]),
        float32_bytes=full if whole else round(_mean([one.float32_bytes for one in made])),
        num_bytes=full // 4 if whole else round(_mean([one.num_bytes for one in made])),
        clips=num_train if whole else round(_mean([one.clips for one in made])),
        stored_clips=num_train if whole else round(_mean([one.stored_clips for one in made])),
        shown=round(_mean([result.shown for result in scored])),
        full_float32_bytes=full,
        condense_seconds=_mean([one.seconds for one in made if one.seconds]),
        run_seconds=_mean([run.seconds for some in runs.values() for run in some]),
        failure=failures[0] if failures else "",
        caution=" ".join(filter(None, [*dict.fromkeys(cautions), warn_copies(cell.label, scored)])),
    )


def _runs(place: Place, done: Progress) -> dict[int, Sequence[NetworkRun]]:
    """The networks of each set by its seed."""
    found = {}
    for step in place.scores:
        result = done.results.get(step.path)
        if result and result.runs:
            found[step.made.config.seed if step.made else 0] = result.runs
    return found


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
