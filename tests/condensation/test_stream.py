"""The stream of networks: which network and which real clips an iteration compares the synthetic ones with."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import PAPER
from torch import nn

from prism.artifacts.clips import to_model_input
from prism.artifacts.store import ClipStore
from prism.condensation import ahead
from prism.condensation import chunk as chunks
from prism.condensation import stream as module
from prism.condensation.ahead import ClassMeans, keep_ahead
from prism.condensation.chunk import Chunk
from prism.condensation.class_means import Showing, between_class_energy, held_frames, whole_clips
from prism.condensation.condense import condense
from prism.condensation.objectives import match, squared_distance
from prism.condensation.options import CondenseConfig, Precision
from prism.condensation.stream import BLOCK, PRECISIONS, DrawnNetwork, NetworkStream, Numbers
from prism.errors import Interrupted
from prism.machine.run import Run
from prism.networks.convnet3d import ConvNet3D
from prism.networks.network import Network
from prism.networks.options import NETWORKS

CPU = torch.device("cpu")


def config(**options: object) -> CondenseConfig:
    return CondenseConfig(width=2, **({"batch_real": 2} | options))


def weights(network: Network) -> torch.Tensor:
    return torch.cat([parameter.flatten() for parameter in network.parameters()]).clone()


def opened(store: ClipStore, options: CondenseConfig) -> tuple[DrawnNetwork, ClassMeans]:
    """What an iteration compares synthetic clips by, and with."""
    drawn = DrawnNetwork(NetworkStream(store, options), CPU)
    return drawn, ClassMeans(drawn)


def test_the_number_formats_are_those_that_the_option_names():
    assert set(get_args(Precision)) == set(PRECISIONS)


# Which networks.


def test_a_number_has_one_network_and_one_batch_whatever_was_asked_for_before(make_store):
    def at(numbers: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        # A new store each time: neither finds what the other has kept.
        drawn, means = opened(make_store(train=6), config())
        return [(means.of(number), weights(drawn.draw(number))) for number in numbers][-1]

    for straight, jumped in zip(at([0, 1, 2, 3]), at([3]), strict=True):
        assert torch.equal(straight, jumped)


def test_every_number_has_another_network_and_another_batch(make_store):
    drawn, means = opened(make_store(train=6), config())
    seen = [(means.of(i), weights(drawn.draw(i))) for i in range(4)]
    for i in range(4):
        for j in range(i):
            assert not torch.equal(seen[i][0], seen[j][0])
            assert not torch.equal(seen[i][1], seen[j][1])


def test_streams_of_another_seed_or_name_have_other_networks(make_store):
    store, seen = make_store(), []
    for options, name in (({}, "network"), ({"network_seed": 1}, "network"), ({}, "unseen")):
        stream = NetworkStream(store, config(**options), name)
        seen.append(weights(DrawnNetwork(stream, CPU).draw(0)))
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])


@settings(max_examples=30)
@given(iterations=st.integers(1, 100), static=st.integers(0, 60), seed=st.integers(0, 5))
def test_a_set_meets_every_network_at_most_once_in_each_stage(iterations, static, seed):
    options = {"method": "static-dynamic", "static_iterations": static, "iterations": iterations, "seed": seed}
    numbers = Numbers(CondenseConfig(**options))
    for stage in (range(static), range(static, static + iterations)):
        found = [numbers.of(i) for i in stage]
        assert len(set(found)) == len(found)
        # Whole blocks, so that sets of every seed share them.
        assert all(number < -(-len(stage) // BLOCK) * BLOCK for number in found)


def test_sets_of_other_seeds_meet_the_same_networks_in_another_order():
    found = [[Numbers(CondenseConfig(iterations=160, seed=seed)).of(i) for i in range(160)] for seed in (0, 1)]
    assert found[0] != found[1]
    assert sorted(found[0]) == sorted(found[1]) == list(range(160))


# Which class means.


def exact_means(network: Network, store: ClipStore) -> torch.Tensor:
    """Class means over all training clips and, where allowed, their mirror images, in a plain loop."""
    clips, means = store.clips("train"), []
    for label in range(len(store.classes)):
        ours = clips.frames[clips.labels == label]
        pictures = [*ours, *ours.flip(-1)] if store.flip else [*ours]
        inputs = [to_model_input(picture[None], store.normalisation) for picture in pictures]
        embeddings = [network.embed(x)[0] for x in inputs]
        means.append(torch.stack(embeddings).mean(dim=0))
    return torch.stack(means)


@pytest.mark.parametrize("flip", [False])
def test_all_clips_give_the_exact_class_means(make_store, flip):
    store = make_store(classes=2, train=[3, 2], flip=flip)
    drawn, means = opened(store, config(batch_real=0))
    for number in range(3):
        exact = exact_means(drawn.draw(number), store)
        torch.testing.assert_close(means.of(number), exact, rtol=1e-4, atol=1e-5)


def test_a_part_of_the_classes_has_the_means_that_it_has_among_all(make_store):
    store = make_store(classes=3, train=[4, 2, 3])
    drawn, _ = opened(store, config())
    whole, part = (ClassMeans(drawn, classes) for classes in (None, range(1, 2)))
    torch.testing.assert_close(part.of(5), whole.of(5)[1:2], rtol=1e-5, atol=1e-6)


def test_still_and_moving_clips_have_means_of_their_own(make_store):
    _, means = opened(make_store(), config())
    whole, held = means.of(0, whole_clips), means.of(0, held_frames)
    assert not torch.equal(whole, held)
    assert torch.equal(means.of(0, whole_clips), whole)


def test_flips_are_used_only_where_the_store_says_that_they_keep_the_labels(make_store, monkeypatch):
    asked = []
    original = module.real_class_means

    def note(*args: object) -> torch.Tensor:
        asked.extend(item.flips for item in args if isinstance(item, Showing))
        return original(*args)

    monkeypatch.setattr(module, "real_class_means", note)
    for flip in (False, True):
        opened(make_store(flip=flip), config())[1].of(0)
    assert asked[0] is False
    assert asked[1] is not False


# What is kept.


def computing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by the number of each network whose class means are computed."""
    computed: list[int] = []
    original = DrawnNetwork.class_means

    def class_means(self: DrawnNetwork, number: int, *args: object) -> torch.Tensor:
        if self.stream.name == "network":
            computed.append(number)
        return original(self, number, *args)

    monkeypatch.setattr(DrawnNetwork, "class_means", class_means)
    return computed


