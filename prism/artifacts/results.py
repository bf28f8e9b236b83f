"""Result: the scores of networks trained on a set, with everything needed to believe and repeat them."""

import math
import os
import statistics
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from prism.artifacts.kinds import JSON, RESULT, check_format, kind_of
from prism.config import as_path
from prism.errors import ArtifactError
from prism.machine.files import write_atomically
from prism.machine.provenance import versions
from prism.machine.text_io import as_text, canonical_json, parse_json, read_text

VERSION = 1
"""Of the format prism-result."""
LARGEST = 2**60
"""Counts in a file are below it."""

SEEDS = ("seed", "embedder_seed", "network_seed")
"""The options that differ between sets which were made alike."""
METRICS = {"classification": ("top1", "top5"), "retrieval": ("r1", "r5", "r10", "r20")}
"""Task: the scores that each of its runs has, the leading one first."""
HEADINGS = {"top1": "top-1", "top5": "top-5", "r1": "R@1", "r5": "R@5", "r10": "R@10", "r20": "R@20"}
"""How people write a score's name."""


@dataclass(frozen=True)
class NetworkRun:
    """One network, trained from one seed and scored once, after the last epoch, as the protocol says.

    Attributes:
        seed: seed of initialisation, order, dropout, flips and shifts.
        scores: for each metric of the task the share of right clips, in 0..1. top1, top5: the class is
            among the 1 or 5 best guesses. r1, r5, r10, r20: it is that of one of the K nearest clips.
        train_loss: mean loss of the last epoch.
        seconds: training and scoring time.
    """

    seed: int
    scores: dict[str, float]
    train_loss: float
    seconds: float


@dataclass(frozen=True)
class Subject:
    """The clips that networks were trained on.

    Attributes:
        kind: `condensed` for a condensed set, `store` for real clips taken from a store.
        path: the set's file or the store's folder, relative to the result's folder.
        method: `prism`, `random`, …, or `full` and `subset` for real clips of a store.
        num_videos: clips trained on in each epoch.
        num_keyframes: frames stored for them.
        num_bytes: bytes on disk (for a store: of the clips used, as uint8).
        float32_bytes: bytes as the paper counts them, 4 for each stored value.
        config: options of the run that made the set.
        fingerprint: digest of the content of the set or store; empty in results of earlier versions.
        stored_clips: clips that the set holds. With takes they are more than `num_videos`; otherwise, and by
            default, as many.
        made_from: fingerprint of the store that the set was made from, where that is not the one that scores;
            empty where it is, or where nobody knows.
        shared_videos: videos that score and seem to be among those of another store that was trained on.
        videos: digest of a set apart from what it records of its making, equal for copies under two seeds; empty
            for clips of a store, and in results of earlier versions.

    A file has the last four only where they are not the default.
    """

    kind: str
    path: str
    method: str
    num_videos: int
    num_keyframes: int
    num_bytes: int
    float32_bytes: int
    config: dict[str, Any]
    fingerprint: str = ""
    stored_clips: int = 0
    made_from: str = ""
    shared_videos: int = 0
    videos: str = ""

    def __post_init__(self) -> None:
        if self.stored_clips == 0:
            object.__setattr__(self, "stored_clips", self.num_videos)

    @property
    def has_seed(self) -> bool:
        """Whether the set was made from a seed that it names, so that another seed makes another one like it."""
        return any(type(self.config.get(name)) is int for name in SEEDS)

    @property
    def making(self) -> dict[str, Any]:
        """How the set was made: equal for sets that were made alike, which differ in nothing but their seeds.

        A set that names no seed, as of another tool or of a list, may be anything: it is alike to itself alone.
        """
        options = {key: value for key, value in self.config.items() if key not in SEEDS}
        itself = {} if self.has_seed else {"set": self.fingerprint or self.path}
        made = {"method": self.method, "videos": self.num_videos, "options": options, "store": self.made_from}
        return {**made, **itself}

    @property
    def said_of_leaks(self) -> str:
        """A sentence where clips of another store were trained on, which may be some that score; or nothing."""
        if self.shared_videos:
            return (
                f"{self.shared_videos:,} of the videos that score have the class, path and length, or the pixels, "
                "of videos of the other store that was trained on. If they are the same, the score is too high."
            )
        if self.made_from:
            return (
                "the set was made from another store than the one that scores. If both hold the same videos, "
                "training clips are among those that score, and the score is too high."
            )
        return ""


@dataclass(frozen=True)
class Data:
    """The clips that networks were scored on.

    Attributes:
        path: the store's folder, relative to the result's folder.
        fingerprint: digest of the store's clips and labels.
        split: the split that was scored.
        num_clips: clips in that split.
        num_classes: number of classes.
        chance: for each metric of the task what guessing at random scores, in 0..1.
        train_float32_bytes: all training clips of the store as the paper counts them.
    """

    path: str
    fingerprint: str
    split: str
    num_clips: int
    num_classes: int
    chance: dict[str, float]
    train_float32_bytes: int


