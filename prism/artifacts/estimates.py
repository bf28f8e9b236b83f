"""Estimates: the mean score of several sets with its error, and the lead of some sets over others.

A set counts once. The networks of one set share its clips: more of them say more of that set, and nothing of the
next one.
"""

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, stdev, variance
from typing import Any

import numpy as np

from prism.artifacts.results import SEEDS, NetworkRun, Result
from prism.config import as_list
from prism.errors import ArtifactError
from prism.machine.text_io import canonical_json, first_difference

LEVEL = 0.95  # The share of all intervals that hold the true value.
NO_WIDTH = 1e-9  # Errors below it are rounding: two scores on fewer than ten million clips differ by more.
NO_INTERVAL = (
    "A lead with [–] has no interval: all values behind it are equal. Scores are shares of the clips, so that "
    "those of a few sets can be equal by chance, and then they say nothing of their error. Make more sets."
)


@dataclass(frozen=True)
class Estimate:
    """A mean, or a difference of means, with the standard error of that mean and its degrees of freedom."""

    mean: float
    error: float
    degrees: float

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval by Student's t; None where the values are equal, which says nothing of their error."""
        if self.error < NO_WIDTH:
            return None
        reach = t_quantile(self.degrees) * self.error
        return self.mean - reach, self.mean + reach

    def __str__(self) -> str:
        found = self.interval
        return f"{100 * self.mean:+z.1f} [{', '.join(f'{100 * end:+z.1f}' for end in found) if found else '–'}]"


def of_mean(values: Sequence[float]) -> Estimate | None:
    """The mean of independent values; one value says nothing of its error."""
    if len(values) < 2:
        return None
    return Estimate(fmean(values), stdev(values) / math.sqrt(len(values)), len(values) - 1)


def of_difference(values: Sequence[float], others: Sequence[float]) -> Estimate | None:
    """The mean of values less that of others, where no value belongs to another one (Welch)."""
    if min(len(values), len(others)) < 2:
        return None
    ours, theirs = (variance(some) / len(some) for some in (values, others))
    share = ours / (ours + theirs) if ours + theirs else 0.5
    degrees = 1 / (share**2 / (len(values) - 1) + (1 - share) ** 2 / (len(others) - 1))
    return Estimate(fmean(values) - fmean(others), math.sqrt(ours + theirs), degrees)


@dataclass(frozen=True)
class Sample:
    """The scores of the networks of each set of a group, by the set's seed (or what else tells sets apart)."""

    scores: Mapping[Any, Sequence[float]]

    @property
    def means(self) -> dict[Any, float]:
        """The mean score of each set."""
        return {seed: fmean(scores) for seed, scores in self.scores.items()}

    @property
    def mean(self) -> float:
        """The mean over the sets of their mean scores."""
        return fmean(self.means.values())

    @property
    def error(self) -> float | None:
        """The standard error of the mean over the sets; None for one set."""
        found = of_mean(list(self.means.values()))
        return found and found.error

    @property
    def spread(self) -> float | None:
        """The number behind ±: the standard error, or of one set the sample deviation of its networks, if any."""
        (scores, *_) = self.scores.values()
        return self.error if len(self.scores) > 1 else stdev(scores) if len(scores) > 1 else None

    @property
    def in_percent(self) -> str:
        """`mean ± standard error (sets × networks of each)`, or of one set `mean ± deviation (networks)`."""
        counts = sorted({len(scores) for scores in self.scores.values()})
        each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
        spread, sets = self.spread, f"{len(self.scores)} × " if len(self.scores) > 1 else ""
        return f"{100 * self.mean:.1f} ± {'–' if spread is None else f'{100 * spread:.1f}'} ({sets}{each})"

    def lead(self, other: "Sample") -> Estimate | None:
        """The lead over another sample; None where either has one set.

        Where both samples have the same seeds, sets of one seed are paired, and what they share, like their
        networks' seeds, does not widen the interval. Otherwise all sets of both count, as independent ones.
        """
        ours, theirs = self.means, other.means
        if ours.keys() == theirs.keys():
            return of_mean([ours[seed] - theirs[seed] for seed in ours])
        return of_difference(list(ours.values()), list(theirs.values()))


