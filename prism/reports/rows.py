"""Rows: the numbers of one result each, as tables and plots show them, in an order of their own."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from statistics import fmean
from typing import Any, TypeVar

from prism.artifacts.results import METRICS, SEEDS, Result, Subject
from prism.machine.text_io import canonical_json
from prism.networks.options import NETWORKS
from prism.reports.text import Score

Item = TypeVar("Item")

FLOORS = ("random", "subset")
CEILINGS = ("full",)
NUMBERS = ("float32", "float16", "uint8")
"""Storage that keeps every number; what any other keeps depends on its quality."""
BUDGET_KEYS = {"vpc", "lr", "batch_real", "dynamic_lr", "hallucinator_lr"}
"""Options that change along one accuracy-against-compression curve (the paper tunes them per VPC)."""


@dataclass(frozen=True)
class Row:
    """A line of a table.

    Attributes:
        task: a key of `results.METRICS`.
        role: `floor` for random real clips, `ceiling` for all real training clips, else empty.
        method: with the storage and the takes of its clips, where they are not the plain ones.
        network: architecture, with its width where that is not the paper's.
        clips: that an epoch of training shows.
        stored_clips: that the set holds; more than it shows only where it has takes.
        shown: clips that one network is trained on, over all epochs.
        scores: for each metric of the task its mean, deviation and number of runs.
        chance: for each metric of the task the score of a random guess.
        variant: equal for rows that differ only in their budget and their seeds.
        group: rows may be compared only where this is equal.
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
    stored_clips: int
    shown: int
    keyframes: int
    num_bytes: int
    float32_bytes: int
    full_float32_bytes: int
    seconds: float
    variant: str
    group: tuple[str, ...]

    @property
    def metric(self) -> str:
        """The leading metric: the first of the table, and the one that plots show."""
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


def build_rows(results: Iterable[Result]) -> list[Row]:
    """The rows of a table, in an order that does not depend on the order of the results."""
    return sorted(map(_row, results), key=_place)


def groups(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows apart by what they were scored on and how, each group in order."""
    return grouped(rows, lambda row: row.group)


def grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    """The items of each key, in the order in which the keys are first met."""
    found: dict[Hashable, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())


def _row(result: Result) -> Row:
    subject, data = result.subject, result.data
    network = network_of(result.config)
    variant = {key: value for key, value in subject.config.items() if key not in {*BUDGET_KEYS, *SEEDS}}
    return Row(
        label=result.label,
        task=result.task,
        role=role_of(result),
        method=_method(subject),
        network=network,
        protocol=result.protocol,
        data=PurePath(data.path).name or data.path,
        fingerprint=data.fingerprint,
        split=data.split,
        num_test_clips=data.num_clips,
        num_classes=data.num_classes,
        scores={metric: result.summary(metric) for metric in result.metrics},
        chance=data.chance,
        clips=subject.num_videos,
        stored_clips=subject.stored_clips,
        shown=result.shown,
        keyframes=subject.num_keyframes,
        num_bytes=subject.num_bytes,
        float32_bytes=subject.float32_bytes,
        full_float32_bytes=data.train_float32_bytes,
        seconds=fmean(run.seconds for run in result.runs),
        variant=canonical_json([subject.method, network, variant]),
        group=result.group,
    )


def _place(row: Row) -> tuple[Any, ...]:
    # By network and budget, so that rivals of equal size stand together, the floor first.
    budget = (row.network, row.clips, ("floor", "", "ceiling").index(row.role))
    return (row.data, *row.group, *budget, row.method, row.label, row.num_bytes, row.lead, row.variant)


def network_of(config: dict[str, Any]) -> str:
    """The architecture that the options of an evaluation name, with its width where that is not the paper's."""
    model, sizes = str(config.get("model", "unknown")), {key: config.get(key) or 0 for key in ("width", "hidden")}
    # A result file is data: only our own networks are looked up, because that imports a module.
    if model in NETWORKS.registry and sizes["width"] == getattr(NETWORKS.resolve(model)[0], "WIDTH", None):
        sizes["width"] = 0
    return ", ".join([model, *(f"{key} {size}" for key, size in sizes.items() if size)])


def _method(subject: Subject) -> str:
    # Storage and takes decide, too, how much there is to see at equal bytes and at equal clips.
    storage = subject.config.get("storage")
    kept = "" if storage in (None, *NUMBERS) else f"{storage} {subject.config.get('quality')}"
    return ", ".join(filter(None, [subject.method, kept, "takes" if _has_takes(subject) else ""]))


def _has_takes(subject: Subject) -> bool:
    return subject.stored_clips != subject.num_videos


def role_of(result: Result) -> str:
    """`floor`, `ceiling`, or nothing."""
    subject, data = result.subject, result.data
    # Results of earlier versions name no fingerprint.
    is_own = subject.fingerprint == data.fingerprint if subject.fingerprint else subject.path == data.path
    if subject.made_from or (subject.kind == "store" and not is_own):
        return ""  # Clips of another store are neither floor nor ceiling of this one.
    if subject.method in FLOORS and not _has_takes(subject):
        return "floor"
    return "ceiling" if subject.method in CEILINGS else ""
