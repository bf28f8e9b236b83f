"""Distribution matching against its formula (paper, section 3.4), its learning rate, and held-out networks."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import CPU, PAPER, chunk_of, load_telemetry, setup_of, started, threads
from torch import nn

from prism.artifacts.telemetry import telemetry_path
from prism.condensation import condense as verb
from prism.condensation import prepare
from prism.condensation.condense import condense, sentence_of
from prism.condensation.objectives import CrossEntropy, DistributionMatching, MatchScore, largest_curvature
from prism.condensation.random_networks import Chunk, between_class_energy
from prism.errors import DivergedError
from prism.machine.randomness import generator
from prism.machine.run import Run

SHAPE = (3, 3, 2, 2)
"""T, C, H, W of the clips that go through the tiny network."""
TINY = PAPER | {"width": 4, "batch_real": 2, "iterations": 4}


class TinyNetwork(nn.Module):
    """A smooth stand-in for a network: an embedding of every value of the clip, in float64."""

    num_classes = 0

    def __init__(self) -> None:
        super().__init__()
        values = np.random.default_rng(0).standard_normal((int(np.prod(SHAPE)), 5))
        self.weight = nn.Parameter(torch.from_numpy(values), requires_grad=False)

    def embed(self, clips: torch.Tensor) -> torch.Tensor:
        return torch.tanh(clips.flatten(1).double() @ self.weight)


NETWORK: Any = TinyNetwork()
MATCHING = DistributionMatching()


def random_clips(num: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((num, *SHAPE)))


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 10), st.integers(1, 3), st.integers(0, 100))
def test_match_is_equation_8_whatever_the_chunk(num_classes, vpc, size, threads, seed):
    clips = random_clips(num_classes * vpc, seed)
    real = np.random.default_rng(seed + 1).standard_normal((num_classes, 5))
    found = MATCHING.match(NETWORK, torch.from_numpy(real), clips, chunk_of(size, threads))
    flat = clips.numpy().transpose(0, 2, 1, 3, 4).reshape(len(clips), -1)
    means = np.tanh(flat @ NETWORK.weight.numpy()).reshape(num_classes, vpc, -1).mean(axis=1)
    np.testing.assert_allclose(found.losses.numpy(), ((real - means) ** 2).sum(axis=1))
    whole = MATCHING.match(NETWORK, torch.from_numpy(real), clips, Chunk(100))
    torch.testing.assert_close(found.gradients, whole.gradients)


def test_the_gradient_of_match_equals_finite_differences():
    real = torch.from_numpy(np.random.default_rng(3).standard_normal((2, 5)))
    clips = random_clips(4)
    gradient = MATCHING.match(NETWORK, real, clips, Chunk(2)).gradients
    step = 1e-6
    for seed in range(20):
        direction = random_clips(4, seed=100 + seed)
        moved = (MATCHING.match(NETWORK, real, clips + far * direction, Chunk(8)) for far in (-step, step))
        slope = torch.stack([one.losses.sum() for one in moved]).diff().item() / (2 * step)
        assert (gradient * direction).sum().item() == pytest.approx(slope, rel=1e-6, abs=1e-6)


CROSS_ENTROPY = CrossEntropy(weight=0.5, trained=2, epochs=1)


def test_cross_entropy_is_that_under_a_trained_network_times_the_energy_between_classes(store):
    run = started(store, **(TINY | {"objective": CROSS_ENTROPY, "vpc": 2}))
    clips, network, real = run.render(), run.networks.draw(3), CROSS_ENTROPY.real(run.networks, 3)
    found = CROSS_ENTROPY.match(network, real, clips, run.chunk)
    logits = run.networks.trained(run.networks.number_of(3) % 2)(clips.transpose(1, 2))
    entropy = -(logits.exp() / logits.exp().sum(dim=1, keepdim=True))[range(len(clips)), run.videos.labels].log()
    means = run.networks.class_means(3)
    added = 0.5 * between_class_energy(means) * entropy.view(len(means), 2).mean(dim=1)
    plain = MATCHING.match(network, means, clips, run.chunk)
    torch.testing.assert_close(found.losses, plain.losses + added, rtol=1e-4, atol=0)
    (gradient,) = torch.autograd.grad(added.sum(), clips)
    assert (found.gradients - plain.gradients - gradient).norm() < 1e-3 * gradient.norm()


def test_classes_are_compared_with_cross_entropy_alike_whichever_are_condensed(store):
    losses = list[torch.Tensor]()
    for classes in (None, range(1, 2)):
        run = started(store, classes, **(TINY | {"objective": CROSS_ENTROPY}))
        real = CROSS_ENTROPY.real(run.networks, 1)
        losses.append(CROSS_ENTROPY.match(run.networks.draw(1), real, run.render(), run.chunk).losses)
    torch.testing.assert_close(losses[0][1:], losses[1])


def test_networks_are_trained_once_for_a_store_and_those_of_every_seed_are_its_own(make_store, monkeypatch):
    store = make_store()
    networks = started(store, **(TINY | {"objective": CROSS_ENTROPY})).networks
    _, first = map(networks.trained, range(2))
    assert len([*(store.path / "cache").glob("trained-*")]) == 2
    other = started(store, **(TINY | {"objective": CROSS_ENTROPY, "network_seed": 1})).networks
    assert not any(torch.equal(other.trained(i).classifier.weight, first.classifier.weight) for i in range(2))
    monkeypatch.setattr("prism.networks.trained.train", None)
    again = started(store, **(TINY | {"objective": CROSS_ENTROPY})).networks.trained(1)
    assert all(torch.equal(*pair) for pair in zip(again.parameters(), first.parameters(), strict=True))


def test_networks_trained_side_by_side_are_those_trained_alone(make_store):
    stores = {number: make_store() for number in (1, 2)}
    for number, store in stores.items():
        with threads(number):
            setup_of(store, **(TINY | {"objective": CROSS_ENTROPY})).precompute(Run(progress=False))
    files = [sorted((store.path / "cache").iterdir()) for store in stores.values()]
    kept = [{file.name: file.read_bytes() for file in some} for some in files]
    assert kept[0] == kept[1]
    assert sum(name.startswith("trained-") for name in kept[0]) == 2


@settings(max_examples=20)
@given(largest=st.floats(0.01, 100), share=st.floats(0, 0.1), seed=st.integers(0, 1000))
def test_the_largest_curvature_of_a_quadratic_is_its_largest_eigenvalue(largest, share, seed):
    draw = torch.Generator().manual_seed(seed)
    values = torch.cat([torch.tensor([largest]), share * largest * torch.rand(9, generator=draw)])
    basis = torch.linalg.qr(torch.randn(10, 10, generator=draw)).Q
    tensors = [torch.randn(4, generator=draw), torch.randn(2, 3, generator=draw)]
    before = [tensor.clone() for tensor in tensors]

    def gradients(step: int) -> list[torch.Tensor]:
        gradient = basis @ (values * (basis.T @ torch.cat([tensor.flatten() for tensor in tensors])))
        return [gradient[:4], gradient[4:].view(2, 3)]

    assert largest_curvature(tensors, gradients, seed) == pytest.approx(largest, rel=0.05)
    assert all(torch.equal(*pair) for pair in zip(tensors, before, strict=True))


def test_a_network_under_which_the_loss_is_flat_does_not_count():
    """A narrow network may be dead as it is drawn: it embeds all clips alike."""
    curvatures = [5.0, 0.0, 7.0]
    for tensors in ([torch.randn(6)], [torch.zeros(6)]):
        found = largest_curvature(tensors, lambda step, x=tensors: [curvatures[step] * x[0]], seed=0)
        assert found == pytest.approx(6.0, rel=0.01)
    assert largest_curvature(tensors, lambda step: [torch.zeros(6)], seed=0) == 0


def rate(store, classes=None, **options) -> float:
    return started(store, classes, **(TINY | {"lr": 0.0} | options)).rates[0]


def test_a_relative_rate_is_proportional_to_its_option_and_does_not_depend_on_the_classes(store):
    one = rate(store, relative_lr=0.1)
    assert rate(store, relative_lr=1.0) == pytest.approx(10 * one)
    assert rate(store, range(1, 2), relative_lr=0.1) == one
    # The loss of a mean of n videos has a hundredth of the curvature in each of them, for n = 10, and tenfold
    # directions: λ falls like n.
    assert 1.4 < rate(store, vpc=2, relative_lr=0.1) / one < 2.8


def test_rates_fall_along_half_a_cosine_or_stay(store, monkeypatch):
    # An absolute rate is taken as it is.
    monkeypatch.setattr(prepare, "largest_curvature", None)
    run = started(store, **(TINY | {"lr": 2.0, "decay": "cosine"}))
    assert [round(run.step().lr, 6) for _ in range(4)] == [2.0, 1.707107, 1.0, 0.292893]
    run = started(store, **(TINY | {"lr": 2.0}))
    assert [run.step().lr for _ in range(4)] == [2.0] * 4


@pytest.mark.parametrize(("curvature", "said"), [(0.0, "does not depend on the videos"), (np.inf, "not finite")])
def test_a_relative_rate_of_a_loss_without_a_curvature_is_refused(store, monkeypatch, curvature, said):
    monkeypatch.setattr(prepare, "largest_curvature", lambda *given: curvature)
    with pytest.raises(DivergedError, match=f"{said} before the first iteration. Look at objective distribution"):
        rate(store)


def test_a_score_is_ideal_for_the_real_means_one_for_their_mean_and_linear_between():
    means = torch.randn(5, 7, generator=generator(0, "means"))
    ideal, common = MatchScore.of(means, means), MatchScore.of(means.mean(dim=0).expand(5, 7), means)
    assert (ideal.loss, ideal.alignment, ideal.nearest) == (0, pytest.approx(1), 1)
    assert (common.loss, common.alignment) == (pytest.approx(1, rel=1e-5), pytest.approx(0, abs=1e-6))
    assert common.nearest == pytest.approx(0.2)
    assert MatchScore.of(0.5 * means + 3, means).alignment == pytest.approx(0.5, rel=1e-5)
    assert MatchScore.of(means.roll(1, dims=0), means).nearest == 0
    assert MatchScore.of(means, torch.ones(5, 7)).alignment == 0
    assert MatchScore.mean([MatchScore(1 / 3, 0.2, 1), MatchScore(1 / 3, 0.4, 0)]) == MatchScore(0.3333, 0.3, 0.5)


def test_all_real_clips_are_ideal_for_networks_that_no_training_has(make_store):
    store = make_store(train=3, flip=False)
    setup = setup_of(store, width=2)
    held_out, networks = setup.held_out(Run(device="cpu")), setup.named_networks(CPU)
    score = held_out.score(store.normalisation.apply(store.clips("train").frames.float() / 255))
    assert len(held_out.real) == 6
    assert score.loss == pytest.approx(0, abs=1e-3)
    assert (score.alignment, score.nearest) == (pytest.approx(1, abs=1e-3), 1)
    for number in range(held_out.NUM):
        ours = [value.clone() for value in networks.draw(number).parameters()]
        assert not any(map(torch.equal, ours, held_out.networks.draw(number).parameters()))


def test_held_out_networks_do_not_depend_on_how_the_set_is_trained(store):
    others = {"batch_real": 1, "network_seed": 3, "seed": 5, "vpc": 2}
    found = [setup_of(store, width=2, **options).held_out(Run(device="cpu")).real for options in ({}, others)]
    assert all(map(torch.equal, *found))


def test_videos_that_have_grown_beyond_numbers_say_so_and_give_no_set(store, tmp_path):
    for output in (tmp_path / "set", None):
        with pytest.raises(DivergedError, match=r"have grown so far .* The learning rate is too high"):
            condense(store, output=output, device="cpu", **(TINY | {"iterations": 1, "lr": 1e37}))
    assert not (tmp_path / "set").exists()


def test_a_run_is_scored_at_its_start_every_so_often_and_at_its_end_as_it_is_stored(store, tmp_path, monkeypatch):
    monkeypatch.setattr(verb, "SCORED_EVERY", 2)
    condensed = condense(store, output=tmp_path / "set", device="cpu", storage="h264", **TINY)
    found = load_telemetry(telemetry_path(tmp_path / "set"))["unseen"]
    assert [record["iteration"] for record in found] == [0, 2, 4]
    last = {key: value for key, value in found[-1].items() if key not in ("kind", "iteration")}
    assert last == condensed.source["unseen"]
    assert last.keys() == {"loss", "alignment", "nearest"}
    assert last != condense(store, device="cpu", **TINY).source["unseen"]


@pytest.mark.parametrize(
    ("method", "lr", "advice"),
    [("prism", 0.0, " a --relative-lr"), ("prism", 1.0, " a --lr"), ("static-dynamic", 0.0, "--dynamic-lr")],
)
def test_a_low_alignment_names_the_options_that_the_method_has(store, method, lr, advice):
    made = condense(store, device="cpu", **(TINY | {"lr": lr}))
    low = {"loss": 1.0, "alignment": 0.1, "nearest": 0.75}
    assert advice in sentence_of(replace(made, source=made.source | {"method": method, "unseen": low}))
    assert "Try" not in sentence_of(replace(made, source=made.source | {"unseen": low | {"alignment": 0.3}}))
    grown = sentence_of(replace(made, source=made.source | {"unseen": low | {"alignment": 3e8}}))
    assert "(poor; 1 is ideal)" in grown
    assert "smaller learning rate" in grown


def test_a_run_without_iterations_gets_no_advice_and_classes_that_are_guessed_are_poor(store):
    made, read = condense(store, device="cpu", **TINY), {"loss": 1.0, "alignment": 0.5}
    guessed = made.source | {"unseen": read | {"nearest": 1 / len(store.classes)}}
    assert "nearest to themselves (guesses have as many)" in (said := sentence_of(replace(made, source=guessed)))
    assert "(fair; 1 is ideal)" in said
    assert "Try" in said
    assert "guesses" not in sentence_of(replace(made, source=guessed | {"unseen": read | {"nearest": 0.9}}))
    still = guessed | {"config": guessed["config"] | {"iterations": 0}}
    assert "Try" not in sentence_of(replace(made, source=still))