TINY = PAPER | {"batch_real": 2, "device": "cpu", "iterations": 20, "width": 2}


def test_kept_means_give_the_same_set_to_the_last_bit(make_store, monkeypatch):
    computed, store = computing(monkeypatch), make_store()
    cold = condense(store, **TINY).to_bytes()
    # Ahead, in whole blocks, each network once.
    assert sorted(computed) == list(range(2 * BLOCK))
    assert condense(store, **TINY).to_bytes() == cold
    assert len(computed) == 2 * BLOCK
    for damaged in (store.path / "cache").iterdir():
        damaged.write_bytes(b"damaged")
    assert condense(store, **TINY).to_bytes() == cold
    assert len(computed) == 4 * BLOCK
    for damaged in (store.path / "cache").iterdir():
        # The lowest bit of the first byte of the last value.
        data = bytearray(damaged.read_bytes())
        data[-4] ^= 1
        damaged.write_bytes(data)
    assert condense(store, **TINY).to_bytes() == cold
    assert len(computed) == 6 * BLOCK


def test_every_seed_vpc_rule_and_rate_shares_the_means_and_another_network_seed_does_not(make_store, monkeypatch):
    computed, store = computing(monkeypatch), make_store()
    condense(store, **TINY)
    condense(store, **(TINY | {"seed": 1, "vpc": 2, "insertion": "random", "init": "real", "lr": 0.0}))
    assert len(computed) == 2 * BLOCK
    condense(store, **TINY, network_seed=1)
    assert len(computed) == 4 * BLOCK
    condense(store, **TINY, precision="bfloat16")
    assert len(computed) == 6 * BLOCK


