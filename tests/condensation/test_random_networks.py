"""Random networks: which network and which real clips an iteration has, and how many go through it at a time."""

import os
import signal
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations, count, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import CPU, PAPER, chunk_of, setup_of, started, threads

from prism.artifacts.clips import to_model_input
from prism.artifacts.store import ClipStore
from prism.condensation import prepare
from prism.condensation.condense import condense
from prism.condensation.objectives import DistributionMatching
from prism.condensation.random_networks import BLOCK, Chunk, DrawnAhead, RandomNetworks, between_class_energy
from prism.errors import AGAIN, ConfigError, Interrupted
from prism.machine.randomness import generator
from prism.machine.run import Run
from prism.networks.build import build
from prism.networks.convnet3d import ConvNet3D
from prism.networks.initial import initialise, values_of
from prism.networks.network import Network
from prism.networks.options import NETWORKS
from prism.networks.recurrent import CnnLstm

TINY = PAPER | {"batch_real": 2, "device": "cpu", "iterations": 20, "width": 2}


def numbered(store: ClipStore, **options: object) -> RandomNetworks:
    """Networks whose iterations are their numbers."""
    return setup_of(store, **({"width": 2, "batch_real": 2} | options)).named_networks(CPU)


def test_a_number_has_one_network_and_one_batch_whatever_came_before(make_store):
    def at(numbers: list[int]) -> tuple[torch.Tensor, ...]:
        # A new store each time: neither finds what the other has kept.
        networks = numbered(make_store(train=6))
        for n in numbers:
            found = networks.class_means(n), values_of(networks.draw(n)), torch.cat([*networks.real_clips(n)])
        return found

    seen = [at([0]), at([1]), at([0, 1, 2]), at([2])]
    for part in range(3):
        assert torch.equal(seen[2][part], seen[3][part])
        assert not any(torch.equal(seen[i][part], seen[j][part]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_another_seed_or_name_has_other_networks_which_share_the_memory_of_one(make_store):
    store = make_store()
    setup, another = setup_of(store, width=2, batch_real=2), numbered(store, network_seed=1)
    ours, held_out = setup.named_networks(CPU), setup.named_networks(CPU, name="unseen")
    first, other = values_of(ours.draw(0)), values_of(held_out.draw(0))
    assert ours.network is held_out.network
    assert torch.equal(values_of(ours.draw(0)), first)
    rounded = setup_of(store, width=2, precision="bfloat16")
    both = [rounded.named_networks(CPU) for _ in range(2)]
    assert torch.equal(*(networks.compute_means(0, still=False) for networks in both))
    assert not torch.equal(first, other)
    assert not torch.equal(first, values_of(another.draw(0)))
    shown = [next(networks.real_clips(0)) for networks in (ours, held_out, another)]
    assert not any(torch.equal(*pair) for pair in combinations(shown, 2))


@settings(max_examples=30)
@given(iterations=st.integers(1, 100), static=st.integers(0, 60), seed=st.integers(0, 5))
def test_a_set_meets_every_network_at_most_once_in_each_stage(store, iterations, static, seed):
    options = {"method": "static-dynamic", "static_iterations": static, "iterations": iterations, "seed": seed}
    networks = setup_of(store, width=2, **options).networks(CPU)
    for stage in (range(static), range(static, static + iterations)):
        found = [networks.number_of(i) for i in stage]
        assert len(set(found)) == len(found)
        # Whole blocks, so that sets of every seed share them.
        assert all(number < -(-len(stage) // BLOCK) * BLOCK for number in found)


def test_sets_of_other_seeds_meet_the_same_networks_in_another_order(store):
    orders = [setup_of(store, width=2, iterations=160, seed=seed).networks(CPU).number_of for seed in (0, 1)]
    found = [[order(i) for i in range(160)] for order in orders]
    assert found[0] != found[1]
    assert sorted(found[0]) == sorted(found[1]) == list(range(160))


def exact_means(network: Network, store: ClipStore) -> torch.Tensor:
    """Class means over all training clips in a plain loop."""
    clips, means = store.clips("train"), []
    for label in range(len(store.classes)):
        ours = [to_model_input(clip[None], store.normalisation) for clip in clips.frames[clips.labels == label]]
        means.append(torch.stack([network.embed(x)[0] for x in ours]).mean(dim=0))
    return torch.stack(means)


def test_all_clips_give_the_exact_class_means_whatever_the_chunk(make_store):
    store = make_store(classes=2, train=[3, 2], flip=False)
    networks = numbered(store, batch_real=0)
    for size in (1, 2, 100):
        networks.chunk = chunk_of(size, 2)
        exact = exact_means(networks.draw(size), store)
        torch.testing.assert_close(networks.class_means(size), exact, rtol=1e-4, atol=1e-5)


def test_class_means_are_those_of_the_real_clips_that_an_objective_is_shown(make_store):
    store = make_store(classes=3, train=[6, 2, 3])
    for networks in (numbered(store, batch_real=4), numbered(store, batch_real=4).of_classes(range(1, 3))):
        shown, network = list(networks.real_clips(5)), networks.draw(5)
        assert [len(clips) for clips in shown] == [4, 2, 3][networks.classes.start :]
        means = torch.stack([network.embed(clips).mean(dim=0) for clips in shown])
        torch.testing.assert_close(networks.class_means(5), means, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("flip", [False, True])
def test_real_clips_are_mirrored_whole_where_that_keeps_the_labels(make_store, flip):
    store = make_store(train=12, flip=flip)
    (shown, _), clips = numbered(store, batch_real=0).real_clips(0), store.clips("train")
    plain = to_model_input(clips.frames[clips.labels == 0], store.normalisation)
    is_plain, is_mirrored = (
        torch.tensor([any(torch.equal(clip, other) for other in others) for clip in shown])
        for others in (plain, plain.flip(-1))
    )
    assert (is_plain ^ is_mirrored).all()
    assert (is_plain.any(), is_mirrored.any()) == (True, flip)


def test_a_held_frame_is_a_random_frame_of_its_own_clip(make_store):
    store = make_store(train=6, flip=False)
    networks = numbered(store, batch_real=0)
    networks.shows_stills = lambda iteration: True
    real, times = to_model_input(store.clips("train").frames, store.normalisation), set()
    for clip in (clip for clips in networks.real_clips(0) for clip in clips):
        assert torch.equal(clip, clip[:, :1].expand_as(clip))
        ((_, time),) = (real == clip[None, :, :1]).flatten(3).all(dim=3).all(dim=1).nonzero().tolist()
        times.add(time)
    assert len(times) > 2
    assert not torch.equal(numbered(store, batch_real=0).class_means(0), networks.class_means(0))


@given(st.integers(2, 5), st.integers(0, 100))
def test_between_class_energy_is_the_squared_distance_of_the_means_from_their_mean(num_classes, seed):
    means = np.random.default_rng(seed).standard_normal((num_classes, 4))
    expected = sum(np.linalg.norm(mean - sum(means) / num_classes) ** 2 for mean in means)
    assert between_class_energy(torch.from_numpy(means)).item() == pytest.approx(expected)
    assert between_class_energy(torch.ones(4, 3)) == 0


@pytest.mark.parametrize("model", NETWORKS.registry)
def test_bfloat16_moves_class_means_and_gradients_far_less_than_another_batch_does(make_store, model):
    grey = np.linspace(80, 160, 3).repeat(4).reshape(-1, 1, 1, 1, 1)
    noise = np.random.default_rng(0).normal(0, 30, (12, 8, 3, 48, 48))
    frames = (grey + noise).clip(0, 255).astype(np.uint8)
    store = make_store(classes=3, train=4, val=0, test=0, flip=False, frames=frames)
    networks = numbered(store, model=model, width=8, precision="bfloat16", batch_real=0)
    network, means = networks.draw(0), networks.class_means(0)
    exact = exact_means(network, store)
    error = float((means - exact).square().sum()) / between_class_energy(exact)
    # On UCF101 2e-5 to 7e-5, where another batch of 32 moves them by 0.3.
    assert 0 < error < 1e-3
    clips = torch.randn(3, 8, 3, 48, 48, generator=torch.Generator().manual_seed(0))
    found = (DistributionMatching().match(network, real, clips, Chunk(3)) for real in (means, exact))
    gradient, expected = (each.gradients for each in found)
    assert (gradient - expected).norm() < 0.01 * expected.norm()
    # Both sides have the weights that float32 draws, rounded: rounding them on one side alone would be a bias.
    own = numbered(store, model=model, width=8).draw(0)
    assert torch.equal(values_of(network), values_of(own).bfloat16().float())


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by the number of each network whose class means are computed."""
    numbers, original = list[int](), RandomNetworks.compute_means

    def compute_means(self: RandomNetworks, number: int, held: bool) -> torch.Tensor:
        numbers.extend([number] * (self.name == "network"))
        return original(self, number, held)

    monkeypatch.setattr(RandomNetworks, "compute_means", compute_means)
    return numbers


def test_kept_means_give_the_same_set_to_the_last_bit(make_store, computed):
    store = make_store()
    cold = condense(store, **TINY).to_bytes()
    # Ahead, in whole blocks, each network once.
    assert sorted(computed) == list(range(2 * BLOCK))
    assert condense(store, **TINY).to_bytes() == cold
    assert len(computed) == 2 * BLOCK
    for damaged in (store.path / "cache").iterdir():
        # The lowest bit of the first byte of the last value.
        data = bytearray(damaged.read_bytes())
        data[-4] ^= 1
        damaged.write_bytes(data)
    assert condense(store, **TINY).to_bytes() == cold
    assert len(computed) == 4 * BLOCK


def test_every_seed_vpc_rule_and_rate_shares_the_means_and_another_network_seed_does_not(make_store, computed):
    store = make_store()
    condense(store, **TINY)
    condense(store, **(TINY | {"seed": 1, "vpc": 2, "insertion": "random", "init": "real", "lr": 0.0}))
    assert len(computed) == 2 * BLOCK
    condense(store, **TINY, network_seed=1)
    condense(store, **TINY, precision="bfloat16")
    assert len(computed) == 6 * BLOCK


def test_means_too_large_to_keep_are_computed_as_needed_to_the_same_set(make_store, monkeypatch, computed, capsys):
    kept = condense(make_store(), **TINY).to_bytes()
    computed.clear()
    monkeypatch.setattr(prepare, "KEPT_BYTES", 100)
    assert condense(make_store(), **TINY, progress=True).to_bytes() == kept
    assert "too much to be kept" in capsys.readouterr().err
    # One for each iteration, none ahead.
    assert len(computed) == 20


def test_means_of_a_network_with_options_are_kept_and_those_that_depend_on_threads_are_kept_apart(make_store):
    store = make_store()
    for model, num in ((partial(CnnLstm, hidden=8), 8), ("cnn-lstm(hidden=8)", 8), ("cnn-lstm(hidden=9)", 16)):
        condense(store, **TINY, model=model)
        assert len([*store.path.glob("cache/means-*")]) == num
    with threads(torch.get_num_threads() + 1):
        condense(store, **TINY, model="cnn-lstm(hidden=8)")
        condense(store, **TINY)
    condense(store, **TINY)
    assert len([*store.path.glob("cache/means-*")]) == 32


class Own(ConvNet3D):
    """A custom network, whose code may change under its name."""


def test_a_custom_network_is_never_kept(make_store):
    store = make_store()
    condense(store, **TINY, model=Own)
    assert not list(store.path.glob("cache/means-*"))


def test_an_executor_computes_blocks_to_the_same_bytes(make_store):
    kept = []
    with ThreadPoolExecutor(2) as executor:
        for run in (Run(device="cpu"), Run(device="cpu", executor=executor)):
            store = make_store()
            setup_of(store, width=2, batch_real=2, iterations=40).precompute(run)
            kept.append({path.name: path.read_bytes() for path in store.path.glob("cache/means-*")})
    assert kept[0] == kept[1]
    assert len(kept[0]) == 3


def test_a_stopped_run_keeps_the_blocks_that_are_done(make_store, monkeypatch):
    store, original = make_store(), RandomNetworks.compute_means

    def compute_means(self: RandomNetworks, number: int, held: bool) -> torch.Tensor:
        if number == BLOCK + 2:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, number, held)

    monkeypatch.setattr(RandomNetworks, "compute_means", compute_means)
    with pytest.raises(Interrupted, match=AGAIN):
        setup_of(store, width=2, batch_real=2, iterations=40).precompute(Run(device="cpu"))
    assert len(list(store.path.glob("cache/means-*"))) == 1


@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 6), st.integers(1, 40), st.integers(1, 5))
def test_each_unit_is_done_once_and_in_order_whatever_fits(num, size, clips, room, threads):
    chunk, tried = chunk_of(size, threads), []

    def work(first: int, last: int) -> list[int]:
        tried.append(last - first)
        if last - first > room:
            raise torch.OutOfMemoryError
        return list(range(first, last))

    parts = chunk.map(num, work, clips=clips)
    assert [unit for part in parts for unit in part] == list(range(num))
    assert all(len(part) * clips <= max(size, clips) for part in parts)
    failed = [units for units in tried if units > room]
    if threads == 1:
        # What was too much once is not tried again, nor anything above half of it.
        assert all(later <= max(1, units // 2) for units, later in pairwise(failed))
    assert not failed or chunk.size <= room * clips


def running_out(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Let embedding fail for more clips than there is room for."""
    original: Callable[[ConvNet3D, torch.Tensor], torch.Tensor] = ConvNet3D.embed

    def embed(self: ConvNet3D, clips: torch.Tensor) -> torch.Tensor:
        if len(clips) > room:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(self, clips)

    monkeypatch.setattr(ConvNet3D, "embed", embed)


def test_a_run_that_runs_out_of_memory_goes_on_in_smaller_chunks_to_the_same_videos(make_store, monkeypatch):
    options = PAPER | {"width": 2, "batch_real": 5, "vpc": 2, "iterations": 3, "insertion": "never"}
    expected = condense(make_store(train=5), device="cpu", **options).render()
    running_out(monkeypatch, room=2)
    found = condense(make_store(train=5), device="cpu", **options).render()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("room", "what"), [(0, "one clip"), (1, "the 2 videos of one class")])
def test_where_not_even_the_least_fits_one_sentence_says_what_to_try(store, monkeypatch, room, what):
    run = started(store, width=2, batch_real=2, vpc=2, lr=1.0, network_seed=room + 10)
    running_out(monkeypatch, room)
    says = rf"^cpu has no memory left for {what}, which takes about [1-9].* MiB .*--width.*\.$"
    with pytest.raises(ConfigError, match=says):
        run.step()


class Moment:
    """An event of a pretended GPU: from its record until somebody waits for it, a copy is on its way."""

    is_pending = False

    def record(self, stream: object) -> None:
        self.is_pending = True

    def synchronize(self) -> None:
        self.is_pending = False


@pytest.fixture
def pretended(monkeypatch) -> None:
    """Memory that is not pinned, and events, of a GPU that is not there."""
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, pin_memory=False, **options: empty(*size, **options))
    cuda = SimpleNamespace(Event=Moment, current_stream=lambda device: None)
    monkeypatch.setattr("prism.condensation.random_networks.cuda", cuda)


@pytest.mark.usefixtures("pretended")
def test_networks_that_nobody_has_any_more_give_their_clips_back_at_once(store):
    networks = numbered(store)
    assert networks._ahead.copies
    feed = weakref.ref(networks.feed)
    del networks
    assert feed() is None


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("name", ["convnet3d", "custom:Network"])
def test_values_drawn_ahead_are_those_of_the_number_in_any_order(monkeypatch, name):
    monkeypatch.setattr(ConvNet3D, "name", name)
    network, expected = (build("convnet3d", "cpu", num_classes=2, num_frames=4, size=48, width=2) for _ in "ab")
    working = list[torch.nn.Module]()

    def draw(one: torch.nn.Module, number: int) -> None:
        assert not any(copied is one and is_sent.is_pending for copied, is_sent in list(ahead.copies))
        assert not any(one is other for other in working)
        working.append(one)
        assert len(working) <= (3 if name == "convnet3d" else 1)
        time.sleep(0.01)
        initialise(one, generator(0, "test", number))
        working.remove(one)

    ahead = DrawnAhead(network, CPU, draw)
    for number in (0, 1, 2, 3, 7, 8, 9, 10, 11, 2, 2, 3):
        ahead.give(network, number, count(number + 1))
        initialise(expected, generator(0, "test", number))
        assert all(map(torch.equal, network.parameters(), expected.parameters()))


def test_videos_that_plainly_cannot_fit_are_refused_before_the_first_iteration(store, monkeypatch):
    monkeypatch.setattr(prepare, "free_bytes", lambda device: 2**20)
    with pytest.raises(ConfigError, match=r"^3 videos for each of 2 classes.* free\. Pass a smaller --vpc.*\.$"):
        condense(store, vpc=3, width=2)
