"""Protocols: ours chooses nothing and depends on no batch; the published one does both, and only by name."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from selections import select

from prism.artifacts.clips import BatchStandardisation, Clips, to_model_input
from prism.artifacts.results import Result
from prism.errors import ConfigError, ResultError
from prism.evaluation.evaluate import evaluate
from prism.evaluation.options import EvaluateConfig
from prism.evaluation.protocols import CLEAN, PROTOCOLS, WANG2024
from prism.machine.randomness import generator
from prism.networks.build import build
from prism.networks.initial import initialise
from prism.networks.training import outputs_of, train
from prism.recipes import read_recipe

RECIPE = "wang2024"
TINY = {"width": 2, "epochs": 3, "seeds": 1, "device": "cpu"}
MODULE = sys.modules["prism.evaluation.evaluate"]

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@pytest.fixture
def windows(make_store):
    """A store that serves both protocols."""
    return make_store(test=3, random_test_windows=3)


@pytest.fixture
def chosen(windows):
    return select(windows, vpc=2)


def score(condensed, store, protocol="wang2024", **options) -> Result:
    return evaluate(condensed, store, protocol=protocol, **(TINY | options))


def judged(result: Result) -> list[tuple[int, dict[str, float], float]]:
    return [(run.seed, run.scores, run.train_loss) for run in result.runs]


def test_one_set_and_one_store_are_judged_by_either_protocol(windows, chosen, tmp_path):
    ours = score(chosen, windows, "clean")
    theirs = score(chosen, windows, output=tmp_path / "r.json")
    assert (ours.protocol, ours.data.split, ours.data.num_clips) == ("clean", "test", 6)
    assert (theirs.protocol, theirs.data.split, theirs.data.num_clips) == ("wang2024", "test-random", 18)
    assert ours.data.fingerprint == theirs.data.fingerprint
    assert Result.load(tmp_path / "r.json") == theirs
    with pytest.raises(ResultError, match=r"its config\.protocol is 'wang2024', not 'clean'"):
        score(chosen, windows, "clean", output=tmp_path / "r.json", resume=True)


@every_protocol
def test_the_same_seed_gives_the_same_result(windows, chosen, protocol):
    assert judged(score(chosen, windows, protocol)) == judged(score(chosen, windows, protocol))


# Batches.


def clips_of_many_shades(num: int) -> Clips:
    noise = torch.randint(0, 40, (num, 4, 3, 43, 43), generator=generator(0, "clips"), dtype=torch.uint8)
    shades = (torch.arange(num) * 180 // num).to(torch.uint8).view(-1, 1, 1, 1, 1)
    return Clips(noise + shades, torch.arange(num) % 2, ("a", "b"))


def network() -> torch.nn.Module:
    net = build("convnet3d", num_classes=2, num_frames=4, size=43, width=2)
    initialise(net, generator(0, "init"))
    return net


def test_only_wang2024s_scores_depend_on_the_batch_size(windows):
    clips, net = clips_of_many_shades(7), network()
    by_size = {
        protocol.name: [outputs_of(net, clips, protocol.standardisation(windows), size) for size in (7, 3)]
        for protocol in PROTOCOLS.values()
    }
    torch.testing.assert_close(*by_size["clean"], rtol=1e-4, atol=1e-6)
    assert (by_size["wang2024"][0] - by_size["wang2024"][1]).abs().max() > 1e-3


@every_protocol
def test_what_is_learned_does_not_depend_on_the_batches_that_score(windows, chosen, protocol):
    # All four clips fit into each of these training batches, so only scoring differs.
    losses = [score(chosen, windows, protocol, batch_size=size).runs[0].train_loss for size in (4, 5, 256)]
    assert losses[0] == losses[1] == losses[2]


def test_scoring_on_the_way_changes_nothing_of_what_is_learned():
    clips, config = clips_of_many_shades(6), EvaluateConfig(epochs=4, batch_size=4, lr=0.05).schedule
    left_alone, looked_at = network(), network()
    assert left_alone.dropout.probability > 0
    train(left_alone, clips, BatchStandardisation(), config, seed=3, flip=True)
    seen = []

    def look(epoch: int) -> None:
        seen.append(epoch)
        outputs_of(looked_at, clips, BatchStandardisation(), 5, generator(0, "test flip", epoch))

    train(looked_at, clips, BatchStandardisation(), config, seed=3, flip=True, after_epoch=look)
    assert seen == [1, 2, 3, 4]
    assert all(torch.equal(a, b) for a, b in zip(left_alone.parameters(), looked_at.parameters(), strict=True))


@given(st.integers(1, 5), st.integers(0, 1000))
def test_a_batch_is_standardised_to_mean_0_and_deviation_1_of_each_channel_as_numpy_does(num, seed):
    frames = torch.randint(0, 256, (num, 2, 3, 6, 5), generator=generator(seed, "clips"), dtype=torch.uint8)
    ours = to_model_input(frames, BatchStandardisation()).numpy()
    pixels = frames.numpy().astype(np.float64) / 255
    mean, std = (of((0, 1, 3, 4), keepdims=True) for of in (pixels.mean, pixels.std))
    np.testing.assert_allclose(ours, ((pixels - mean) / std).swapaxes(1, 2), atol=1e-4)
    np.testing.assert_allclose(ours.mean((0, 2, 3, 4)), 0, atol=1e-5)
    np.testing.assert_allclose(ours.std((0, 2, 3, 4)), 1, atol=1e-5)


def test_a_constant_channel_is_standardised_to_zero():
    frames = torch.full((2, 4, 3, 5, 5), 77, dtype=torch.uint8)
    frames[:, :, 1] += torch.arange(5, dtype=torch.uint8)
    inputs = to_model_input(frames, BatchStandardisation())
    assert inputs[:, [0, 2]].abs().max() < 0.1
    assert inputs[:, 1].std(correction=0).item() == pytest.approx(1, rel=1e-4)


@pytest.fixture
def batches(monkeypatch) -> list[torch.Tensor]:
    """What networks were shown, in training and test."""
    module, seen = sys.modules["prism.networks.training"], []
    original = module.to_model_input
    monkeypatch.setattr(module, "to_model_input", lambda *given: seen.append(original(*given)) or seen[-1])
    return seen


def test_every_batch_of_wang2024_has_mean_0_and_deviation_1(windows, chosen, batches):
    # Three epochs: training batches of 3 and 1 clips, then three passes over 6 clips.
    score(chosen, windows, batch_size=3)
    assert [len(batch) for batch in batches] == [3, 1, *[3] * 6] * 3
    for batch in batches:
        torch.testing.assert_close(batch.mean((0, 2, 3, 4)), torch.zeros(3), rtol=0, atol=1e-4)
        torch.testing.assert_close(batch.std((0, 2, 3, 4), correction=0), torch.ones(3), rtol=0, atol=1e-4)


def test_batches_of_clean_have_the_statistics_that_they_have(windows, chosen, batches):
    score(chosen, windows, "clean", batch_size=3)
    assert [len(batch) for batch in batches] == [3, 1] * 3 + [3, 3]
    assert max(batch.mean((0, 2, 3, 4)).abs().max().item() for batch in batches) > 1e-3


# Which clips are scored, and when.


@pytest.fixture
def scored(monkeypatch) -> list[tuple[Clips, torch.Generator | None]]:
    """The clips of every pass that was scored, and what mirrored them."""
    seen = []
    original = MODULE.outputs_of

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


def test_clean_scores_the_centre_windows_once_and_as_they_are(windows, chosen, scored):
    score(chosen, windows, "clean", epochs=20, seeds=2)
    assert [flips for _, flips in scored] == [None, None]
    assert all(torch.equal(clips.frames, windows.clips("test").frames) for clips, _ in scored)


def test_wang2024_mirrors_scored_clips_anew_each_time_and_only_where_that_keeps_the_labels(
    make_store, windows, chosen, scored
):
    score(chosen, windows, epochs=2)
    assert len({flips for _, flips in scored}) == 2
    scored.clear()
    one_sided = make_store(test=3, random_test_windows=3, flip=False)
    score(select(one_sided), one_sided, epochs=2)
    assert [flips for _, flips in scored] == [None] * 6


def test_a_mirrored_clip_is_scored_as_its_mirror_image():
    clips, net = clips_of_many_shades(8), network()
    both = [outputs_of(net, Clips(f, clips.labels, clips.classes), BatchStandardisation(), 8)
            for f in (clips.frames, clips.frames.flip(-1))]  # fmt: skip
    mirrored = outputs_of(net, clips, BatchStandardisation(), 8, generator(0, "test flip"))
    which = [[torch.allclose(row, side[i], atol=1e-4) for side in both] for i, row in enumerate(mirrored)]
    assert all(any(matches) for matches in which)
    assert {tuple(matches) for matches in which} >= {(True, False), (False, True)}


@given(st.integers(1, 2000))
def test_checkpoints_are_evenly_spread_up_to_the_last_epoch(epochs):
    at = sorted(WANG2024.checkpoints(epochs))
    assert (at[-1], len(at)) == (epochs, min(10, epochs))
    gaps = [after - before for before, after in zip([0, *at], at, strict=False)]
    assert max(gaps) - min(gaps) <= 1


@given(st.integers(1, 2000))
def test_clean_scores_after_the_last_epoch_and_never_else(epochs):
    assert CLEAN.checkpoints(epochs) == {epochs}


@pytest.fixture
def told(monkeypatch) -> list[tuple[float, float]]:
    """The top-1 and top-5 of every scoring, made up: they rise to the middle and fall again."""
    shares = [(0.5 - abs(k - 4) / 10, 1 - abs(k - 6) / 10) for k in range(10)]
    waiting = [share for pair in shares for share in pair]
    monkeypatch.setattr(MODULE, "top_k", lambda *_: waiting.pop(0))
    return shares


def test_wang2024_reports_the_best_of_ten_checkpoints_for_each_metric(windows, chosen, told):
    (run,) = score(chosen, windows, epochs=20).runs
    assert run.scores == {"top1": 0.5, "top5": 1.0}


def test_clean_reports_its_only_score(windows, chosen, told):
    (run,) = score(chosen, windows, "clean", epochs=20).runs
    assert run.scores == dict(zip(("top1", "top5"), told[0], strict=True))


# What does not fit.


@pytest.mark.parametrize("num_windows", [0, 2])
def test_a_store_without_the_windows_is_refused_before_training_and_says_how_to_ingest(make_store, num_windows):
    store = make_store(random_test_windows=num_windows)
    says = (
        rf"scores 3 random windows of each test video, but '.*' has {num_windows}\. .* --random-test-windows 3\."
    )
    with pytest.raises(ConfigError, match=says):
        score(select(store), store, epochs=10**9)


def test_wang2024_scores_test_clips_only(windows, chosen):
    says = "evaluate.split = 'val', but it must be test with protocol wang2024"
    with pytest.raises(ConfigError, match=says):
        score(chosen, windows, split="val")


def test_the_recipe_ingests_what_the_protocol_scores():
    recipe = read_recipe(RECIPE)
    protocol = PROTOCOLS[recipe["evaluate"]["protocol"]]
    assert recipe["ingest"]["random_test_windows"] == protocol.num_windows
