"""Protocols: neither chooses anything on test clips; the published one depends on its batches, ours does not."""

import sys

import pytest
import torch

from prism.artifacts.clips import BatchStandardisation, Clips
from prism.artifacts.results import Result
from prism.errors import ConfigError
from prism.evaluation.evaluate import evaluate
from prism.evaluation.options import PROTOCOLS
from prism.selection.select import select

TINY = {"width": 2, "epochs": 3, "seeds": 1, "device": "cpu"}
MODULE = sys.modules["prism.evaluation.evaluate"]


@pytest.fixture
def windows(make_store):
    """A store that serves both protocols."""
    return make_store(test=3, random_test_windows=3)


@pytest.fixture
def chosen(windows):
    return select(windows, vpc=2)


def score(condensed, store, protocol="wang2024", **options) -> Result:
    return evaluate(condensed, store, protocol=protocol, **(TINY | options))


@pytest.fixture
def inputs(monkeypatch) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Every batch of training and test, as it is stored and as the network sees it."""
    module, seen = sys.modules["prism.networks.training"], []
    original = module.to_model_input

    def watched(frames, normalisation):
        seen.append((frames.clone(), original(frames, normalisation)))
        return seen[-1][1]

    monkeypatch.setattr(module, "to_model_input", watched)
    return seen


def test_every_batch_of_wang2024_has_mean_0_and_deviation_1(make_store, inputs):
    store = make_store(test=33, random_test_windows=3, size=43)
    # Three epochs of training batches of 3 and 1 clips, then three passes over 66 clips in batches of 64.
    score(select(store, vpc=2), store, batch_size=3)
    batches = [batch for _, batch in inputs]
    assert [len(batch) for batch in batches] == [3, 1] * 3 + [64, 2] * 3
    for batch in batches:
        assert (batch.mean().item(), batch.std().item()) == pytest.approx((0, 1), abs=1e-4)
    assert max(batch.mean((0, 2, 3, 4)).abs().max().item() for batch in batches) > 1e-2
    low, step = (torch.tensor(x).view(1, 1, 3, 1, 1) for x in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    by_hand = (5 / 6) ** 0.5 * torch.tensor([-1.0] * 3 + [1.0] * 3)
    torch.testing.assert_close(BatchStandardisation().apply(torch.cat([low, low + step])).flatten(), by_hand)
    assert not BatchStandardisation().apply(low).any()


@pytest.fixture
def scored(monkeypatch) -> list[tuple[Clips, torch.Generator | None]]:
    """The clips of every pass that was scored, and the seed of what mirrored them."""
    seen, original = [], MODULE.outputs_of

    def watched(net, clips, normalisation, batch_size, flips):
        seen.append((clips, flips and flips.initial_seed()))
        return original(net, clips, normalisation, batch_size, flips)

    monkeypatch.setattr(MODULE, "outputs_of", watched)
    return seen


def test_three_passes_score_three_windows_of_each_test_video_in_class_order(windows, chosen, scored):
    score(chosen, windows, epochs=1)
    assert len(scored) == 3
    for k, (clips, _) in enumerate(scored):
        assert torch.equal(clips.frames, windows.clips("test-random").frames[k::3])
        assert clips.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert len({clips.frames.numpy().tobytes() for clips, _ in scored}) == 3


def test_wang2024_mirrors_scored_clips_anew_for_each_network_where_that_keeps_the_labels_and_clean_none(
    make_store, windows, chosen, scored
):
    score(chosen, windows, epochs=2, seeds=2)
    assert len({flips for _, flips in scored}) == 2
    one_sided = make_store(test=3, random_test_windows=3, flip=False)
    for store, protocol, num in ((one_sided, "wang2024", 6), (windows, "clean", 2)):
        scored.clear()
        score(select(store), store, protocol, epochs=2, seeds=2)
        assert [flips for _, flips in scored] == [None] * num


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_network_is_scored_once_after_its_last_epoch(windows, chosen, scored, protocol, monkeypatch):
    epochs, original = [], MODULE.train

    def watched(*given, **options):
        assert not scored
        epochs.append(given[3].epochs)
        return original(*given, **options)

    monkeypatch.setattr(MODULE, "train", watched)
    score(chosen, windows, protocol, epochs=20)
    assert (epochs, len(scored)) == ([20], {"clean": 1, "wang2024": 3}[protocol])


def ways(shown: list[tuple[torch.Tensor, torch.Tensor]], stored: torch.Tensor) -> dict[int, set[bool]]:
    """For each stored clip whether it was seen mirrored, as it is, or in both ways."""
    found: dict[int, set[bool]] = {}
    for clip in torch.cat([frames for frames, _ in shown]):
        for at, original in enumerate(stored):
            for is_mirrored in (False, True):
                if torch.equal(clip, original.flip(-1) if is_mirrored else original):
                    found.setdefault(at, set()).add(is_mirrored)
    return found


EPOCHS = 12


def ways_of_a_set(store, shown, protocol="clean", **options):
    """How the eight clips of a set are shown in training."""
    condensed = select(store, vpc=4)
    score(condensed, store, protocol, epochs=EPOCHS, batch_size=8, **options)
    return ways(shown[:EPOCHS], condensed.clips().frames)


def ways_of_a_store(store, shown, protocol="clean", **options):
    """How the eight training clips of a store are shown in training."""
    score(None, store, protocol, train=store, epochs=EPOCHS, batch_size=8, **options)
    return ways(shown[:EPOCHS], store.clips("train").frames)


BOTH = [ways_of_a_set, ways_of_a_store]
NEVER, EVERY_TIME = {at: {False} for at in range(8)}, {at: {False, True} for at in range(8)}


@pytest.mark.parametrize("of", BOTH)
@pytest.mark.parametrize("options", [{}, {"flip": "always"}])
def test_clean_mirrors_a_training_clip_anew_each_time(windows, inputs, of, options):
    assert of(windows, inputs, **options) == EVERY_TIME


@pytest.mark.parametrize(
    ("of", "how"), [(ways_of_a_store, {"protocol": "wang2024"}), *((of, {"flip": "once"}) for of in BOTH)]
)
def test_mirrored_once_a_clip_stays_so_for_a_whole_training_and_each_network_draws_anew(windows, inputs, of, how):
    by_seed = []
    for seed in (0, 1):
        inputs.clear()
        by_seed.append(of(windows, inputs, seed=seed, **how))
    for found in by_seed:
        assert all(len(seen) == 1 for seen in found.values())
        assert set.union(*found.values()) == {False, True}
    assert by_seed[0] != by_seed[1]


def test_a_floor_trains_on_so_many_random_clips_of_each_class_and_others_for_each_seed(windows, inputs):
    score(None, windows, "clean", train=windows, train_vpc=2, seeds=2)
    # Three epochs of one batch, and two batches of test clips, for each network.
    found = [sorted(ways(inputs[at : at + 3], windows.clips("train").frames)) for at in (0, 5)]
    assert [at // 4 for some in found for at in some] == [0, 0, 1, 1] * 2
    assert found[0] != found[1]


@pytest.mark.parametrize("of", BOTH)
@pytest.mark.parametrize("options", [{"protocol": "wang2024"}, {"flip": "once"}, {"flip": "always"}])
def test_a_clip_whose_label_a_mirror_would_change_is_never_mirrored(make_store, inputs, of, options):
    assert of(make_store(test=3, random_test_windows=3, flip=False), inputs, **options) == NEVER


@pytest.mark.parametrize("num", [0, 2])
def test_a_store_without_the_windows_is_refused_before_training_and_says_how_to_ingest(make_store, num):
    store = make_store(random_test_windows=num)
    says = rf"scores 3 random windows of each test video, but '.*' has {num}\. .* --random-test-windows 3\."
    with pytest.raises(ConfigError, match=says):
        score(select(store), store, epochs=10**9)
