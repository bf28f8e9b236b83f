"""Ranking: the scores of candidates that were trained on sets and on all clips, and whether the orders agree."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from prism.artifacts.estimates import LEVEL
from prism.artifacts.ranks import Agreement, agreement, best, own_agreement
from prism.artifacts.results import (
    LARGEST,
    VERSION,
    Data,
    Subject,
    build_typed,
    check_counts,
    read_record,
    typed,
)
from prism.errors import ResultError
from prism.machine.files import write_atomically
from prism.machine.provenance import versions
from prism.machine.texts import canonical_json

FULL = -1
"""The number of all training clips, where sets are counted from 0."""
RANGES = {"seed": LARGEST, "seeds": 2**20, "full_seeds": 2**20, "steps": 2**40, "full_steps": 2**40}
RANGES |= {"batch_size": 2**40, "resamples": 100_000}
"""The largest values that the options of a file may have."""


@dataclass(frozen=True)
class RankedSet:
    """A set on which all candidates are trained.

    Attributes:
        name: of its file, or its method.
        make_seconds: the time to make it; 0 where that is not recorded.
    """

    name: str
    subject: Subject
    make_seconds: float


@dataclass(frozen=True)
class RankedTrial:
    """One network of a candidate, trained once and scored once.

    Attributes:
        candidate: its number, from 0.
        set: the number of its set, from 0; `FULL` for all training clips.
        seed: of its training.
        score: the share of right guesses, in 0..1; None where training diverged, which counts as 0.
        seconds: training and scoring time.
    """

    candidate: int
    set: int
    seed: int
    score: float | None
    seconds: float


@dataclass(frozen=True)
class Kind:
    """Sets that were made alike, from different seeds.

    Attributes:
        name: what the names of the sets are without their numbers, or their method.
        sets: their numbers.
    """

    name: str
    sets: tuple[int, ...]


@dataclass(frozen=True)
class Ranking:
    """A table of scores: every candidate on every set, and on all training clips.

    Attributes:
        candidates: the names of the candidates, in their order, and the options of each.
        config: options of the run.
        data: the clips that scored.
        full: all training clips.
        sets: those that were ranked on.
        trials: the networks so far, in the order of candidates, sets (`FULL` first) and seeds.
    """

    candidates: dict[str, dict[str, Any]]
    config: dict[str, Any]
    data: Data
    full: Subject
    sets: tuple[RankedSet, ...]
    trials: tuple[RankedTrial, ...]
    provenance: dict[str, Any]

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides the scores of its trials: paths and machine may differ."""
        sets = {str(i): {"name": one.name, "set": one.subject.fingerprint} for i, one in enumerate(self.sets)}
        data = {"fingerprint": self.data.fingerprint, "split": self.data.split}
        made_with = {name: self.provenance.get(name) for name in versions()}
        order = {str(i): name for i, name in enumerate(self.candidates)}
        config = {key: value for key, value in self.config.items() if key != "resamples"}
        said = {"candidates": self.candidates, "order": order, "config": config}
        return {**said, "data": data, "sets": sets, "provenance": made_with}

    @property
    def expected(self) -> dict[int, range]:
        """For all clips and for each set the seeds of the networks of every candidate.

        No network on a set has a seed of one on all clips: what they shared would look like agreement. Sets of
        one kind share none, and the first set of every kind has the same ones.
        """
        seed, seeds, first = self.config["seed"], self.config["seeds"], self.config["full_seeds"]
        found = {FULL: range(seed, seed + first)}
        for kind in self.kinds:
            for place, number in enumerate(kind.sets):
                start = seed + first + place * seeds
                found[number] = range(start, start + seeds)
        return found

    @property
    def is_complete(self) -> bool:
        """Whether every network has been trained."""
        return len(self.trials) == len(self.candidates) * sum(map(len, self.expected.values()))

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The sets by how they were made, in the order of their first ones."""
        members: dict[str, list[int]] = {}
        for number, one in enumerate(self.sets):
            members.setdefault(canonical_json(one.subject.making), []).append(number)
        names: list[str] = []
        for numbers in members.values():
            name = _shared_name([self.sets[number].name for number in numbers])
            name = name or self.sets[numbers[0]].subject.method
            while name in names:
                name = f"{name} again"
            names.append(name)
        return tuple(Kind(name, tuple(sets)) for name, sets in zip(names, members.values(), strict=True))

    @cached_property
    def scores(self) -> dict[int, Tensor]:
        """(C, K) for all clips and for each set: the scores of K networks of each candidate.

        Raises:
            ResultError: networks are missing.
        """
        if not self.is_complete:
            raise ResultError("the ranking is not finished. Repeat its command with --resume.")
        found = {}
        for number, seeds in self.expected.items():
            table = torch.zeros(len(self.candidates), len(seeds), dtype=torch.float64)
            for trial in self.trials:
                if trial.set == number:
                    table[trial.candidate, trial.seed - seeds.start] = trial.score or 0.0
            found[number] = table
        return found

    def of_kind(self, kind: Kind) -> Tensor:
        """(S, C, K): the scores of K networks of each candidate on each of the S sets of a kind."""
        return torch.stack([self.scores[number] for number in kind.sets])

    @cached_property
    def agreements(self) -> dict[str, Agreement]:
        """For each kind how well its sets put the candidates in the order of the full data."""
        full, how = self.scores[FULL], {"seed": self.config["seed"], "resamples": self.config["resamples"]}
        return {kind.name: agreement(full, self.of_kind(kind), kind=kind.name, **how) for kind in self.kinds}

    @property
    def own_agreement(self) -> dict[str, float] | None:
        """How well the networks on all clips agree with themselves; None for one of each candidate."""
        return own_agreement(self.scores[FULL])

    def best(self, number: int) -> list[str]:
        """The candidate with the best mean score on a set, or on all clips; several where theirs are equal."""
        is_best = best(self.scores[number].mean(-1)).tolist()
        return [name for name, is_one in zip(self.candidates, is_best, strict=True) if is_one]

    def picks(self, kind: Kind) -> dict[str, int]:
        """The candidates that score best on the sets of a kind, and on how many of these; the most often first."""
        counts = dict.fromkeys(self.candidates, 0)
        for name in (name for number in kind.sets for name in self.best(number)):
            counts[name] += 1
        return {name: count for name, count in sorted(counts.items(), key=lambda item: -item[1]) if count}

    def seconds(self, number: int) -> float:
        """The mean time of a network of each candidate, added up: a search over all candidates on these clips."""
        times: dict[int, list[float]] = {}
        for trial in self.trials:
            if trial.set == number:
                times.setdefault(trial.candidate, []).append(trial.seconds)
        return sum(map(fmean, times.values()))

    def __str__(self) -> str:
        lines = []
        for name, found in self.agreements.items():
            low, high = found.interval("tau", LEVEL)
            tau, lost = found.values["tau"], 100 * found.values["regret"]
            lines.append(f"{name}: τ {tau:.2f} [{low:.2f}, {high:.2f}], its pick loses {lost:.1f} points")
        return "\n".join(lines)

    def to_json(self) -> str:
        """The text of the ranking's file."""
        content = asdict(self)
        # JSON with sorted keys has no order of candidates.
        content["candidates"] = [{"name": name, **options} for name, options in self.candidates.items()]
        return canonical_json({"format": "prism-ranking", "version": VERSION, **content}, indent=1) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the ranking, or leave what stood under its name before."""
        write_atomically(Path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | Path) -> "Ranking":
        """Read a ranking.

        Raises:
            ResultError: the file is missing, foreign, damaged or of a newer format.
        """
        return read_record(path, "ranking", "prism rank makes one", _checked)


def _checked(content: dict[str, Any]) -> Ranking:
    """The ranking of a file that a stranger may have written."""
    config = typed(dict, content["config"])
    for name, high in RANGES.items():
        if not (-high if name == "seed" else 1) <= typed(int, config[name]) <= high:
            raise ValueError(f"config.{name} is out of range")
    candidates = {}
    for options in typed(list, content["candidates"]):
        name = typed(str, typed(dict, options)["name"])
        candidates[name] = {key: value for key, value in options.items() if key != "name"}
    if len(candidates) != len(content["candidates"]):
        raise ValueError("two candidates have one name")
    sets = tuple(
        RankedSet(typed(str, one["name"]), build_typed(Subject, one["subject"]), typed(float, one["make_seconds"]))
        for one in map(partial(typed, dict), typed(list, content["sets"]))
    )
    trials = tuple(_trial(typed(dict, one)) for one in typed(list, content["trials"]))
    data, full = build_typed(Data, content["data"]), build_typed(Subject, content["full"])
    check_counts(data, full, *(one.subject for one in sets))
    if not 0 <= typed(float, data.chance["top1"]) <= 1:
        raise ValueError("the chance lies outside 0..1")
    if not all(0 <= seconds < LARGEST for seconds in (one.make_seconds for one in sets)):
        raise ValueError("the seconds of a set are out of range")
    found = Ranking(candidates, config, data, full, sets, trials, typed(dict, content["provenance"]))
    if not candidates or not sets:
        raise ValueError("it holds no candidate or no set")
    places = {(trial.candidate, trial.set, trial.seed) for trial in trials}
    seeds = found.expected
    if len(places) < len(trials) or not all(
        0 <= candidate < len(candidates) and number in seeds and seed in seeds[number]
        for candidate, number, seed in places
    ):
        raise ValueError("a trial belongs to no candidate, set or seed, or is there twice")
    return found


def _trial(values: dict[str, Any]) -> RankedTrial:
    trial = RankedTrial(**values)
    for value in (trial.candidate, trial.set, trial.seed):
        typed(int, value)
    if trial.score is not None and not 0 <= typed(float, trial.score) <= 1:
        raise ValueError("a score lies outside 0..1")
    if not 0 <= typed(float, trial.seconds) < LARGEST:
        raise ValueError("the seconds of a trial are out of range")
    return trial


def _shared_name(names: Sequence[str]) -> str:
    """The name of one set, or what those of several are without their numbers; empty where that differs."""
    if len(names) == 1:
        return names[0]
    # Without the last number alone, if that will do: the others tell one kind from the next.
    for numbers in (r"[\W_]*\d*$", r"[\W\d_]+$"):
        stems = {re.sub(numbers, "", name, count=1) for name in names}
        if len(stems) == 1:
            return stems.pop()
    return ""