@dataclass(frozen=True)
class Result:
    """A row of a table: one set, one task, one network architecture, one protocol, several seeds.

    Attributes:
        task: a key of `METRICS`.
        protocol: a key of `protocols.PROTOCOLS`.
    """

    label: str
    task: str
    protocol: str
    subject: Subject
    data: Data
    config: dict[str, Any]
    runs: tuple[NetworkRun, ...]
    provenance: dict[str, Any]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The scores that each run has, the leading one first."""
        return METRICS[self.task]

    @property
    def identity(self) -> dict[str, Any]:
        """All that two results must share for their runs to be one sample: seeds, paths and machine may differ."""
        made_with = {name: self.provenance.get(name) for name in versions()}
        subject = {key: value for key, value in asdict(self.subject).items() if key not in ("path", "videos")}
        config = {key: value for key, value in self.config.items() if key != "seeds"}
        data = {"fingerprint": self.data.fingerprint, "split": self.data.split}
        said = {"label": self.label, "task": self.task, "protocol": self.protocol}
        return {**said, "subject": subject, "data": data, "config": config, "versions": made_with}

    @property
    def group(self) -> tuple[str, ...]:
        """Results may be compared only where this is equal: content of the data, split, protocol and task."""
        return (self.data.fingerprint, self.data.split, self.protocol, self.task)

    def of_seeds(self, seeds: Collection[int]) -> "Result":
        """The result as if networks of these seeds alone had been asked for; some may be missing."""
        runs = tuple(run for run in self.runs if run.seed in seeds)
        return replace(self, runs=runs, config={**self.config, "seeds": len(seeds)})

    def summary(self, metric: str = "") -> tuple[float, float, int]:
        """Mean, sample standard deviation (0 for one run) and number of runs of a metric (the leading one)."""
        values = [run.scores[metric or self.metrics[0]] for run in self.runs]
        return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0, len(values)

    @property
    def shown(self) -> int:
        """Clips that one network is trained on, over all epochs."""
        epochs = self.config.get("epochs")
        return self.subject.num_videos * epochs if type(epochs) is int and 0 <= epochs < LARGEST else 0

    @property
    def _guess(self) -> float:
        """The training loss of guessing: log C of a classifier; a contrastive loss has no such level."""
        return math.log(self.data.num_classes) if self.task == "classification" else math.inf

    @property
    def num_untrained(self) -> int:
        """Classifiers that hardly learned the clips they saw: their training loss ended near that of guessing.

        Too few epochs, or a learning rate at which every ReLU of a layer dies, are the usual causes. The score of
        such a network, often chance, says little of the set.
        """
        return sum(run.train_loss >= 0.99 * self._guess for run in self.runs)

    def __str__(self) -> str:
        scores = ", ".join(f"{HEADINGS[metric]} {percent(self.summary(metric))}" for metric in self.metrics)
        # Which clips they are is said: a choice must not be made on test, and nobody sees that by the score.
        said = f"{self.label}: {scores}, on {self.data.num_clips} {self.data.split} clips"
        return "\n".join(filter(None, (said, self.caution and f"Caution: {self.caution}")))

    @property
    def caution(self) -> str:
        """Sentences on clips that may have been seen, networks that are missing, or hardly learned; or nothing."""
        seen = (self.subject.said_of_leaks, self._said_of_training_clips)
        said = list(filter(None, (*seen, self._said_of_missing, self._said_of_untrained)))
        return " ".join(said[:1] + [one[0].upper() + one[1:] for one in said[1:]])

    @property
    def _said_of_training_clips(self) -> str:
        is_real, of_store = self.subject.kind == "store", self.subject.fingerprint == self.data.fingerprint
        if self.data.split != "train" or self.subject.made_from or (is_real and not of_store):
            return ""
        seen = "the networks may have been shown" if is_real else "the set may have been made from"
        return f"scored on training clips, which {seen}: the score says little of other clips."

    @property
    def num_missing(self) -> int:
        """Networks that were asked for and are not there."""
        wanted = self.config.get("seeds")
        return max(0, wanted - len(self.runs)) if type(wanted) is int else 0

    @property
    def _said_of_missing(self) -> str:
        if self.num_missing == 0:
            return ""
        there, wanted = len(self.runs), self.config["seeds"]
        return f"{there} of {wanted} networks are there: the run was stopped, or the others have diverged."

    @property
    def _said_of_untrained(self) -> str:
        if self.num_untrained == 0:
            return ""
        losses = sorted(run.train_loss for run in self.runs)
        return (
            f"the training loss of {self.num_untrained} of {len(losses)} networks ended at "
            f"{losses[-self.num_untrained]:.2f} or above, where guessing has {self._guess:.2f}: they have hardly "
            "learned the clips that they were shown. Try --max-grad-norm 20, a smaller --lr, or more --epochs."
        )

    def to_json(self) -> str:
        """The text of the result file."""
        summary = {m: dict(zip(("mean", "std", "n"), self.summary(m), strict=True)) for m in self.metrics}
        content = {"format": "prism-result", "version": VERSION, **asdict(self), "summary": summary}
        defaults = {"stored_clips": self.subject.num_videos, "made_from": "", "shared_videos": 0, "videos": ""}
        for name, default in defaults.items():
            if content["subject"][name] == default:
                del content["subject"][name]
        return canonical_json(content, indent=1) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the result, or leave what stood under its name before."""
        write_atomically(Path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | Path) -> "Result":
        """Read a result.

        Raises:
            ArtifactError: the file is missing, foreign, damaged or of a newer format.
        """
        path = as_path(path, "a result, or its file,")
        if not path.exists():
            raise ArtifactError(f"result '{path}' does not exist.")
        try:
            if (found := kind_of(path)) not in (RESULT, JSON):
                raise ArtifactError(
                    f"'{path}' is {found}, not a result. prism evaluate and prism retrieve make one."
                )
            content = parse_json(read_text(path))
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else error
            raise ArtifactError(f"'{path}' is not a result, or is damaged: {problem}.") from None
        check_format(content, "prism-result", VERSION, ArtifactError, f"'{path}' is not a result: it", f"'{path}'")
        try:
            return _checked(content)
        except KeyError as error:
            raise ArtifactError(f"'{path}' is not a valid result: it has no {error}.") from None
        except (TypeError, ValueError) as error:
            raise ArtifactError(f"'{path}' is not a valid result: {error}.") from None