def test_means_that_would_take_too_much_are_computed_as_they_are_needed_to_the_same_set(
    make_store, monkeypatch, capsys
):
    computed, kept = computing(monkeypatch), condense(make_store(), **TINY).to_bytes()
    computed.clear()
    monkeypatch.setattr(ahead, "KEPT_BYTES", 100)
    monkeypatch.setattr(ahead, "networks_side_by_side", lambda *_: 1)
    assert condense(make_store(), **TINY, progress=True).to_bytes() == kept
    assert "more than the 0.0 MiB that are kept there" in capsys.readouterr().err
    # One for each iteration, none ahead.
    assert len(computed) == 20


def test_a_network_of_ones_own_is_never_kept(make_store, monkeypatch):
    class Own(ConvNet3D):
        pass

    store = make_store()
    condense(store, **TINY, model=Own)
    assert not list(store.path.glob("cache/means-*"))


def test_blocks_are_computed_by_an_executor_or_by_threads_to_the_same_bytes(make_store):
    needs, kept = [(block, whole_clips) for block in range(3)], []
    with ThreadPoolExecutor(2) as executor:
        for run in (Run(device="cpu"), Run(device="cpu", executor=executor)):
            store = make_store()
            keep_ahead(NetworkStream(store, config()), needs, run)
            kept.append({path.name: path.read_bytes() for path in store.path.glob("cache/means-*")})
    assert kept[0] == kept[1]
    assert len(kept[0]) == 3


def test_a_stopped_run_ends_within_a_block_and_keeps_those_that_are_done(make_store, monkeypatch):
    store, order = make_store(), []
    original = DrawnNetwork.draw

    def draw(self: DrawnNetwork, number: int) -> Network:
        order.append(number)
        if number == BLOCK + 2:
            os.kill(os.getpid(), signal.SIGTERM)
            # Until the main thread has heard of it.
            time.sleep(0.2)
        return original(self, number)

    monkeypatch.setattr(DrawnNetwork, "draw", draw)
    monkeypatch.setattr(ahead, "networks_side_by_side", lambda *_: 1)
    needs = [(block, whole_clips) for block in range(3)]
    with pytest.raises(Interrupted, match="Run the same command to continue"):
        keep_ahead(NetworkStream(store, config()), needs, Run(device="cpu"))
    assert len(list(store.path.glob("cache/means-*"))) == 1
    assert BLOCK + 3 not in order


def classes_of_their_own_shade(num_classes: int, num_clips: int) -> np.ndarray:
    """Noise around a level of grey for each class."""
    grey = np.linspace(80, 160, num_classes).repeat(num_clips).reshape(-1, 1, 1, 1, 1)
    noise = np.random.default_rng(0).normal(0, 30, (num_classes * num_clips, 8, 3, 48, 48))
    return (grey + noise).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("view", [whole_clips, held_frames])
def test_class_means_that_are_not_kept_are_computed_by_as_many_networks_as_there_are_threads(
    make_store, monkeypatch, view
):
    store, embedding = make_store(train=6), []
    original = DrawnNetwork.class_means

    def class_means(self: DrawnNetwork, number: int, *given: object) -> torch.Tensor:
        embedding.append((number, id(self)))
        # The other thread begins meanwhile.
        time.sleep(0.05)
        return original(self, number, *given)

    monkeypatch.setattr(DrawnNetwork, "class_means", class_means)
    monkeypatch.setattr(ahead, "networks_side_by_side", lambda *_: 1)
    drawn, alone = opened(store, config())
    expected = [(alone.of(number, view), weights(drawn.draw(number))) for number in range(BLOCK + 1)]
    embedding.clear()
    monkeypatch.setattr(ahead, "networks_side_by_side", lambda *_: 3)
    drawn, together = opened(store, config())
    for number, (means, values) in enumerate(expected):
        assert torch.equal(together.of(number, view), means)
        assert torch.equal(weights(drawn.draw(number)), values)
    # The last of a block are fewer, and of the next block only its first was asked for.
    assert sorted(number for number, _ in embedding) == list(range(BLOCK + 3))
    # Three networks, which stay.
    assert len({network for _, network in embedding[:3]}) == len({network for _, network in embedding}) == 3


