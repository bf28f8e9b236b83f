"""Result: the scores of networks trained on a set, with the facts needed to check and repeat them."""

import math
import os
import re
import statistics
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from prism.artifacts.kinds import JSON, RESULT, check_format, kind_of
from prism.config import as_path
from prism.errors import ArtifactError
from prism.machine.files import lock, write_atomically
from prism.machine.provenance import versions
from prism.machine.text_io import LARGEST, as_text, canonical_json, parse_json, read_text, typed

VERSION = 1
SEEDS = ("seed", "embedder_seed", "network_seed")  # The options that differ between sets of one group.
UNLEARNED = 0.25
"""Training loss as a share of the loss of guessing, above which more epochs added 5 to 10 points (transfer.md)."""
TASK = "classification"
HEADINGS = {"top1": "top-1", "top5": "top-5"}
"""Headings of a run's scores, the leading score first. Data of up to five classes has no top5."""
TESTS = ("test", "test-random")  # Splits that settings are not chosen on.


@dataclass(frozen=True)
class NetworkRun:
    """One network, trained from one seed and scored once, after the last epoch, as the protocol says.

    Attributes:
        scores: top1, top5: the share of clips, in 0..1, whose class is among the 1 or 5 best guesses.
        train_loss: mean loss of the last epoch.
        seconds: training and scoring time.
        hits: correctly classified clips (top-1) of each recording, by class, in the format of `by_recording`.
    """

    seed: int
    scores: dict[str, float]
    train_loss: float
    seconds: float
    hits: tuple[str, ...] = ()


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
        fingerprint: digest of the set or store.
        stored_clips: clips that the set stores; with takes more than `num_videos`.
        made_from: fingerprint of the store that the set was made from; empty if it is the store that scores.
        shared_videos: scored videos that seem to be training videos of the other store.
        videos: digest of the set's videos without the record of their making; equal for copies under two seeds.
    """

    kind: str
    path: str
    method: str
    num_videos: int
    num_keyframes: int
    num_bytes: int
    float32_bytes: int
    config: dict[str, Any]
    fingerprint: str
    stored_clips: int
    made_from: str = ""
    shared_videos: int = 0
    videos: str = ""

    @property
    def making(self) -> dict[str, Any]:
        """Method and options of the set without its seeds: equal for sets of one group."""
        made = {"method": self.method, "videos": self.num_videos, "store": self.made_from}
        unused = ("model", "width", "epochs") if self.method == "random" else ()
        made["options"] = {key: value for key, value in self.config.items() if key not in (*SEEDS, *unused)}
        # A set without a seed, such as a third-party set, may be anything: it is a group of its own.
        has_seed = any(type(self.config.get(name)) is int for name in SEEDS)
        return made if has_seed else {**made, "set": self.fingerprint}

    def leak_caution(self) -> str:
        """A caution if the set is from another store, whose training clips may be scored here; else empty."""
        if self.shared_videos:
            said = f"{self.shared_videos:,} of the videos that score have the class, path and length of videos of"
            return f"{said} the other store that was trained on. If they are the same, the score is too high."
        if self.made_from:
            said = "the set was made from another store than the one that scores"
            return f"{said}. If that trained on videos that score here, the score is too high."
        return ""


@dataclass(frozen=True)
class Data:
    """The clips that networks were scored on, all of one split.

    Attributes:
        path: the store's folder, relative to the result's folder.
        fingerprint: digest of the store's clips and labels.
        chance: score of random guesses by metric, in 0..1.
        train_float32_bytes: all training clips of the store as the paper counts them.
        scored_classes: classes that have a clip in the split.
        recordings: clips of each recording by class, in the format of `by_recording`.
    """

    path: str
    fingerprint: str
    split: str
    num_clips: int
    num_classes: int
    chance: dict[str, float]
    train_float32_bytes: int
    scored_classes: int
    recordings: tuple[str, ...] = ()


def by_recording(recordings: Iterable[tuple[str, str]], values: Iterable[int]) -> tuple[str, ...]:
    """Sums of values over recordings: a text such as `3 0 2` for each class, in the order of first appearance.

    Args:
        recordings: class and recording of each value.
    """
    sums = dict[str, Counter[str]]()
    for (label, recording), value in zip(recordings, values, strict=True):
        sums.setdefault(label, Counter())[recording] += value
    return tuple(" ".join(map(str, of_class.values())) for of_class in sums.values())


def numbers_of(texts: Iterable[str]) -> list[list[int]]:
    """The sums in the texts of `by_recording`: a list for each class."""
    return [[int(number) for number in text.split()] for text in texts]


@dataclass(frozen=True)
class Result:
    """Scores of one set for one task, network architecture and protocol, over several seeds.

    Paths are relative to the folder of `file`, from which the result was read.
    """

    label: str
    protocol: str
    subject: Subject
    data: Data
    config: dict[str, Any]
    runs: tuple[NetworkRun, ...]
    provenance: dict[str, Any]
    task: str = TASK
    file: Path | None = field(default=None, compare=False, repr=False)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the scores of each run, the leading score first."""
        return metrics_of(self.data.num_classes)

    @property
    def identity(self) -> dict[str, Any]:
        """Facts that must agree before runs of two results are joined; seeds, paths and machine may differ."""
        made_with = {name: self.provenance.get(name) for name in versions()}
        subject = {key: value for key, value in asdict(self.subject).items() if key not in ("path", "videos")}
        config = {key: value for key, value in self.config.items() if key != "seeds"}
        data = {name: getattr(self.data, name) for name in ("fingerprint", "split", "recordings")}
        named = {"label": self.label, "task": self.task, "protocol": self.protocol}
        return {**named, "subject": subject, "data": data, "config": config, "versions": made_with}

    @property
    def group(self) -> tuple[str, ...]:
        """Fingerprint of the data, split, protocol and task: only results that agree in these may be compared."""
        return (self.data.fingerprint, self.data.split, self.protocol, self.task)

    def locate(self, path: str) -> Path:
        """The place of a file or folder that the result names by a path relative to its own file."""
        folder = (self.file or Path()).parent
        # If the folder is a link, `..` in the path means the parent of the link's target.
        real = Path(os.path.realpath(folder))
        here, there = (Path(os.path.normpath(one / path)) for one in (folder, real))
        return there if real != Path(os.path.abspath(folder)) and os.path.exists(there) else here

    @property
    def subject_path(self) -> Path:
        """The place of the set or store that the networks were trained on."""
        return self.locate(self.subject.path)

    def of_seeds(self, seeds: Collection[int]) -> "Result":
        """The result as if only networks with these seeds had been requested; some may be missing."""
        runs = tuple(run for run in self.runs if run.seed in seeds)
        return replace(self, runs=runs, config={**self.config, "seeds": len(seeds)})

    def summary(self, metric: str = "") -> tuple[float, float | None, int]:
        """Mean, sample standard deviation (None for one run) and number of runs in a metric (the leading one)."""
        values = [run.scores[metric or self.metrics[0]] for run in self.runs]
        return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values)

    @property
    def shown(self) -> int:
        """Number of clips that one network is trained on, over all epochs; 0 if the epochs are unknown."""
        epochs = self.config.get("epochs")
        return self.subject.num_videos * epochs if type(epochs) is int and 0 <= epochs < LARGEST else 0

    @property
    def num_untrained(self) -> int:
        """Number of networks whose training loss ended near log C, the loss of guessing: they learned nothing."""
        return sum(run.train_loss >= 0.99 * math.log(self.data.num_classes) for run in self.runs)

    @property
    def num_missing(self) -> int:
        """Number of networks that were requested and are missing."""
        wanted = self.config.get("seeds")
        return max(0, wanted - len(self.runs)) if type(wanted) is int else 0

    def __str__(self) -> str:
        scores = list[str]()
        for metric in self.metrics:
            mean, std, n = self.summary(metric)
            spread = "–" if std is None else f"{100 * std / math.sqrt(n):.1f}"
            scores.append(f"{HEADINGS[metric]} {100 * mean:.1f} ± {spread} ({n})")
        # The split is named because settings must not be chosen on test scores.
        text = f"{self.label}: {', '.join(scores)}, on {self.data.num_clips} {self.data.split} clips"
        return "\n".join(filter(None, (text, self.caution and f"Caution: {self.caution}")))

    @property
    def caution(self) -> str:
        """Sentences on leaks, classes without clips, and missing, untrained or unfinished networks; else empty."""
        subject, data, found = self.subject, self.data, [self.subject.leak_caution()]
        is_real, of_store = subject.kind == "store", subject.fingerprint == data.fingerprint
        if data.split == "train" and not subject.made_from and (of_store or not is_real):
            seen = "the networks may have been shown" if is_real else "the set may have been made from"
            found.append(f"scored on training clips, which {seen}: the score says little of other clips.")
        if data.scored_classes != data.num_classes:
            split = f"the {data.split} clips are of {data.scored_classes} of {data.num_classes} classes"
            found.append(f"{split}: the score says nothing of the others.")
        if self.num_missing:
            there = f"{len(self.runs)} of {self.config['seeds']} networks are there"
            found.append(f"{there}: the run was stopped, or the others have diverged.")
        losses, guess = sorted(run.train_loss for run in self.runs), math.log(data.num_classes)
        if self.num_untrained:
            clip = "" if self.config.get("max_grad_norm") else "--max-grad-norm 20, "
            ended = f"{losses[-self.num_untrained]:.2f} or above, where guessing has {guess:.2f}: they have hardly"
            said = f"the training loss of {self.num_untrained} of {len(losses)} networks ended at {ended}"
            advice = f"Try {clip}a smaller --lr, or more --epochs."
            found.append(f"{said} learned the clips that they were shown. {advice}")
        elif losses and (mean := statistics.fmean(losses)) > UNLEARNED * guess:
            said = f"their training loss ended at {mean:.2f} in the mean, where guessing has {guess:.2f}"
            advice = "Choose --epochs on validation clips, for each set."
            found.append(f"networks may not have learned all that they were shown: {said}. {advice}")
        said = " ".join(text[0].upper() + text[1:] for text in found if text)
        return said[:1].lower() + said[1:]

    def to_json(self) -> str:
        """The text of the result file."""
        content, numbers = asdict(self), ("mean", "std", "n")
        content["summary"] = {m: dict(zip(numbers, self.summary(m), strict=True)) for m in self.metrics}
        del content["file"]
        return canonical_json({"format": "prism-result", "version": VERSION, **content}, indent=1) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the result, with paths relative to the new file; if that fails, an older file of that name stays.

        Raises:
            BusyError: another run is writing the file.
        """
        subject, data = (
            replace(one, path=one.path and relative_to_result(self.locate(one.path), path))
            for one in (self.subject, self.data)
        )
        with lock(path):
            write_atomically(Path(path), replace(self, subject=subject, data=data).to_json().encode())

    @classmethod
    def load(cls, path: str | Path) -> "Result":
        """The result in a file.

        Raises:
            ArtifactError: the file is missing, foreign, damaged or of a newer format.
        """
        path = as_path(path, "a result, or its file,")
        try:
            if (found := kind_of(path)) not in (RESULT, JSON):
                raise ArtifactError(f"'{path}' is {found}, not a result. prism evaluate makes one.")
            content = parse_json(read_text(path))
        except (OSError, ValueError) as error:
            raise ArtifactError(f"'{path}' is not a result, or is damaged: {error}.") from None
        check_format(content, "prism-result", VERSION, path)
        try:
            parts = {key: value for key, value in content.items() if key not in ("format", "version", "summary")}
            result = typed(Result, parts)
            if problem := _problem(result):
                raise ValueError(problem)
        except ValueError as problem:
            raise ArtifactError(f"'{path}' is not a valid result: {problem}.") from None
        return replace(result, file=path)


def metrics_of(num_classes: int) -> tuple[str, ...]:
    """Names of a run's scores, the leading score first; no top5 for up to five classes, where it is always 1."""
    return tuple(HEADINGS)[: 1 if num_classes <= 5 else 2]


