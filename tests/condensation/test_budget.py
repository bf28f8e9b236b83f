"""The rule with a budget: what a frame is worth, and how bytes are spent (docs/method.md)."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from settings import PAPER

from prism.artifacts.keyframes import insert, interpolation_weights, render
from prism.condensation.budget import LargestGain, allowed_at, best_first, gains, hats
from prism.condensation.options import CondenseConfig
from prism.errors import ConfigError
from tests.condensation.test_loop import run_tiny
from tests.condensation.test_rules import situations


def gram_of(gradients: torch.Tensor) -> torch.Tensor:
    flat = gradients.flatten(2)
    return flat @ flat.transpose(1, 2)


def expressed(gradients: torch.Tensor, weights: torch.Tensor) -> float:
    """Energy of the gradients (T, D) in the span of the columns of one video's weights (T, T)."""
    basis = torch.linalg.svd(weights)
    rank = int((basis.S > 1e-9).sum())
    return float((basis.U[:, :rank].T @ gradients).square().sum())


def residual(target: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """What is left of a target (T, D) by the best choice of key-frames."""
    return target - weights @ torch.linalg.lstsq(weights, target, driver="gelsd").solution


@given(situations())
def test_a_hat_is_what_a_moved_keyframe_would_change(situation):
    frames, mask = situation
    for v, t in (~mask).nonzero().tolist():
        new = torch.zeros_like(mask)
        new[v, t] = True
        moved = frames.clone()
        grown = insert(moved, mask, new)
        moved[v, t] += 1
        change = (render(moved, grown) - render(frames, mask))[v, :, 0, 0, 0]
        torch.testing.assert_close(hats(mask)[v, :, t], change)


@given(situations())
def test_a_gain_is_the_energy_by_which_the_expressible_part_of_the_gradient_grows(situation):
    gradients, mask = situation
    found, before = gains(gram_of(gradients), mask), interpolation_weights(mask, torch.float64)
    for v, t in (~mask).nonzero().tolist():
        grown = mask.clone()
        grown[v, t] = True
        after = interpolation_weights(grown, torch.float64)[v]
        flat = gradients[v].flatten(1)
        assert found[v, t].item() == pytest.approx(expressed(flat, after) - expressed(flat, before[v]), abs=1e-8)
    assert (found[mask] == 0).all()


@given(situations())
def test_for_a_quadratic_loss_the_gain_is_exactly_what_freeing_the_frame_is_worth(situation):
    target, mask = situation
    for v in range(len(mask)):
        weights = interpolation_weights(mask[v : v + 1], torch.float64)[0]
        left = residual(target[v].flatten(1), weights)
        found = gains(gram_of(left.unsqueeze(0)), mask[v : v + 1])[0]
        for t in (~mask[v]).nonzero().flatten().tolist():
            grown = mask[v : v + 1].clone()
            grown[0, t] = True
            best = residual(target[v].flatten(1), interpolation_weights(grown, torch.float64)[0])
            assert found[t].item() == pytest.approx(float(left.square().sum() - best.square().sum()), abs=1e-8)


@given(situations(), st.integers(0, 30))
def test_a_class_gets_its_best_frames_first_and_never_more_than_it_is_allowed(situation, allowed):
    gradients, mask = situation
    chosen = best_first(gradients, mask, 1, allowed)
    assert not (chosen & mask).any()
    assert int(chosen.sum()) == min(max(0, allowed - int(mask.sum())), int((~mask).sum()))
    if chosen.any():
        assert chosen.flatten()[int(gains(gram_of(gradients), mask).argmax())]


@given(situations())
def test_the_second_frame_is_chosen_in_view_of_the_first(situation):
    gradients, mask = situation
    first = best_first(gradients, mask, 1, int(mask.sum()) + 1)
    both = best_first(gradients, mask, 1, int(mask.sum()) + 2)
    assert torch.equal(both, first | best_first(gradients, mask | first, 1, int(mask.sum()) + 2))


def test_classes_spend_their_own_budgets():
    gradients = torch.randn(4, 6, 1, 1, 3, generator=torch.Generator().manual_seed(0))
    gradients[:2] *= 1000
    mask = torch.zeros(4, 6, dtype=torch.bool)
    mask[:, [0, -1]] = True
    chosen = best_first(gradients, mask, 2, 7)
    assert chosen.view(2, -1).sum(dim=1).tolist() == [3, 3]


@given(st.integers(1, 60), st.integers(0, 12), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_budget_is_spent_evenly_and_wholly_when_insertion_ends(iterations, more, warmup, cooldown):
    config = CondenseConfig(
        iterations=iterations,
        initial_keyframes=2,
        vpc=2,
        insertion="budget",
        budget="1",
        warmup=warmup,
        cooldown=cooldown,
    )
    on = [i for i in range(iterations) if config.inserts_at(i)]
    counts = [allowed_at(i, config, 4 + more) for i in on]
    steps = [b - a for a, b in zip([4, *counts], counts, strict=False)]
    assert not on or counts[-1] == 4 + more
    assert all(0 <= step <= more / len(on) + 1 for step in steps)


@pytest.mark.parametrize(
    ("budget", "paid"),
    [("2", 10), ("2.8", 14), ("3.79", 18), ("8", 40), ("829440B", 15), ("829439B", 14), ("1MB", 18)],
)
def test_a_budget_is_a_size_for_all_videos_or_a_mean_number_for_each(store, budget, paid):
    # A key-frame of 3 × 48 × 48 float32 numbers takes 27,648 bytes, and there are two classes.
    config = CondenseConfig(**(PAPER | {"vpc": 5, "insertion": "budget", "budget": budget}))
    assert LargestGain(budget).keyframes_per_class(store, config) == paid


@pytest.mark.parametrize("storage", ["float32", "uint8"])
def test_a_set_takes_what_its_budget_allows_and_one_more_frame_of_each_class_would_not_fit(store, storage):
    num_bytes = 500_000 if storage == "float32" else 125_000
    options = {"insertion": "budget", "budget": f"{num_bytes}B", "storage": storage, "vpc": 2}
    condensed = run_tiny(store, **options)
    of_frame = 3 * store.size[0] * store.size[1] * (4 if storage == "float32" else 1)
    spent = condensed.num_keyframes * of_frame
    assert spent <= num_bytes < spent + len(store.classes) * of_frame


@pytest.mark.parametrize("budget", ["1.9", "8.5", "1kB", "1GiB"])
def test_a_budget_below_the_first_keyframes_or_above_every_frame_is_refused(store, budget):
    with pytest.raises(ConfigError, match=r"condense\.budget = '.*' pays for \d+ key-frames of each class"):
        run_tiny(store, vpc=2, insertion="budget", budget=budget)


@pytest.mark.parametrize("budget", ["", ".5", "-1", "1e3", "12 MiB", "12mib", "MiB", "٣"])
def test_only_a_number_or_a_size_with_its_unit_is_a_budget(store, budget):
    with pytest.raises(ConfigError, match=r"condense\.budget"):
        run_tiny(store, insertion="budget", budget=budget)


def test_a_budget_without_its_rule_is_refused(store):
    with pytest.raises(ConfigError, match=r"budget = '3', but it must be empty unless insertion is budget"):
        run_tiny(store, budget="3")


def test_a_budget_has_nothing_to_buy_where_every_frame_is_a_keyframe_at_once(store):
    for options in ({"initial_keyframes": 0}, {"fully_learnable": True}):
        with pytest.raises(ConfigError, match="another where every frame is a key-frame at once"):
            run_tiny(store, insertion="budget", budget="3", **options)


def test_a_size_is_no_budget_where_frames_take_what_a_codec_makes_of_them_but_a_number_is(store):
    with pytest.raises(ConfigError, match="bytes are known at the end"):
        run_tiny(store, insertion="budget", budget="1MB", storage="h264")
    assert run_tiny(store, insertion="budget", budget="3", storage="h264").num_keyframes == 6


def test_key_frames_of_half_the_height_and_width_cost_a_quarter(store):
    small = CondenseConfig(vpc=5, initial_keyframes=2, insertion="budget", budget="276480B", keyframe_scale=2)
    assert LargestGain(small.budget).keyframes_per_class(store, small) == 20
    assert run_tiny(store, insertion="budget", budget="3", keyframe_scale=2).num_keyframes == 6