def lead(
    results: Iterable[Result | str | Path], others: Iterable[Result | str | Path], metric: str = ""
) -> Estimate:
    """How far some sets score above others: the difference of their means, with a 95 % interval over sets.

    Either group holds one result for each of several sets of different seeds, made and scored alike; where each
    network draws real clips of its own (`train_vpc`), each of them is a set, and one result may do. Sets of one
    seed are paired where both groups have the same seeds; otherwise Welch's interval is taken. The schedules of
    the groups may differ; their networks must not.

    Warned of are sets of a group that share networks, those that scored or those that they were condensed under,
    whose error no interval over sets can see; sets that hold the same videos; equal values, which give no
    interval; and results with a caution.

    Args:
        results: results, or their files.
        others: results of the other group, or their files.
        metric: `top1` or `top5`.

    Raises:
        ArtifactError: a result cannot be read, was scored otherwise than the first of its group, is of another
            network or other data than the other group, or of a set that its group has already; or a group has
            fewer than two sets.
    """
    groups = [
        [one if isinstance(one, Result) else Result.load(one) for one in as_list(some, "results")]
        for some in (results, others)
    ]
    _check_comparable(groups, metric)
    said = list[str]()
    for some in groups:
        own = [f"'{one.label}': {one.caution}" for one in some if one.caution]
        said.append("\n".join([*own, *doubts_of(some[0].label, some)]))
    found = sample_of(groups[0], metric).lead(sample_of(groups[1], metric))
    assert found is not None
    for warning in filter(None, [*said, "" if found.interval else NO_INTERVAL]):
        warnings.warn(warning, stacklevel=2)
    return found


def _check_comparable(groups: Sequence[Sequence[Result]], metric: str) -> None:
    first, counts = groups[0][0], []
    for group in groups:
        counts.append(sum(len(one.runs) if _draws_by_network(one) else 1 for one in group))
        pairs = [(group[0], first, False), *((one, group[0], True) for one in group)]
        for one, other, is_own in pairs:
            if (found := _facts(one, is_own)) != (wanted := _facts(other, is_own)):
                difference = first_difference(found, wanted)
                raise ArtifactError(f"'{one.label}' must not be compared with '{other.label}': {difference}.")
        if len(_runs_by_set(group)) < counts[-1]:
            raise ArtifactError(
                f"two results of '{group[0].label}' are of one set, or of sets with the same seeds. A group has "
                "one result for each set: add networks to it with --seeds and --resume."
            )
    if min(counts) < 2:
        raise ArtifactError(
            f"a lead needs two sets or more on either side, got {counts[0]} and {counts[1]}: one set says nothing "
            "of the next one. Make more with other seeds (--seed)."
        )
    if metric and metric not in first.metrics:
        raise ArtifactError(f"metric = {metric!r}, but the scores are {', '.join(first.metrics)}.")


def _facts(result: Result, is_own: bool) -> dict[str, Any]:
    """The scoring of a result, which must be that of the other group; for its own group its making, too."""
    network = {key: result.config.get(key) for key in ("model", "width", "hidden")}
    data = {"data": result.data.fingerprint, "split": result.data.split}
    scored = {"task": result.task, "protocol": result.protocol, **data, "network": network}
    if not is_own:
        return scored
    made = result.subject.making
    if "set" in made and result.subject.kind == "condensed":
        # Only the caller, who puts sets without a seed into one group, knows how they were made.
        made = {"method": made["method"], "store": made["store"]}
    schedule = {key: value for key, value in result.config.items() if key not in ("seed", "seeds")}
    return {**scored, "made": made, "config": schedule}