def _checked(content: dict[str, Any]) -> Result:
    """The result of a file that a stranger may have written."""
    task = typed(str, content["task"])
    if task not in METRICS:
        raise ValueError(f"the task {task!r} is none of {', '.join(METRICS)}")
    subject, data = build_typed(Subject, content["subject"]), build_typed(Data, content["data"])
    check_counts(subject, data)
    runs = tuple(build_typed(NetworkRun, run) for run in typed(list, content["runs"]))
    for scores in (data.chance, *(run.scores for run in runs)):
        if set(scores) != set(METRICS[task]):
            raise ValueError(f"the scores of {task} are {', '.join(METRICS[task])}")
        if not all(0 <= typed(float, score) <= 1 for score in scores.values()):
            raise ValueError("a score lies outside 0..1")
    if not runs:
        raise ValueError("it holds no run")
    if not all(0 <= run.seconds < LARGEST for run in runs):
        raise ValueError("the seconds of a run are not between 0 and 2^60")
    label, protocol = typed(str, content["label"]), typed(str, content["protocol"])
    config, provenance = typed(dict, content["config"]), typed(dict, content["provenance"])
    return Result(label, task, protocol, subject, data, config, runs, provenance)


def percent(summary: tuple[float, float, int]) -> str:
    """`mean ± std (n)` in percent; one run has no deviation."""
    mean, std, n = summary
    return f"{100 * mean:.1f} ± {100 * std:.1f} ({n})" if n > 1 else f"{100 * mean:.1f} ± – ({n})"


def relative_to_result(path: str | Path, result: str | Path | None) -> str:
    """The path as the result file names it, so that a folder of runs can be moved as a whole."""
    return as_text(Path(os.path.relpath(path, Path(result).parent if result else None)).as_posix())


def check_counts(*records: Subject | Data) -> None:
    """Refuse records of a file whose counts are out of range.

    Raises:
        ValueError: one is.
    """
    for record in records:
        for name, value in asdict(record).items():
            # An encoding of somebody else's may store no frames.
            least = 0 if name in ("num_keyframes", "shared_videos") else 1
            if type(value) is int and not least <= value < LARGEST:
                raise ValueError(f"{name} is not between {least} and 2^60")
        if isinstance(record, Subject) and record.stored_clips < record.num_videos:
            raise ValueError("stored_clips is below num_videos")


def typed(kind: type, value: Any) -> Any:
    """A value of a file that a stranger may have written, or TypeError if it is not of a type."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def build_typed(kind: type, values: Any) -> Any:
    """A dataclass from the values of such a file, or TypeError if one has the wrong type."""
    built = kind(**typed(dict, values))
    for name, expected in kind.__annotations__.items():
        base = dict if "dict" in str(expected) else expected
        typed(base, getattr(built, name))
    return built
