"""Estimates: an interval holds what it says it holds, a set counts once, and pairing removes what seeds share."""

import math
import random
from dataclasses import replace
from statistics import fmean, pstdev

import pytest
from settings import of_subject, refusal_of

import prism
from prism.artifacts.estimates import Estimate, Sample, of_mean, over_recordings, sample_of, t_quantile
from prism.artifacts.results import Result
from prism.errors import ArtifactError
from tests.artifacts.test_results import a_result as result_of

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


def test_the_p_value_is_that_of_the_interval_which_ends_at_zero():
    for degrees in (1, 2.5, 4, 30):
        assert Estimate(t_quantile(degrees), 1.0, degrees).p_value == pytest.approx(0.05, abs=1e-6)
    assert Estimate(0.2, 0.0, 4).p_value == Estimate(0.2, 1e-12, 4).p_value == 1


def test_the_interval_of_students_own_data_is_that_of_r():
    ours, theirs = (Sample({k: [one] for k, one in enumerate(some)}) for some in (DRUG, OTHER_DRUG))
    lead = ours.lead(theirs)
    assert lead is not None
    assert lead.interval == pytest.approx((0.7001142, 2.4598858), abs=1e-7)
    assert lead.p_value == pytest.approx(0.002833, abs=1e-6)


def share_of_hits(draw, truth: float) -> float:
    """In how many draws the interval holds the truth."""
    return fmean(low <= truth <= high for low, high in (draw().interval for _ in range(DRAWS)))


def drawn(dice: random.Random, worth: float) -> Sample:
    """Five sets of three networks: what a set is worth, and what a network adds."""
    sets = [worth + dice.gauss(0, 0.05) for _ in range(5)]
    return Sample({seed: [mean + dice.gauss(0, 0.02) for _ in range(3)] for seed, mean in enumerate(sets)})


def test_a_lead_over_sets_is_held_in_95_of_100_draws_and_one_over_networks_is_not():
    dice = random.Random(1)
    pairs = [[drawn(dice, worth) for worth in (0.3, 0.2)] for _ in range(DRAWS)]
    draws, again = iter(pairs), iter(pairs)
    assert share_of_hits(lambda: Sample.lead(*next(draws)), 0.1) == pytest.approx(0.95, abs=SLACK)
    assert share_of_hits(lambda: Sample.lead(*map(by_network, next(again))), 0.1) < 0.85


CLIPS = [[2, 3, 1, 4, 2, 3]] * 4
"""Four classes of six recordings, of so many test clips."""


def test_the_error_over_recordings_is_that_of_drawing_them_again_within_each_class():
    dice = random.Random(2)
    hits = [[dice.uniform(-num, num) for num in of_class] for of_class in CLIPS]
    found, total = over_recordings(hits, CLIPS), sum(map(sum, CLIPS))
    assert (found.mean, found.degrees) == (pytest.approx(sum(map(sum, hits)) / total), 4 * (6 - 1))
    again = []
    for _ in range(4000):
        # The bootstrap: every class keeps its number of clips, so that its share is what varies.
        drawn = [dice.choices(list(zip(*pair, strict=True)), k=6) for pair in zip(hits, CLIPS, strict=True)]
        shares = [sum(hit for hit, _ in some) / sum(num for _, num in some) for some in drawn]
        again.append(sum(share * sum(of_class) for share, of_class in zip(shares, CLIPS, strict=True)) / total)
    # The bootstrap's variance lacks a factor of 6 / 5, and ratios widen it a little.
    assert found.error == pytest.approx(math.sqrt(6 / 5) * pstdev(again), rel=0.06)


def test_what_is_not_known_of_recordings_makes_no_error_smaller():
    hits, clips = [[1, 0, 2], [0, 3, 1]], [[2, 2, 3], [1, 3, 2]]
    whole = over_recordings(hits, clips)
    # A class of one recording: the other has to speak for both.
    alone = over_recordings([hits[0], [4]], [clips[0], [6]])
    assert alone.error == pytest.approx(math.sqrt(2) * over_recordings(hits[:1], clips[:1]).error * 7 / 13)
    assert over_recordings([[1], [4]], [[2], [6]]).error == 0
    for degrees, error in ((1, 0.3), (2, 0.05), (4, 0.01)):
        sets = Estimate(0.1, error, degrees)
        joined = sets.joined(whole)
        assert joined.interval[1] >= sets.interval[1]
        assert joined.recordings == whole.error
    assert Estimate(0.1, 0.0, 2).joined(whole).interval is None
    assert Estimate(0.1, 1.0, 4).joined(Estimate(0.1, 2.0, 9)).degrees == pytest.approx(25 / (1 / 4 + 16 / 9))
    every = [Estimate(0.1, 0.012, 2).joined(Estimate(0.1, error, 100)).p_value for error in (0, 0.02, 0.023, 0.1)]
    assert every == sorted(every)
    assert every[0] == every[2] < every[3]


