"""The insertion rules against slow loops over frames (paper, section 3.2)."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from prism.artifacts.keyframes import neighbours
from prism.condensation.options import RULES, CondenseConfig
from prism.condensation.rules import Conflict, InsertionRule, InsertionState
from prism.errors import ConfigError
from tests.artifacts.test_keyframes import masks


@st.composite
def situations(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    """Random float64 gradients (V, T, 1, 1, D) and a mask of key-frames (V, T)."""
    mask = draw(masks())
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    # Few dimensions make conflicts common; different norms tell cosines from inner products.
    gradients = rng.standard_normal((*mask.shape, 1, 1, 2)) * rng.uniform(0.1, 3, (*mask.shape, 1, 1, 1))
    return torch.from_numpy(gradients), mask


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def candidates(gradients, mask):
    """For each frame that is not a key-frame: (video, frame, its gradient, the two key-frames' gradients)."""
    before, after = neighbours(mask)
    for v, t in (~mask).nonzero().tolist():
        of_video = gradients[v].flatten(1).numpy()
        yield v, t, of_video[t], [of_video[before[v, t]], of_video[after[v, t]]]


def decide(rule: str, gradients, mask, epsilon=0.0, seed=0) -> torch.Tensor:
    return made(rule, epsilon).propose(state_of(gradients, mask, seed))


def made(name: str, epsilon: float = 0.0) -> InsertionRule:
    return RULES.make(name, CondenseConfig(epsilon=epsilon))


def state_of(gradients, mask, seed=0) -> InsertionState:
    draw = torch.Generator().manual_seed(seed)
    return InsertionState(gradients, mask, Conflict.measure(gradients, mask), 5, 10, draw)


@given(situations(), st.floats(-0.9, 0.9))
def test_frames_are_inserted_where_both_cosines_are_below_epsilon_or_both_distances_too_large(situation, epsilon):
    gradients, mask = situation
    by_cosine, by_distance = torch.zeros_like(mask), torch.zeros_like(mask)
    for v, t, g, around in candidates(gradients, mask):
        cosines = [cosine(g, anchor) for anchor in around]
        mean_square = np.mean([frame @ frame for frame in gradients[v].flatten(1).numpy()])
        threshold = np.sqrt(2 * (1 - epsilon) * mean_square)
        distances = [np.linalg.norm(g - anchor) for anchor in around]
        assume(min(abs(x) for x in (*np.subtract(cosines, epsilon), *np.subtract(distances, threshold))) > 1e-9)
        by_cosine[v, t], by_distance[v, t] = max(cosines) < epsilon, bool(min(distances) > threshold)
    assert torch.equal(decide("gradient", gradients, mask, epsilon), by_cosine)
    assert torch.equal(decide("l2", gradients, mask, epsilon), by_distance)


@given(situations(), st.floats(-0.9, 0.9))
def test_the_random_rule_inserts_as_many_frames_of_each_video_as_the_gradient_rule(situation, epsilon):
    gradients, mask = situation
    by_gradient = decide("gradient", gradients, mask, epsilon)
    at_random = decide("random", gradients, mask, epsilon)
    assert torch.equal(at_random.sum(dim=1), by_gradient.sum(dim=1))
    assert not (at_random & mask).any()


def test_the_random_rule_picks_every_candidate_equally_often():
    # One of the three candidates conflicts; where it is must not matter.
    gradients = torch.tensor([[1.0], [-1.0], [1.0], [1.0], [1.0]]).view(1, 5, 1, 1, 1)
    mask = torch.tensor([[True, False, False, False, True]])
    counts = sum(decide("random", gradients, mask, seed=seed)[0].long() for seed in range(600))
    assert counts[0] == counts[4] == 0
    assert counts.sum() == 600
    # 200 expected; five standard deviations are 58.
    assert (counts[1:4] - 200).abs().max() < 58


@pytest.mark.parametrize("rule", RULES.registry)
@given(situations(), st.floats(-1, 1))
def test_no_rule_proposes_a_keyframe_again_or_changes_what_it_scores(rule, situation, epsilon):
    gradients, mask = situation
    before = gradients.clone(), mask.clone()
    assert not (decide(rule, gradients, mask, epsilon) & mask).any()
    assert all(map(torch.equal, situation, before))


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6, 1e12])
def test_cosines_do_not_depend_on_the_scale_of_the_gradients(scale):
    gradients = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 5, 1, 1, 4))).float()
    mask = torch.tensor([[True, False, False, False, True], [True, False, True, False, True]])
    scaled = Conflict.measure(gradients * scale, mask).cosines
    torch.testing.assert_close(scaled, Conflict.measure(gradients, mask).cosines, rtol=1e-4, atol=1e-5)


def test_a_gradient_of_zero_conflicts_with_nothing():
    still = state_of(torch.zeros(1, 4, 1, 1, 3), torch.tensor([[True, False, False, True]]))
    assert (still.conflict.cosines == 0).all()
    for rule in RULES.registry:
        assert not made(rule).propose(still).any()


@pytest.mark.parametrize(("warmup", "cooldown"), [(0.7, 0.3), (1.0, 0.0), (0.6, 0.6)])
def test_a_warm_up_and_a_cool_down_that_leave_no_iteration_are_refused_where_frames_are_inserted(warmup, cooldown):
    assert CondenseConfig(warmup=warmup, cooldown=cooldown).insertion == "never"
    with pytest.raises(ConfigError, match=rf"cooldown = {cooldown}, but it must be below {1 - warmup:g}, so that"):
        CondenseConfig(insertion="gradient", warmup=warmup, cooldown=cooldown)


@given(st.integers(1, 300), st.floats(0, 1), st.floats(0, 1))
def test_warm_up_and_cool_down_never_insert(iterations, warmup, cooldown):
    config = CondenseConfig(iterations=iterations, warmup=warmup, cooldown=cooldown)
    on = [i for i in range(iterations) if config.inserts_at(i)]
    assert all(i + 0.5 >= warmup * iterations for i in on)
    assert all(iterations - i + 0.5 > cooldown * iterations for i in on)
    assert on == list(range(on[0], on[-1] + 1)) if on else True
    assert abs(len(on) - max(0.0, (1 - warmup - cooldown) * iterations)) <= 1