def sample_of(results: Sequence[Result], metric: str = "") -> Sample:
    """The scores of a group by a metric (the leading one), for each set by its seed or what else tells it."""
    named = metric or results[0].metrics[0]
    scores = {key: [run.scores[named] for run in runs.values()] for key, runs in _runs_by_set(results).items()}
    return Sample(scores)


def _runs_by_set(results: Sequence[Result]) -> dict[Any, dict[int, NetworkRun]]:
    """The networks of each set of a group by their seeds."""
    runs: dict[Any, dict[int, NetworkRun]] = {}
    for key, result in _by_set(results):
        for run in result.runs:
            runs.setdefault((key, run.seed) if _draws_by_network(result) else key, {})[run.seed] = run
    return runs


def _draws_by_network(result: Result) -> bool:
    """Whether each network drew real clips of its own, which are a set of their own."""
    return (result.subject.kind, result.subject.method) == ("store", "subset")


def _by_set(results: Sequence[Result]) -> list[tuple[Any, Result]]:
    """The results of a group beside keys of their sets: equal where two results are of one set."""
    configs = [result.subject.config for result in results]
    seeds = [config.get("seed") if type(config.get("seed")) is int else None for config in configs]
    # Where one option does not tell the sets apart, as with herding by several networks, all seeds do. A set
    # without a seed has no partner in the other group, but it must not count twice.
    every = [canonical_json([config.get(name) for name in SEEDS]) for config in configs]
    alone = len(set(seeds)) == len(set(every))
    keys = [
        (result.subject.fingerprint or id(result)) if seed is None else seed if alone else all_seeds
        for result, seed, all_seeds in zip(results, seeds, every, strict=True)
    ]
    return list(zip(keys, results, strict=True))


def doubts_of(label: str, results: Sequence[Result]) -> list[str]:
    """Sentences on what the sets of a group share, by which they are not independent, as far as results tell."""
    sets = dict(_by_set(results))
    networks = Counter(seed for runs in _runs_by_set(results).values() for seed in runs)
    error = "what they have in common is an error that no interval over sets can see. Give each set"
    judged = (
        f"{len(networks):,} networks score more than one set of “{label}”, as the seeds say: {error} networks of "
        "its own: with --seeds 3 those of --seed 0, 3, 6 and so on."
    )
    made = (
        f"{len(sets)} sets of “{label}” were condensed under the same networks as another one: {error} a "
        "--network-seed of its own."
    )
    copied = (
        f"{len(sets)} sets of “{label}” hold the same videos as another one: they are one set that counts several "
        "times, and the error over sets is too small. Of a method that draws nothing, as herding, --embedder-seed "
        "makes another set."
    )
    shared = [
        (sum(count > 1 for count in networks.values()), judged),
        (_num_alike(one.subject.config.get("network_seed") for one in sets.values()), made),
        (_num_alike(one.subject.videos or None for one in sets.values()), copied),
    ]
    return [f"{count:,} of {said}" for count, said in shared if count]


def _num_alike(values: Iterable[Any]) -> int:
    """How many values are those of another one, too; None is of none."""
    return sum(count for value, count in Counter(map(repr, values)).items() if count > 1 and value != "None")


@cache
def t_quantile(degrees: float, level: float = LEVEL) -> float:
    """The t within which a share `level` of Student's distribution lies, on either side of 0.

    Args:
        degrees: degrees of freedom, 1 or more; not always a whole number (Welch).
        level: between 0 and 1.
    """
    # The angle in t = √degrees · tan(angle) has a density like cos(angle)^(degrees − 1), on a finite range.
    angles = np.linspace(0, math.pi / 2, 20_001)
    shares = np.cumsum(np.cos((angles[1:] + angles[:-1]) / 2) ** (degrees - 1))
    return math.sqrt(degrees) * math.tan(np.interp(level, shares / shares[-1], angles[1:]))
