"""Rows: the numbers of one result each, as tables and plots show them, in an order of their own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from statistics import fmean
from typing import Any

from prism.artifacts.options import COMPRESSED
from prism.artifacts.results import METRICS, Result, Subject
from prism.machine.texts import canonical_json
from prism.networks.build import MODELS
from prism.reports.text import Score

FLOORS = ("random", "subset")
CEILINGS = ("full",)
BUDGET_KEYS = {"vpc", "lr", "batch_real", "dynamic_lr", "hallucinator_lr"}
"""Options that change along one accuracy-against-compression curve (the paper tunes them per VPC)."""


@dataclass(frozen=True)
class Row:
    """A line of a table.

    Attributes:
        task: a key of `results.METRICS`.
        role: `floor` for random real clips, `ceiling` for all real training clips, else empty.
        network: architecture, with its width where that is not the paper's.
        clips: that an epoch of training shows.
        shown: clips that one network is trained on, over all epochs.
        scores: for each metric of the task its mean, deviation and number of runs.
        chance: for each of them what guessing at random scores.
        variant: equal for rows that differ only in their budget.
        seconds: mean training and scoring time of one run.
    """

    label: str
    task: str
    role: str
    method: str
    network: str
    protocol: str
    data: str
    fingerprint: str
    split: str
    num_test_clips: int
    num_classes: int
    scores: dict[str, Score]
    chance: dict[str, float]
    clips: int
    shown: int
    keyframes: int
    num_bytes: int
    float32_bytes: int
    full_float32_bytes: int
    seconds: float
    variant: str

    @property
    def metric(self) -> str:
        """The metric that leads: the table's first, and that of the plots."""
        return METRICS[self.task][0]

    @property
    def lead(self) -> Score:
        """The score of the leading metric."""
        return self.scores[self.metric]

    @property
    def keyframes_per_video(self) -> float:
        """Stored frames of one video, on average."""
        return self.keyframes / self.clips

    @property
    def float32_mib(self) -> float:
        """The paper's count: every stored frame as float32, in MiB."""
        return self.float32_bytes / 2**20

    @property
    def percent_of_full(self) -> float:
        """The paper's count as a share of the same count for all training clips."""
        return 100 * self.float32_bytes / self.full_float32_bytes

    @property
    def group(self) -> tuple[str, ...]:
        """Rows may be compared only where this is equal: content of the data, split, protocol and task."""
        return (self.fingerprint, self.split, self.protocol, self.task)


def build_rows(results: Iterable[Result]) -> list[Row]:
    """The rows of a table, in an order that does not depend on the order of the results."""
    return sorted(map(_row, results), key=_place)


def _row(result: Result) -> Row:
    subject, data = result.subject, result.data
    network = _network(result.config)
    variant = {key: value for key, value in subject.config.items() if key not in BUDGET_KEYS}
    return Row(
        result.label,
        result.task,
        _role(result),
        _method(subject),
        network,
        result.protocol,
        PurePath(data.path).name or data.path,
        data.fingerprint,
        data.split,
        data.num_clips,
        data.num_classes,
        {metric: result.summary(metric) for metric in result.metrics},
        data.chance,
        subject.num_videos,
        result.shown,
        subject.num_keyframes,
        subject.num_bytes,
        subject.float32_bytes,
        data.train_float32_bytes,
        fmean(run.seconds for run in result.runs),
        canonical_json([subject.method, network, variant]),
    )


def _place(row: Row) -> tuple[Any, ...]:
    # By network and budget, so that rivals of equal size stand together, the floor first.
    role = ("floor", "", "ceiling").index(row.role)
    return (
        row.data,
        *row.group,
        row.network,
        row.clips,
        role,
        row.method,
        row.label,
        row.num_bytes,
        row.lead,
        row.variant,
    )


def _network(config: dict[str, Any]) -> str:
    model, sizes = str(config.get("model", "unknown")), {key: config.get(key) or 0 for key in ("width", "hidden")}
    if model in MODELS and sizes["width"] == MODELS[model].WIDTH:
        sizes["width"] = 0
    return ", ".join([model, *(f"{key} {size}" for key, size in sizes.items() if size)])


def _method(subject: Subject) -> str:
    """The method, how its clips are compressed and whether a video stands for several: what else decides how much
    there is to see at equal bytes, and at equal clips."""
    storage = subject.config.get("storage")
    compressed = f"{storage} {subject.config.get('quality')}" if storage in COMPRESSED else ""
    return ", ".join(filter(None, [subject.method, compressed, "takes" if _has_takes(subject) else ""]))


def _has_takes(subject: Subject) -> bool:
    return subject.config.get("takes", 1) != 1


def _role(result: Result) -> str:
    subject = result.subject
    if subject.kind == "store" and subject.path != result.data.path:
        return ""  # Clips of another store are neither floor nor ceiling of this one.
    return (
        "floor"
        if subject.method in FLOORS and not _has_takes(subject)
        else "ceiling"
        if subject.method in CEILINGS
        else ""
    )


def by_task(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each task, which have different scores and therefore a table of their own."""
    return {task: some for task in METRICS if (some := [row for row in rows if row.task == task])}


def groups(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows apart by what they were scored on and how, each group in order."""
    apart: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        apart.setdefault(row.group, []).append(row)
    return list(apart.values())
