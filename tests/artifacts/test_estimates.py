"""Estimates: an interval holds what it says it holds, a set counts once, and pairing removes what seeds share."""

import math
import random
import re
from dataclasses import replace
from statistics import fmean

import pytest

import prism
from prism.artifacts.estimates import Sample, of_difference, of_mean, t_quantile
from prism.artifacts.results import Data, NetworkRun, Result, Subject
from prism.errors import ArtifactError

DRUG = (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)
OTHER_DRUG = (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)
"""Hours of sleep gained by ten patients (Student, 1908)."""

DRAWS = 600
SLACK = 3.5 * math.sqrt(0.95 * 0.05 / DRAWS)
"""3.5 standard deviations of the share of draws whose interval holds the true value."""


@pytest.mark.parametrize(
    ("degrees", "t"), [(1, 12.7062047), (2, 4.30265273), (4, 2.77644511), (10, 2.22813885), (30, 2.04227246)]
)
def test_the_quantiles_of_students_t_are_those_of_the_tables(degrees, t):
    assert t_quantile(degrees) == pytest.approx(t, abs=1e-6)


def test_the_intervals_of_students_own_data_are_those_of_r():
    differences = [ours - theirs for ours, theirs in zip(DRUG, OTHER_DRUG, strict=True)]
    paired, welch = of_mean(differences), of_difference(DRUG, OTHER_DRUG)
    assert paired is not None
    assert welch is not None
    assert paired.interval == pytest.approx((0.7001142, 2.4598858), abs=1e-7)
    assert welch.degrees == pytest.approx(17.776, abs=1e-3)
    assert welch.interval == pytest.approx((-0.2054832, 3.3654832), abs=1e-7)


def share_of_hits(draw, truth: float) -> float:
    """In how many draws the interval holds the truth."""
    hits = 0
    for _ in range(DRAWS):
        low, high = draw().interval
        hits += low <= truth <= high
    return hits / DRAWS


def drawn(dice: random.Random, worth: float, of_seed: dict[int, float]) -> Sample:
    """Five sets of three networks: what a seed does, what the set is worth, and what a network adds."""
    sets = {seed: worth + shared + dice.gauss(0, 0.05) for seed, shared in of_seed.items()}
    return Sample({seed: [mean + dice.gauss(0, 0.02) for _ in range(3)] for seed, mean in sets.items()})


def test_a_lead_over_sets_is_held_in_95_of_100_draws_and_one_over_networks_is_not():
    dice = random.Random(1)
    pairs = [[drawn(dice, worth, dict.fromkeys(range(5), 0.0)) for worth in (0.3, 0.2)] for _ in range(DRAWS)]
    draws = iter(pairs)
    assert share_of_hits(lambda: Sample.lead(*next(draws)), 0.1) == pytest.approx(0.95, abs=SLACK)
    draws = iter(pairs)
    assert share_of_hits(lambda: of_difference(*map(networks, next(draws))), 0.1) < 0.85


def networks(sample: Sample) -> list[float]:
    return [one for scores in sample.scores.values() for one in scores]


def a_result(seed: int | None, *scores: float, **changes) -> Result:
    made_with = {"vpc": 1} if seed is None else {"vpc": 1, "seed": seed}
    # Each set is scored by networks of its own.
    first = round(1000 * scores[0]) if seed is None else 10 * seed
    fingerprint = f"{seed}, {scores}, {changes.get('label')}"
    whole = Result(
        label="takes",
        task="classification",
        protocol="clean",
        subject=Subject("condensed", "set.safetensors", "prism", 2, 5, 1000, 4000, made_with, fingerprint),
        data=Data("store", "0" * 64, "test", 20, 6, {"top1": 0.25, "top5": 1.0}, 16000),
        config={"epochs": 3, "lr": 0.01},
        runs=tuple(NetworkRun(k, {"top1": one, "top5": 1 - one}, 0.5, 2.0) for k, one in enumerate(scores, first)),
        provenance={},
    )
    return replace(whole, **changes)


OURS = [a_result(0, 0.2, 0.4), a_result(1, 0.4), a_result(2, 0.6)]
THEIRS = [a_result(2, 0.3, label="random"), a_result(0, 0.1, label="random"), a_result(1, 0.2, label="random")]


def test_results_are_paired_by_the_seeds_of_their_sets_in_any_order():
    found = prism.lead(OURS, THEIRS)
    assert found == of_mean([fmean([0.2, 0.4]) - 0.1, 0.4 - 0.2, 0.6 - 0.3])
    assert prism.lead(reversed(OURS), THEIRS) == found
    assert str(found) == "+23.3 [+9.0, +37.7]"


def test_a_result_that_lacks_networks_is_warned_of():
    unfinished = replace(OURS[0], config=OURS[0].config | {"seeds": len(OURS[0].runs) + 1})
    rest = [replace(one, config=one.config | {"seeds": len(one.runs)}) for one in OURS[1:]]
    with pytest.warns(UserWarning, match="networks are there: the run was stopped"):
        prism.lead([unfinished, *rest], THEIRS)