def test_a_lead_is_held_in_95_of_100_draws_of_sets_and_recordings_only_if_both_errors_are_joined():
    dice, clips = random.Random(3), [[1] * 8] * 5

    def a_lead(*, joined: bool) -> Estimate:
        hits = [[0.1 + dice.gauss(0, 0.2) for _ in of_class] for of_class in clips]
        filmed = fmean(map(fmean, hits))
        sets = [filmed + dice.gauss(0, 0.05) for _ in range(5)]
        ours, theirs = Sample(dict(enumerate([one] for one in sets))), Sample({k: [0.0] for k in range(5)})
        if joined:
            ours, theirs = replace(ours, hits=hits, clips=clips), replace(theirs, hits=[[0] * 8] * 5, clips=clips)
        found = ours.lead(theirs)
        assert found is not None
        return found

    assert share_of_hits(lambda: a_lead(joined=True), 0.1) == pytest.approx(0.95, abs=SLACK)
    assert share_of_hits(lambda: a_lead(joined=False), 0.1) < 0.9


def by_network(sample: Sample) -> Sample:
    """The networks as if each were a set of its own."""
    return Sample({(seed, k): [one] for seed, scores in sample.scores.items() for k, one in enumerate(scores)})


def a_result(seed: int | None, *scores: float, **changes) -> Result:
    made_with = {"vpc": 1} if seed is None else {"vpc": 1, "seed": seed}
    whole = result_of(scores)
    subject = replace(whole.subject, config=made_with, fingerprint=f"{seed}, {scores}, {changes.get('label')}")
    # Each set is scored by networks of its own.
    runs = tuple(replace(run, seed=10 * (seed or 0) + run.seed) for run in whole.runs)
    return replace(whole, **({"label": "takes", "subject": subject, "runs": runs} | changes))


OURS = [a_result(0, 0.2, 0.4), a_result(1, 0.4), a_result(2, 0.6)]
THEIRS = [a_result(2, 0.3, label="random"), a_result(0, 0.1, label="random"), a_result(1, 0.2, label="random")]


def refusal(ours: list[Result], theirs: list[Result] = THEIRS, *metric: str) -> str:
    return refusal_of(ArtifactError, prism.lead, ours, theirs, *metric)


def test_results_are_paired_by_the_seeds_of_their_sets_in_any_order():
    found = prism.lead(OURS, THEIRS)
    assert found == of_mean([fmean([0.2, 0.4]) - 0.1, 0.4 - 0.2, 0.6 - 0.3])
    assert prism.lead(reversed(OURS), THEIRS) == found
    for name in ("embedder_seed", "network_seed"):
        made = [{"vpc": 1, "seed": 0, name: k} for k in range(3)]
        ours = [of_subject(one, config=how) for one, how in zip(OURS, made, strict=True)]
        assert prism.lead(ours, THEIRS) == found
    odd = [of_subject(one, config={"seed": 0, "embedder_seed": [k]}) for k, one in enumerate(OURS)]
    assert "a lead needs sets of the same two or more seeds" in refusal(odd)
    assert str(found) == "+23.3 [+9.0, +37.7]"


