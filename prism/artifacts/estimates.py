"""Estimates: the mean score of several sets with its error, and the lead of some sets over others.

A set counts once. Networks of one set share its clips: more networks measure that set better, but not other sets.
More sets do not measure the error over test clips: a lead is measured on some recordings of each class.
"""

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import sub
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from prism.artifacts.results import SEEDS, NetworkRun, Result, numbers_of
from prism.config import as_list
from prism.errors import ArtifactError
from prism.machine.text_io import canonical_json, first_difference

NO_WIDTH = 1e-9  # Errors below it are rounding: two scores on fewer than ten million clips differ by more.
NO_INTERVAL = (
    "A lead with [–] has no interval, because it is the same in every set. With few sets this happens by chance, "
    "and does not mean that the error is zero. Make more sets."
)


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error and the degrees of freedom of that error.

    Attributes:
        recordings: the part of the error due to the choice of test recordings; 0 if unknown.
        least_p: lower bound of the p-value: the p-value over sets alone.
    """

    mean: float
    error: float
    degrees: float
    recordings: float = 0.0
    least_p: float = 0.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval by Student's t; None if all values are equal, because then the error is unknown."""
        if self.error < NO_WIDTH:
            return None
        reach = t_quantile(self.degrees) * self.error
        return self.mean - reach, self.mean + reach

    @property
    def p_value(self) -> float:
        """Probability of a mean at least as far from 0 by chance; 1 if all values are equal."""
        angles, shares = _t_distribution(self.degrees)
        t = abs(self.mean) / self.error if self.error >= NO_WIDTH else 0.0
        return max(self.least_p, 1 - float(np.interp(math.atan(t / math.sqrt(self.degrees)), angles, shares)))

    def joined(self, other: "Estimate") -> "Estimate":
        """The same mean, with its error over sets joined with the error of another estimate, over recordings."""
        error = math.hypot(self.error, other.error)
        if self.error < NO_WIDTH or other.error < NO_WIDTH:
            return self
        # The degrees of freedom of a sum of two variances (Welch, 1947).
        degrees = error**4 / (self.error**4 / self.degrees + other.error**4 / other.degrees)
        alone = replace(self, recordings=other.error)
        both = alone, Estimate(self.mean, error, degrees, other.error, self.p_value)
        # With more degrees of freedom the joined interval may be narrower than over sets; the wider one counts.
        return max(both, key=lambda one: t_quantile(one.degrees) * one.error)

    def __str__(self) -> str:
        found = self.interval
        return f"{100 * self.mean:+z.1f} [{', '.join(f'{100 * end:+z.1f}' for end in found) if found else '–'}]"


def of_mean(values: Sequence[float]) -> Estimate | None:
    """The mean of independent values; None for a single value, whose error is unknown."""
    num = len(values)
    return Estimate(fmean(values), stdev(values) / math.sqrt(num), num - 1) if num > 1 else None


def over_recordings(hits: Sequence[Sequence[float]], clips: Sequence[Sequence[int]]) -> Estimate:
    """Hits as a share of all clips, with the error due to the choice of recordings within the classes.

    The error is that of a stratified sample of clusters (Cochran, Sampling Techniques, 1977, section 11.7):
    recordings are drawn within each class, whose number of clips is fixed. A class of one recording, whose
    variance is unknown, gets the mean variance of the other classes.

    Args:
        hits, clips: numbers of hits and clips of each recording, by class; hits may be differences.
    """
    total, variance, degrees, known = sum(map(sum, clips)), 0.0, 0, 0
    for found, nums in zip(hits, clips, strict=True):
        if (num := len(nums)) > 1:
            share = sum(found) / sum(nums)
            squares = ((hit - share * clip) ** 2 for hit, clip in zip(found, nums, strict=True))
            variance, degrees, known = variance + num / (num - 1) * sum(squares), degrees + num - 1, known + 1
    error = math.sqrt(variance * len(clips) / max(1, known)) / total
    return Estimate(sum(map(sum, hits)) / total, error, degrees)


