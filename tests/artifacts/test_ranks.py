"""Ranks: the correlations are those of the formulas, and the bootstrap sees what it says that it sees."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prism.artifacts import ranks
from prism.artifacts.ranks import agreement, kendall, own_agreement, regret, spearman

LISTS = st.integers(2, 9).flatmap(lambda n: st.tuples(*2 * [st.lists(st.integers(0, 4), min_size=n, max_size=n)]))


def tensor(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def tau_b(x: list[int], y: list[int]) -> float:
    """Pair by pair, as the textbooks count."""
    same = different = only_x = only_y = 0
    for i, j in combinations(range(len(x)), 2):
        a, b = x[i] - x[j], y[i] - y[j]
        same, different = same + (a * b > 0), different + (a * b < 0)
        only_x, only_y = only_x + (a != 0 and b == 0), only_y + (a == 0 and b != 0)
    untied = math.sqrt((same + different + only_x) * (same + different + only_y))
    return (same - different) / untied if untied else 0.0


def mean_ranks(values: list[int]) -> np.ndarray:
    return np.array([sum(v < value for v in values) + (values.count(value) - 1) / 2 for value in values])


@given(LISTS)
def test_kendall_agrees_with_a_count_of_pairs(lists):
    x, y = lists
    assert float(kendall(tensor(x), tensor(y))) == pytest.approx(tau_b(x, y))


@given(LISTS)
def test_spearman_is_the_correlation_of_mean_ranks(lists):
    x, y = lists
    ranks, others = mean_ranks(x), mean_ranks(y)
    expected = np.corrcoef(ranks, others)[0, 1] if ranks.std() and others.std() else 0.0
    assert float(spearman(tensor(x), tensor(y))) == pytest.approx(expected)


def test_the_correlations_have_the_values_that_scipy_gives():
    # scipy.stats.kendalltau and spearmanr of SciPy's own documentation, and of a list with ties.
    x, y = tensor([12, 2, 1, 12, 2]), tensor([1, 4, 7, 1, 0])
    assert float(kendall(x, y)) == pytest.approx(-0.4714045207910316)
    assert float(spearman(tensor([1, 2, 3, 4, 5]), tensor([5, 6, 7, 8, 7]))) == pytest.approx(0.8207826816681233)


@given(LISTS)
def test_only_the_order_counts_and_turning_one_list_turns_the_sign(lists):
    x, y = map(tensor, lists)
    for of in (kendall, spearman):
        assert float(of(x.exp(), 3 * y - 7)) == pytest.approx(float(of(x, y)))
        assert float(of(-x, y)) == pytest.approx(-float(of(x, y)))
        assert float(of(x, y)) == pytest.approx(float(of(y, x)))
        assert -1.000001 <= float(of(x, y)) <= 1.000001


def test_equal_scores_have_no_order():
    assert float(kendall(tensor([1, 1, 1]), tensor([1, 2, 3]))) == 0
    assert float(spearman(tensor([1, 1, 1]), tensor([1, 2, 3]))) == 0
    # Shares whose mean was taken in another order differ in the last bit.
    a, b = (0.1 + 0.2 + 0.3) / 3, (0.3 + 0.2 + 0.1) / 3
    assert a != b
    assert float(kendall(tensor([a, b, a]), tensor([1, 2, 3]))) == 0


def test_regret_is_what_the_pick_has_less_on_all_clips():
    full = tensor([0.2, 0.5, 0.4])
    assert float(regret(full, tensor([0, 9, 1]))) == 0
    assert float(regret(full, tensor([9, 0, 1]))) == pytest.approx(0.3)
    # Of two that score best, either may be taken.
    assert float(regret(full, tensor([9, 0, 9]))) == pytest.approx(0.2)


def scores(num_sets: int, noise: float, seed: int = 0, networks: int = 2) -> torch.Tensor:
    """Candidates of scores 0, 0.1, …, each set and network with noise."""
    draw = torch.Generator().manual_seed(seed)
    shape = (num_sets, 8, networks)
    return torch.arange(8)[None, :, None] / 10 + noise * torch.randn(shape, generator=draw)


FULL = scores(1, 0.02, seed=9)[0]


def found(sets: torch.Tensor, kind: str = "a", seed: int = 0, resamples: int = 300):
    return agreement(FULL, sets, kind=kind, seed=seed, resamples=resamples)


def test_the_measures_are_means_over_sets_not_those_of_mean_scores():
    # Turned round on one of two sets: their mean scores may have any order, but half of the sets have none.
    sets = torch.stack([FULL, -FULL])
    assert found(sets).values["tau"] == pytest.approx(0, abs=1e-12)
    assert found(FULL[None]).values["tau"] == pytest.approx(1)


def test_an_agreement_repeats_with_its_seed_and_has_other_draws_with_another_one():
    one, same, other = (found(scores(3, 0.1), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.draws["tau"], same.draws["tau"])
    assert not torch.equal(one.draws["tau"], other.draws["tau"])
    assert one.values == other.values


def test_the_interval_widens_with_the_noise_of_networks_and_with_that_of_sets():
    def width(sets: torch.Tensor) -> float:
        low, high = found(sets, resamples=1000).interval("tau", 0.95)
        return high - low

    exact = FULL.mean(-1)[None, :, None].expand(4, 8, 2)
    network = torch.tensor([-1.0, 1.0]) * torch.linspace(0.1, 0.4, 8)[:, None]
    assert width(exact + network) > width(exact) + 0.1
    by_sets = exact.clone()
    by_sets[:2] *= -1
    assert width(by_sets) > 1


def test_candidates_alone_leave_an_interval_where_networks_have_no_noise():
    one_network = agreement(FULL[:, :1], scores(1, 0.2, networks=1), kind="a", seed=0, resamples=300)
    low, high = one_network.interval("tau", 0.95)
    assert low < one_network.values["tau"] < high


def test_the_memory_of_the_bootstrap_does_not_grow_with_its_draws(monkeypatch):
    pairs = []

    def first(scores: torch.Tensor, full: torch.Tensor) -> torch.Tensor:
        pairs.append(scores.numel() * scores.shape[-1])
        return scores[..., 0] - full[..., 0]

    monkeypatch.setattr(ranks, "MEASURES", {"first": first})
    full, scores = torch.rand(500, 1), torch.rand(2, 500, 1)
    few, many = (agreement(full, scores, kind="a", seed=0, resamples=num).draws["first"] for num in (200, 400))
    assert (len(few), len(many)) == (200, 400)
    assert max(pairs) <= 2**22


def test_kinds_are_compared_on_the_same_candidates():
    # Alike but in name: what is left of the interval is the noise of sets and networks, not of candidates.
    one, two = found(scores(1, 0.2, networks=1), "a"), found(scores(1, 0.2, networks=1), "b")
    low, high = agreement(FULL, scores(1, 0.2, networks=1), kind="c", seed=0, resamples=300).interval("tau", 0.95)
    assert one.lead(two, "tau", 0.95) == pytest.approx((0, 0, 0))
    assert high > low


def test_networks_on_all_clips_are_set_against_the_others():
    assert own_agreement(FULL[:, :1]) is None
    whole = own_agreement(torch.stack([FULL[:, 0]] * 3, dim=1))
    assert whole == pytest.approx({"tau": 1, "rho": 1, "regret": 0})
    two = own_agreement(FULL)
    assert two is not None
    assert two["tau"] == pytest.approx(float(kendall(FULL[:, 0], FULL[:, 1])))