@pytest.mark.parametrize("model", NETWORKS.registry)
def test_bfloat16_moves_class_means_and_gradients_far_less_than_another_batch_does(make_store, model):
    frames = classes_of_their_own_shade(3, 4)
    store = make_store(classes=3, train=4, val=0, test=0, flip=False, frames=frames)
    drawn, found = opened(store, CondenseConfig(model=model, width=8, precision="bfloat16"))
    network, means = drawn.draw(0), found.of(0)
    exact = exact_means(network, store)
    error = float((means - exact).square().sum()) / between_class_energy(exact)
    # On UCF101 2e-5 to 7e-5, where another batch of 32 moves them by 0.3.
    assert 0 < error < 1e-3

    clips = torch.randn(3, 8, 3, 48, 48, generator=torch.Generator().manual_seed(0))
    gradient, expected = (
        match(network, real, clips, squared_distance, chunk=Chunk(3))[1] for real in (means, exact)
    )
    assert (gradient - expected).norm() < 0.01 * expected.norm()

    # Both sides have the weights that float32 draws, rounded: rounding them on one side alone would be a bias.
    own, _ = opened(store, CondenseConfig(model=model, width=8))
    assert torch.equal(weights(network), weights(own.draw(0)).bfloat16().float())


@pytest.mark.parametrize("model", NETWORKS.registry)
def test_a_class_has_the_same_means_to_the_bit_whichever_others_are_computed(make_store, model):
    drawn, _ = opened(make_store(classes=3, train=7), config(model=model, batch_real=7))
    every, two = (drawn.class_means(0, whole_clips, range(first, 3)) for first in (0, 1))
    assert torch.equal(every[1:], two)


class Positions(nn.Module):
    """Multiplies features by numbers that no state dict holds."""

    def __init__(self, num: int) -> None:
        super().__init__()
        self.register_buffer("factors", torch.zeros(num), persistent=False)

    def initialise(self, generator: torch.Generator) -> None:
        self.factors.copy_(torch.linspace(1, 2, len(self.factors)))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features * self.factors


class Positioned(ConvNet3D):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.blocks.append(Positions(self.size[1] // 48))


def test_bfloat16_embeds_real_clips_with_all_values_of_the_network_also_those_beside_its_state(make_store):
    drawn, _ = opened(make_store(), CondenseConfig(model=Positioned, precision="bfloat16"))
    network = drawn.draw(0)
    for own, real in zip(network.buffers(), drawn.real_network.buffers(), strict=True):
        assert own.tolist() == real.tolist() == [1.0]


@pytest.mark.parametrize("model", NETWORKS.registry)
def test_class_means_of_every_network_do_not_depend_on_how_the_clips_are_chunked(make_store, monkeypatch, model):
    means = []
    for size in (2, 64):
        monkeypatch.setitem(chunks.FIRST_CHUNK, "cpu", size)
        monkeypatch.setattr(chunks, "MOST_REAL", size)
        # Held frames and mirror images are drawn: the same ones for a clip, whatever chunk it is in.
        means.append(opened(make_store(train=5), config(model=model, batch_real=5))[1].of(0, held_frames))
    torch.testing.assert_close(*means, rtol=1e-4, atol=1e-5)


def test_a_view_of_ones_own_is_never_kept_since_another_may_have_its_name(make_store):
    def view_of(frame):
        def half(clips, generator):
            return clips[:, frame, None].expand_as(clips)

        return half

    store = make_store()
    _, means = opened(store, config())
    first, last = (means.of(0, view_of(frame)) for frame in (0, 7))
    assert not torch.equal(first, last)
    keep_ahead(NetworkStream(store, config()), {(0, view_of(0))}, Run())
    assert not list(store.path.glob("cache/means-*"))