@dataclass(frozen=True)
class Sample:
    """The scores of the networks of each set of a group, by the set's seed or other key (`_by_set`).

    Attributes:
        hits: mean hits of each recording by class, over the networks of a set, then over sets; empty if unknown.
        clips: clips of each recording by class.
    """

    scores: Mapping[Any, Sequence[float]]
    hits: Sequence[Sequence[float]] = ()
    clips: Sequence[Sequence[int]] = ()

    @property
    def means(self) -> dict[Any, float]:
        """The mean score of each set."""
        return {seed: fmean(scores) for seed, scores in self.scores.items()}

    @property
    def mean(self) -> float:
        """The mean over the sets of their mean scores."""
        return fmean(self.means.values())

    @property
    def spread(self) -> float | None:
        """The standard error after ±: over sets, or over the networks of a single set; None for one network."""
        (scores, *_) = self.scores.values()
        found = of_mean(list(scores if len(self.scores) == 1 else self.means.values()))
        return found and found.error

    @property
    def in_percent(self) -> str:
        """Text `mean ± standard error (sets × networks of each)`; for one set `(networks)`."""
        counts = sorted({len(scores) for scores in self.scores.values()})
        each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
        spread, sets = self.spread, f"{len(self.scores)} × " if len(self.scores) > 1 else ""
        return f"{100 * self.mean:.1f} ± {'–' if spread is None else f'{100 * spread:.1f}'} ({sets}{each})"

    def lead(self, other: "Sample") -> Estimate | None:
        """The lead over a sample of the same seeds; None if the seeds differ, or there is only one.

        Sets of one seed are paired: facts that they share, like their networks' seeds, do not widen the interval.
        The error includes the error over test recordings if the hits of both samples are known.
        """
        ours, theirs = self.means, other.means
        if ours.keys() != theirs.keys() or not (found := of_mean([ours[seed] - theirs[seed] for seed in ours])):
            return None
        if not (self.hits and self.clips == other.clips):
            return found
        pairs = zip(self.hits, other.hits, strict=True)
        return found.joined(over_recordings([[*map(sub, *pair)] for pair in pairs], self.clips))


def lead(
    results: Iterable[Result | str | Path], others: Iterable[Result | str | Path], metric: str = ""
) -> Estimate:
    """Lead of some sets over others of the same seeds: the mean difference, with a 95 % interval.

    The error is over sets, joined with the error over test recordings if all results record their hits.

    Each group holds a result, or its file, for each of two or more seeds; its sets are made and scored alike. The
    training schedules of the groups may differ, their networks must not. `metric` is `top1` or `top5`.

    A warning is given if sets of a group share the networks that score them or under which they were condensed
    (their common error is in no interval over sets), if sets hold the same videos, if all differences are equal
    (there is no interval), and for results with a caution.

    Raises:
        ArtifactError: a result cannot be read; results of a group were made or scored differently, or are of one
            set; the groups differ in network or data; or their seeds differ or are fewer than two.
    """
    groups = [
        [one if isinstance(one, Result) else Result.load(one) for one in as_list(some, "results")]
        for some in (results, others)
    ]
    if not all(groups):
        raise ArtifactError("a lead needs results on either side.")
    first = groups[0][0]
    if metric and metric not in first.metrics:
        raise ArtifactError(f"metric = {metric!r}, but the scores are {', '.join(first.metrics)}.")
    for group in groups:
        for one, other, facts in ((group[0], first, _scoring), *((one, group[0], _making) for one in group)):
            if (found := facts(one)) != (wanted := facts(other)):
                difference = first_difference(found, wanted)
                raise ArtifactError(f"'{one.label}' must not be compared with '{other.label}': {difference}.")
        if len(dict(keyed := _by_set(group))) < len(keyed):
            said = f"two results of '{group[0].label}' are of one set, or of sets with the same seeds"
            advice = "A group has one result for each set: add networks to it with --seeds and --resume."
            raise ArtifactError(f"{said}. {advice}")
    ours, theirs = (sample_of(some, metric) for some in groups)
    if not (found := ours.lead(theirs)):
        seeds = " and ".join(f"seeds {', '.join(map(str, some.scores))}" for some in (ours, theirs))
        raise ArtifactError(f"a lead needs sets of the same two or more seeds on either side, got {seeds}.")
    doubts = ["\n".join(doubts_of(some)) for some in groups]
    for warning in filter(None, [*doubts, "" if found.interval else NO_INTERVAL]):
        warnings.warn(warning, stacklevel=2)
    return found


def _scoring(result: Result) -> dict[str, Any]:
    network = {key: result.config.get(key) for key in ("model", "width", "hidden")}
    return dict(zip(("data", "split", "protocol", "task"), result.group, strict=True)) | {"network": network}


def _making(result: Result) -> dict[str, Any]:
    schedule = {key: value for key, value in result.config.items() if key not in ("seed", "seeds")}
    return {**_scoring(result), "made": result.subject.making, "config": schedule}