def test_results_that_know_their_hits_lead_with_an_error_over_recordings_too():
    def known(some: list[Result], hits: tuple[str, ...]) -> list[Result]:
        data = replace(some[0].data, recordings=("3 3 4", "5 5"))
        return [replace(one, data=data, runs=tuple(replace(run, hits=hits) for run in one.runs)) for one in some]

    # The first set has two networks, the others one: the mean is over networks, then sets.
    ours = [*known(OURS[:1], ("3 1 2", "1 2")), *known(OURS[1:], ("3 1 2", "1 5"))]
    found = prism.lead(ours, known(THEIRS, ("2 1 0", "3 1")))
    plain, part = prism.lead(OURS, THEIRS), over_recordings([[1, 0, 2], [-2, 3]], [[3, 3, 4], [5, 5]])
    assert found.mean == plain.mean
    assert (found.error, found.recordings) == (pytest.approx(math.hypot(plain.error, part.error)), part.error)
    assert (sample_of(ours).hits == (), sample_of(ours, "top5").hits == ()) == (False, True)
    # One result without hits, or of other recordings, is enough for an interval over sets alone.
    assert prism.lead(known(OURS, ("3 1 2", "1 4")), THEIRS) == plain
    rest = known(THEIRS[1:], ("2 1", "4"))
    other = [replace(one, data=replace(one.data, recordings=("5 5", "10"))) for one in rest]
    assert prism.lead(OURS, [*known(THEIRS[:1], ("2 1 0", "3 1")), *other]) == plain


def test_a_result_that_lacks_networks_is_warned_of():
    unfinished = replace(OURS[0], config=OURS[0].config | {"seeds": len(OURS[0].runs) + 1})
    rest = [replace(one, config=one.config | {"seeds": len(one.runs)}) for one in OURS[1:]]
    with pytest.warns(UserWarning, match="networks are there: the run was stopped"):
        prism.lead([unfinished, *rest], THEIRS)


def test_networks_that_score_several_sets_of_a_group_are_warned_of():
    shared = [replace(one, runs=tuple(replace(run, seed=run.seed % 10) for run in one.runs)) for one in OURS]
    says = "1 of 2 networks, by their seeds, score more than one set of “takes”"
    with pytest.warns(UserWarning, match=says) as said:
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
    known = [of_subject(one, **own) for one, own in zip(OURS, values, strict=True)]
    with pytest.warns(UserWarning, match=says) as said:
        assert prism.lead(known, THEIRS) == prism.lead(OURS, THEIRS)
    assert len(said) == 1


def test_sets_that_no_network_has_made_share_none(recwarn):
    real = [of_subject(one, config=one.subject.config | {"iterations": 0, "network_seed": 0}) for one in OURS]
    assert prism.lead(real, THEIRS) == prism.lead(OURS, THEIRS)
    assert not recwarn
    # Random clips are chosen by no network: its options tell no sets apart.
    narrow, wide = (replace(OURS[0].subject, method="random", config={"seed": 0, "width": w}) for w in (16, 64))
    assert narrow.making == wide.making


def test_groups_may_have_schedules_of_their_own_but_not_networks():
    longer = [replace(one, config=one.config | {"epochs": 5, "seed": k}) for k, one in enumerate(OURS)]
    assert prism.lead(longer, THEIRS) == prism.lead(OURS, THEIRS)
    assert "its --epochs is 5, not 3." in refusal([*OURS[:2], longer[2]])
    for name in ("model", "width", "hidden"):
        wider = [replace(one, config=one.config | {name: 64}) for one in OURS]
        assert f"its network.{name} is None, not 64." in refusal(wider)


@pytest.mark.parametrize(
    ("ours", "message"),
    [
        (
            OURS[:1],
            "a lead needs sets of the same two or more seeds on either side, got seeds 0 and seeds 2, 0, 1.",
        ),
        ([*OURS, a_result(3, 0.9)], "a lead needs sets of the same two or more seeds"),
        ([], "a lead needs results on either side"),
        ([OURS[0], of_subject(OURS[1], num_videos=10)], "its made.videos is 10, not 2"),
        ([*OURS, a_result(1, 0.9)], "two results of 'takes' are of one set, or of sets with the same seeds"),
        ([a_result(None, 0.1), a_result(None, 0.1)], "two results of 'takes' are of one set"),
        (
            [*OURS, a_result(3, 0.9, protocol="wang2024")],
            "'takes' must not be compared with 'takes': its protocol is 'wang2024', not 'clean'",
        ),
    ],
)
def test_what_is_no_group_of_sets_is_refused(ours, message):
    assert message in refusal(ours)


def test_results_on_other_clips_are_refused_and_so_is_a_score_that_they_lack():
    elsewhere = [replace(one, data=replace(one.data, split="val")) for one in THEIRS]
    assert "'random' must not be compared with 'takes': its split is 'val', not" in refusal(OURS, elsewhere)
    assert "metric = 'r1', but the scores are top1, top5" in refusal(OURS, THEIRS, "r1")