def test_networks_that_judge_several_sets_of_a_group_are_warned_of():
    shared = [replace(one, runs=tuple(replace(run, seed=run.seed % 10) for run in one.runs)) for one in OURS]
    with pytest.warns(
        UserWarning, match="1 of 2 networks score more than one set of “takes”, as the seeds say"
    ) as said:
        assert prism.lead(shared, THEIRS) == prism.lead(OURS, THEIRS)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([{"videos": v} for v in "aba"], "2 of 3 sets of “takes” hold the same videos as another one"),
        (
            [{"config": {"seed": k, "network_seed": n}} for k, n in enumerate((0, 0, 1))],
            "2 of 3 sets of “takes” were condensed under the same networks as another one",
        ),
    ],
)
def test_sets_of_a_group_that_share_videos_or_networks_are_warned_of(values, says):
    known = [replace(one, subject=replace(one.subject, **own)) for one, own in zip(OURS, values, strict=True)]
    with pytest.warns(UserWarning, match=says) as said:
        assert prism.lead(known, THEIRS) == prism.lead(OURS, THEIRS)
    assert len(said) == 1


def subsets(first: int, *scores: float, **changes) -> Result:
    """A result of networks that draw real clips of their own, from the seed `first` on."""
    clips = Subject("store", "store", "subset", 4, 8, 1000, 4000, {}, "store")
    found = a_result(None, *scores, subject=replace(clips, **changes), label="subset")
    return replace(found, runs=tuple(replace(run, seed=seed) for seed, run in enumerate(found.runs, first)))


def test_networks_that_draw_their_own_clips_are_a_set_each():
    floor, values = [subsets(0, 0.1, 0.3, 0.2), subsets(3, 0.2, 0.4, 0.1)], [0.1, 0.3, 0.2, 0.2, 0.4, 0.1]
    assert prism.lead(OURS, floor) == of_difference([fmean([0.2, 0.4]), 0.4, 0.6], values)
    assert prism.lead(OURS, floor[:1]) == of_difference([fmean([0.2, 0.4]), 0.4, 0.6], values[:3])
    with pytest.raises(
        ArtifactError, match="two results of 'subset' are of one set, or of sets with the same seeds"
    ):
        prism.lead(OURS, [*floor, subsets(5, 0.2)])
    with pytest.raises(ArtifactError, match="two sets or more on either side, got 3 and 1"):
        prism.lead(OURS, [subsets(0, 0.2)])
    with pytest.raises(ArtifactError, match=r"its made\.videos is 8, not 4"):
        prism.lead(OURS, [floor[0], subsets(3, 0.2, num_videos=8)])


def test_groups_may_have_schedules_of_their_own_but_not_networks():
    longer = [replace(one, config=one.config | {"epochs": 5}) for one in OURS]
    assert prism.lead(longer, THEIRS) == prism.lead(OURS, THEIRS)
    with pytest.raises(ArtifactError, match=r"its config.epochs is 5, not 3\."):
        prism.lead([*OURS[:2], longer[2]], THEIRS)
    wider = [replace(one, config=one.config | {"width": 64}) for one in OURS]
    with pytest.raises(ArtifactError, match=r"its network.width is None, not 64\."):
        prism.lead(wider, THEIRS)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_videos": 10}, "its made.videos is 10, not 2"),
        ({"config": {"vpc": 5, "seed": 1}}, "its made.options.vpc is 5, not 1"),
    ],
)
def test_a_group_of_sets_that_were_not_made_alike_is_refused(change, says):
    other = replace(OURS[1], subject=replace(OURS[1].subject, **change))
    with pytest.raises(ArtifactError, match=says):
        prism.lead([OURS[0], other, OURS[2]], THEIRS)


@pytest.mark.parametrize(
    ("ours", "message"),
    [
        (OURS[:1], "a lead needs two sets or more on either side, got 1 and 3: one set says nothing"),
        ([*OURS, a_result(1, 0.9)], "two results of 'takes' are of one set, or of sets with the same seeds"),
        ([a_result(None, 0.1), a_result(None, 0.1)], "two results of 'takes' are of one set"),
        (
            [*OURS, a_result(3, 0.9, protocol="wang2024")],
            "'takes' must not be compared with 'takes': its protocol is 'wang2024', not 'clean'",
        ),
    ],
)
def test_what_is_no_group_of_sets_is_refused(ours, message):
    with pytest.raises(ArtifactError, match=re.escape(message)):
        prism.lead(ours, THEIRS)


def test_results_on_other_clips_are_refused_and_so_is_a_score_that_they_lack():
    elsewhere = [replace(one, data=replace(one.data, split="val")) for one in THEIRS]
    with pytest.raises(ArtifactError, match="'random' must not be compared with 'takes': its split is 'val', not"):
        prism.lead(OURS, elsewhere)
    with pytest.raises(ArtifactError, match="metric = 'r1', but the scores are top1, top5"):
        prism.lead(OURS, THEIRS, "r1")
