"""Real moments: which network and which real clips an iteration compares the synthetic ones with."""

from typing import get_args

import numpy as np
import pytest
import torch

from prism.artifacts.clips import to_model_input
from prism.condensation import chunk as chunks
from prism.condensation import moments as module
from prism.condensation.chunk import Chunk
from prism.condensation.class_means import Showing, between_class_energy, held_frames, whole_clips
from prism.condensation.condense import condense
from prism.condensation.moments import MOMENTS, PRECISIONS, FreshMoments, MomentBank
from prism.condensation.objectives import match, squared_distance
from prism.condensation.options import CondenseConfig, Precision, RealMoments
from prism.networks.options import NETWORKS

CPU = torch.device("cpu")


def config(**options: object) -> CondenseConfig:
    return CondenseConfig(width=2, batch_real=2, **options)


def test_the_choices_of_real_moments_are_those_that_exist():
    assert set(get_args(RealMoments)) == set(MOMENTS)
    assert set(get_args(Precision)) == set(PRECISIONS)


def weights(moments) -> torch.Tensor:
    return torch.cat([parameter.flatten() for parameter in moments.network.parameters()]).clone()


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("refresh", [0, 3])
def test_an_iteration_depends_on_its_number_alone_so_that_a_run_can_resume_anywhere(make_store, name, refresh):
    def at(iterations: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        # A new store each time: neither finds what the other has kept.
        moments = MOMENTS[name](make_store(), config(bank_size=2, bank_refresh=refresh), CPU)
        means = [moments.at(i) for i in iterations][-1]
        return means, weights(moments)

    for straight, jumped in zip(at([0, 1, 2, 3, 4, 5]), at([5]), strict=True):
        assert torch.equal(straight, jumped)


def test_fresh_moments_draw_another_network_and_another_batch_in_every_iteration(make_store):
    moments = FreshMoments(make_store(train=6), config(), CPU)
    seen = [(moments.at(i), weights(moments)) for i in range(4)]
    for i in range(4):
        for j in range(i):
            assert not torch.equal(seen[i][0], seen[j][0])
            assert not torch.equal(seen[i][1], seen[j][1])


def exact_means(moments, store) -> torch.Tensor:
    """Class means over all training clips and, where allowed, their mirror images, in a plain loop."""
    clips, means = store.clips("train"), []
    for label in range(len(store.classes)):
        ours = clips.frames[clips.labels == label]
        pictures = [*ours, *ours.flip(-1)] if store.flip else [*ours]
        inputs = [to_model_input(picture[None], store.normalisation) for picture in pictures]
        embeddings = [moments.network.embed(x)[0] for x in inputs]
        means.append(torch.stack(embeddings).mean(dim=0))
    return torch.stack(means)


@pytest.mark.parametrize("flip", [True, False])
def test_the_bank_holds_the_exact_means_of_the_network_that_it_gives(make_store, flip):
    store = make_store(classes=2, train=[3, 2], flip=flip)
    moments = MomentBank(store, config(bank_size=2, bank_refresh=2), CPU)
    for iteration in range(6):
        means = moments.at(iteration)
        torch.testing.assert_close(means, exact_means(moments, store), rtol=1e-4, atol=1e-5)


def distinct(moments, iterations: int) -> int:
    networks = set()
    for i in range(iterations):
        moments.at(i)
        networks.add(tuple(weights(moments)[:20].tolist()))
    return len(networks)


def test_a_bank_without_refresh_uses_as_many_networks_as_it_has_places(make_store):
    assert distinct(MomentBank(make_store(train=1), config(bank_size=3), CPU), 25) == 3


def test_a_bank_with_refresh_replaces_its_networks(make_store):
    assert distinct(MomentBank(make_store(train=1), config(bank_size=3, bank_refresh=5), CPU), 25) > 6


def computing(monkeypatch) -> list[int]:
    """A list that grows with every computation of a bank's means."""
    computed: list[int] = []
    original = MomentBank.class_means
    monkeypatch.setattr(MomentBank, "class_means", lambda self, *args: computed.append(1) or original(self, *args))
    return computed


def test_a_bank_computes_the_means_of_a_network_once(make_store, monkeypatch):
    computed, moments = computing(monkeypatch), MomentBank(make_store(train=1), config(bank_size=3), CPU)
    for i in range(25):
        moments.at(i)
    assert len(computed) == 3


BANK = {
    "batch_real": 2,
    "bank_size": 2,
    "bank_refresh": 3,
    "device": "cpu",
    "iterations": 6,
    "real_moments": "bank",
    "width": 2,
}


def test_a_bank_from_the_store_gives_the_same_set_to_the_last_bit(make_store, monkeypatch):
    computed, store = computing(monkeypatch), make_store()
    cold = condense(store, **BANK).to_bytes()
    num_networks = len(computed)
    assert num_networks > BANK["bank_size"]
    assert condense(store, **BANK).to_bytes() == cold
    assert len(computed) == num_networks
    for damaged in (store.path / "cache").iterdir():
        damaged.write_bytes(b"damaged")
    assert condense(store, **BANK).to_bytes() == cold
    assert len(computed) == 2 * num_networks


def test_every_seed_vpc_and_rule_shares_a_bank_and_another_bank_seed_has_its_own(make_store, monkeypatch):
    computed, store = computing(monkeypatch), make_store()
    fixed = BANK | {"bank_refresh": 0, "iterations": 20}
    condense(store, **fixed)
    condense(store, **fixed, seed=1, vpc=2, insertion="random", init="real")
    assert len(computed) == 2
    condense(store, **fixed, bank_seed=1)
    assert len(computed) == 4
    condense(store, **fixed, precision="bfloat16")
    assert len(computed) == 6


def test_still_and_moving_clips_have_means_of_their_own(make_store):
    bank = MomentBank(make_store(), config(bank_size=1), CPU)
    whole, held = bank.at(0, whole_clips), bank.at(0, held_frames)
    assert not torch.equal(whole, held)
    assert torch.equal(bank.at(1, whole_clips), whole)


@pytest.mark.parametrize("name", MOMENTS)
def test_flips_are_used_only_where_the_store_says_that_they_keep_the_labels(make_store, monkeypatch, name):
    asked = []
    original = module.real_class_means

    def note(*args: object) -> torch.Tensor:
        asked.extend(item.flips for item in args if isinstance(item, Showing))
        return original(*args)

    monkeypatch.setattr(module, "real_class_means", note)
    for flip in (False, True):
        MOMENTS[name](make_store(flip=flip), config(), CPU).at(0)
    assert asked[0] is False
    assert asked[1] is not False


def classes_of_their_own_shade(num_classes: int, num_clips: int) -> np.ndarray:
    """Noise around a level of grey for each class."""
    grey = np.linspace(80, 160, num_classes).repeat(num_clips).reshape(-1, 1, 1, 1, 1)
    noise = np.random.default_rng(0).normal(0, 30, (num_classes * num_clips, 8, 3, 48, 48))
    return (grey + noise).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("model", NETWORKS.homes)
def test_bfloat16_moves_class_means_and_gradients_far_less_than_another_batch_does(make_store, model):
    frames = classes_of_their_own_shade(3, 4)
    store = make_store(classes=3, train=4, val=0, test=0, flip=False, frames=frames)
    moments = FreshMoments(store, CondenseConfig(model=model, width=8, precision="bfloat16"), CPU)
    means = moments.at(0)
    rounded = weights(moments)
    exact = exact_means(moments, store)
    error = float((means - exact).square().sum()) / between_class_energy(exact)
    # On UCF101 2e-5 to 7e-5, where another batch of 32 moves them by 0.3.
    assert 0 < error < 1e-3

    clips = torch.randn(3, 8, 3, 48, 48, generator=torch.Generator().manual_seed(0))
    gradient, expected = (
        match(moments.network, real, clips, squared_distance, chunk=Chunk(3))[1] for real in (means, exact)
    )
    assert (gradient - expected).norm() < 0.01 * expected.norm()

    # Both sides have the weights that float32 draws, rounded: rounding them on one side alone would be a bias.
    own = FreshMoments(store, CondenseConfig(model=model, width=8), CPU)
    own.at(0)
    assert torch.equal(rounded, weights(own).bfloat16().float())


@pytest.mark.parametrize("model", NETWORKS.homes)
@pytest.mark.parametrize("name", MOMENTS)
def test_class_means_of_every_network_do_not_depend_on_how_the_clips_are_chunked(
    make_store, monkeypatch, model, name
):
    means = []
    for size in (2, 64):
        monkeypatch.setitem(chunks.FIRST_CHUNK, "cpu", size)
        # Held frames and mirror images are drawn: the same ones for a clip, whatever chunk it is in.
        means.append(MOMENTS[name](make_store(train=5), config(model=model), CPU).at(0, held_frames))
    torch.testing.assert_close(*means, rtol=1e-4, atol=1e-5)