def relative_to_result(path: str | Path, result: str | Path | None) -> str:
    """A path relative to the folder of a result file (for None, the working folder), so that runs can be moved."""
    folder, here = (os.path.realpath(Path(one).parent) for one in (result or "", path))
    return as_text(Path(os.path.relpath(Path(here, Path(path).name), folder)).as_posix())


def _problem(found: Result) -> str:
    """The first invalid value of a result from an untrusted file, whose types are right; else empty."""
    subject, data, runs = found.subject, found.data, found.runs
    every = [data.chance, *(run.scores for run in runs)]
    sizes = (subject.num_videos, subject.num_bytes, subject.float32_bytes, data.train_float32_bytes)
    is_off = subject.stored_clips < subject.num_videos or data.scored_classes > data.num_classes
    problems = {
        f"its task is {found.task!r}, not {TASK}": found.task != TASK,
        "it holds no run": not runs,
        f"the scores are not {' and '.join(found.metrics)}": any(s.keys() != {*found.metrics} for s in every),
        "a score lies outside 0..1": not all(0 <= share <= 1 for scores in every for share in scores.values()),
        "a training loss is not between 0 and 2^60": not all(0 <= run.train_loss < LARGEST for run in runs),
        "the seconds of a run are not between 0 and 2^60": not all(0 <= run.seconds < LARGEST for run in runs),
        "stored_clips is below num_videos, or scored_classes above num_classes": is_off,
        "its hits are not those of its recordings and its score": not all(_fit(run, data) for run in runs),
        "a count is zero": 0 in (*sizes, data.num_clips, data.num_classes, data.scored_classes),
    }
    return next((problem for problem, is_so in problems.items() if is_so), "")


def _fit(run: NetworkRun, data: Data) -> bool:
    """Whether hits, if there are any, fit the clips of each recording and add up to the top-1 score."""
    hits, recordings = run.hits, data.recordings
    if not all(re.fullmatch(r"\d{1,9}( \d{1,9})*", text, re.ASCII) for text in (*hits, *recordings)):
        return False
    found, clips = numbers_of(hits or recordings), numbers_of(recordings)
    is_alike = [*map(len, found)] == [*map(len, clips)]
    is_score = not hits or abs(run.scores.get("top1", 0) * data.num_clips - sum(chain(*found))) < 0.5
    return is_alike and is_score and all(a <= b for a, b in zip(chain(*found), chain(*clips), strict=True))