def sample_of(results: Sequence[Result], metric: str = "") -> Sample:
    """The scores of a group of results as a sample, in a metric (by default the leading one)."""
    named, runs = metric or results[0].metrics[0], dict[Any, dict[int, NetworkRun]]()
    for key, result in _by_set(results):
        runs.setdefault(key, {}).update((run.seed, run) for run in result.runs)
    scores = {key: [run.scores[named] for run in of_set.values()] for key, of_set in runs.items()}
    if named != results[0].metrics[0] or len({result.data.recordings for result in results}) > 1:
        return Sample(scores)
    every = [[numbers_of(run.hits) for run in of_set.values()] for of_set in runs.values()]
    if not all(hits for of_set in every for hits in of_set):
        return Sample(scores)
    return Sample(scores, _mean([_mean(of_set) for of_set in every]), numbers_of(results[0].data.recordings))


def _mean(tables: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    return [[fmean(cell) for cell in zip(*rows, strict=True)] for rows in zip(*tables, strict=True)]


def _by_set(results: Sequence[Result]) -> list[tuple[Any, Result]]:
    """The results of a group, each with a key of its set; results of one set have equal keys."""
    if results[0].subject.method == "subset":
        # Every network has clips of its own.
        return [(run.seed, replace(one, runs=(run,))) for one in results for run in one.runs]
    configs = [result.subject.config for result in results]
    # The key is the first seed option by which all sets differ (for herding the embedder's), else all seeds.
    # A set without a seed has no partner in the other group, but it must not count twice.
    options = [[config.get(name) for config in configs] for name in SEEDS]
    every = [canonical_json(of_set) for of_set in zip(*options, strict=True)]
    seeded = (one for one in options if all(type(seed) is int for seed in one))
    keys = next((one for one in seeded if len(set(one)) == len(set(every))), every)
    return [
        (key if type(seed) is int else result.subject.fingerprint, result)
        for result, seed, key in zip(results, options[0], keys, strict=True)
    ]


def doubts_of(results: Sequence[Result]) -> list[str]:
    """Cautions on the networks of a group as a whole, and on networks or videos that its sets share."""
    runs, missing = tuple(run for one in results for run in one.runs), sum(one.num_missing for one in results)
    every = replace(results[0], runs=runs, config={**results[0].config, "seeds": len(runs) + missing})
    own = [f"“{every.label}”: {every.caution}"] if every.caution else []
    sets, label = dict(_by_set(results)), results[0].label
    networks = Counter(seed for _, seed in {(key, run.seed) for key, one in _by_set(results) for run in one.runs})
    num_shared = sum(count > 1 for count in networks.values())
    configs = [one.subject.config for one in sets.values()]
    made = _num_alike(config.get("network_seed") for config in configs if config.get("iterations", 1))
    error = "no interval over sets can see the error that they have in common. Give each set"
    shared = {
        f"{len(networks):,} networks, by their seeds, score more than one set of “{label}”: {error} networks of "
        "its own: with --seeds 3 those of --seed 0, 3, 6 and so on.": num_shared,
        f"{len(sets)} sets of “{label}” were condensed under the same networks as another one: {error} a "
        "--network-seed of its own.": made,
        f"{len(sets)} sets of “{label}” hold the same videos as another one. Of a method that draws nothing, "
        "--embedder-seed makes others.": _num_alike(one.subject.videos or None for one in sets.values()),
    }
    return [*own, *(f"{count:,} of {said}" for said, count in shared.items() if count)]


def _num_alike(values: Iterable[Any]) -> int:
    """Number of values that equal another value; None does not count."""
    return sum(count for value, count in Counter(map(repr, values)).items() if count > 1 and value != "None")


def t_quantile(degrees: float) -> float:
    """The t for which 95 % of Student's distribution lie in −t..t."""
    angles, shares = _t_distribution(degrees)
    return math.sqrt(degrees) * math.tan(np.interp(0.95, shares, angles))


# The degrees of freedom of leads hardly ever recur, and each entry takes 320 kB.
@lru_cache(maxsize=16)
def _t_distribution(degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Angles, where t = √degrees · tan(angle), and for each the share of Student's distribution in −t..t."""
    # The density of the angle is proportional to cos(angle)^(degrees − 1), on a finite range.
    angles = np.linspace(0, math.pi / 2, 20_001)
    shares = np.cumsum(np.cos((angles[1:] + angles[:-1]) / 2) ** (degrees - 1))
    return angles, np.concatenate([[0.0], shares / shares[-1]])
