"""Protocols: neither chooses anything on test clips; the published one depends on its batches, ours does not."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prism.artifacts.clips import BatchStandardisation, Clips, to_model_input
from prism.artifacts.results import Result
from prism.errors import ArtifactError, ConfigError
from prism.evaluation.evaluate import evaluate
from prism.evaluation.protocols import PROTOCOLS
from prism.machine.randomness import generator
from prism.networks.build import build
from prism.networks.initial import initialise
from prism.networks.training import outputs_of
from prism.selection.select import select

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
    with pytest.raises(ArtifactError, match=r"its config\.protocol is 'wang2024', not 'clean'"):
        score(chosen, windows, "clean", output=tmp_path / "r.json", resume=True)


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


@given(st.integers(1, 5), st.integers(0, 1000))
def test_a_batch_is_standardised_by_one_mean_and_one_deviation_after_imagenets_as_numpy_does(num, seed):
    frames = torch.randint(0, 256, (num, 2, 3, 6, 5), generator=generator(seed, "clips"), dtype=torch.uint8)
    ours = to_model_input(frames, BatchStandardisation()).numpy()
    mean, std = (np.array(of).reshape(3, 1, 1) for of in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    pixels = (frames.numpy().astype(np.float64) / 255 - mean) / std
    expected = (pixels - pixels.mean()) / pixels.std(ddof=1)
    np.testing.assert_allclose(ours, expected.swapaxes(1, 2), atol=1e-4)


@pytest.fixture
def batches(monkeypatch) -> list[torch.Tensor]:
    """What networks were shown, in training and test."""
    module, seen = sys.modules["prism.networks.training"], []
    original = module.to_model_input
    monkeypatch.setattr(module, "to_model_input", lambda *given: seen.append(original(*given)) or seen[-1])
    return seen


def test_every_batch_of_wang2024_has_mean_0_and_deviation_1(windows, chosen, batches):
    # Three epochs of training batches of 3 and 1 clips, then three passes over 6 clips.
    score(chosen, windows, batch_size=3)
    assert [len(batch) for batch in batches] == [3, 1] * 3 + [6] * 3
    for batch in batches:
        assert batch.mean().item() == pytest.approx(0, abs=1e-4)
        assert batch.std().item() == pytest.approx(1, abs=1e-4)
    assert max(batch.mean((0, 2, 3, 4)).abs().max().item() for batch in batches) > 1e-2


def test_test_batches_of_wang2024_have_64_clips_whatever_those_of_training_have(make_store, batches):
    store = make_store(test=33, random_test_windows=3)
    for size in (1, 256):
        batches.clear()
        score(select(store), store, epochs=1, batch_size=size)
        assert [len(batch) for batch in batches][-6:] == [64, 2] * 3


# Which clips are scored, and when.


@pytest.fixture
def scored(monkeypatch) -> list[tuple[Clips, torch.Generator | None]]:
    """The clips of every pass that was scored, and the seed of what mirrored them."""
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


def test_wang2024_mirrors_scored_clips_anew_for_each_network_and_only_where_that_keeps_the_labels(
    make_store, windows, chosen, scored
):
    score(chosen, windows, epochs=2, seeds=2)
    assert len({flips for _, flips in scored}) == 2
    scored.clear()
    one_sided = make_store(test=3, random_test_windows=3, flip=False)
    score(select(one_sided), one_sided, epochs=2, seeds=2)
    assert [flips for _, flips in scored] == [None] * 6


def test_a_mirrored_clip_is_scored_as_its_mirror_image():
    clips, net = clips_of_many_shades(8), network()
    both = [outputs_of(net, Clips(f, clips.labels, clips.classes), BatchStandardisation(), 8)
            for f in (clips.frames, clips.frames.flip(-1))]  # fmt: skip
    mirrored = outputs_of(net, clips, BatchStandardisation(), 8, generator(0, "test flip"))
    which = [[torch.allclose(row, side[i], atol=1e-4) for side in both] for i, row in enumerate(mirrored)]
    assert all(any(matches) for matches in which)
    assert {tuple(matches) for matches in which} >= {(True, False), (False, True)}


@every_protocol
def test_every_network_is_scored_once_after_its_last_epoch(windows, chosen, scored, protocol, monkeypatch):
    epochs, original = [], MODULE.train

    def watched(*given, **options):
        assert not scored
        epochs.append(given[3].epochs)
        return original(*given, **options)

    monkeypatch.setattr(MODULE, "train", watched)
    score(chosen, windows, protocol, epochs=20)
    assert epochs == [20]
    assert len(scored) == {"clean": 1, "wang2024": 3}[protocol]


# Which training clips are mirrored, and when.


@pytest.fixture
def shown(monkeypatch) -> list[torch.Tensor]:
    """The clips of every training batch, before they are normalised."""
    module, seen = sys.modules["prism.networks.training"], []
    original = module.to_model_input

    def watched(frames, normalisation):
        seen.append(frames.clone())
        return original(frames, normalisation)

    monkeypatch.setattr(module, "to_model_input", watched)
    return seen


def ways(shown: list[torch.Tensor], stored: torch.Tensor) -> dict[int, set[bool]]:
    """For each stored clip whether it was seen mirrored, as it is, or in both ways."""
    found: dict[int, set[bool]] = {}
    for clip in torch.cat(shown):
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
    score(None, store, protocol, train_store=store, epochs=EPOCHS, batch_size=8, **options)
    return ways(shown[:EPOCHS], store.clips("train").frames)


BOTH = [ways_of_a_set, ways_of_a_store]
NEVER, EVERY_TIME = {at: {False} for at in range(8)}, {at: {False, True} for at in range(8)}


@pytest.mark.parametrize("of", BOTH)
@pytest.mark.parametrize("options", [{}, {"flip": "always"}])
def test_clean_mirrors_a_training_clip_anew_each_time(windows, shown, of, options):
    assert of(windows, shown, **options) == EVERY_TIME


@pytest.mark.parametrize("of", BOTH)
def test_flip_never_shows_clips_as_they_are_stored(windows, shown, of):
    assert of(windows, shown, flip="never") == NEVER


def test_wang2024_never_mirrors_the_clips_of_a_set(windows, shown):
    assert ways_of_a_set(windows, shown, "wang2024") == NEVER


@pytest.mark.parametrize(
    ("of", "options"),
    [
        (ways_of_a_store, {"protocol": "wang2024"}),
        (ways_of_a_store, {"flip": "once"}),
        (ways_of_a_set, {"flip": "once"}),
    ],
)
def test_mirrored_once_a_clip_stays_so_for_a_whole_training_and_each_network_draws_anew(
    windows, shown, of, options
):
    by_seed = []
    for seed in (0, 1):
        shown.clear()
        by_seed.append(of(windows, shown, seed=seed, **options))
    for found in by_seed:
        assert all(len(seen) == 1 for seen in found.values())
        assert set.union(*found.values()) == {False, True}
    assert by_seed[0] != by_seed[1]


@pytest.mark.parametrize("of", BOTH)
@pytest.mark.parametrize("options", [{"protocol": "wang2024"}, {"flip": "once"}, {"flip": "always"}])
def test_a_clip_whose_label_a_mirror_would_change_is_never_mirrored(make_store, shown, of, options):
    one_sided = make_store(test=3, random_test_windows=3, flip=False)
    assert of(one_sided, shown, **options) == NEVER


def test_a_result_tells_of_flips_only_where_they_are_not_the_protocols(windows, chosen):
    assert "flip" not in score(chosen, windows, "clean").config
    assert score(chosen, windows, "clean", flip="never").config["flip"] == "never"


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


@pytest.mark.parametrize("flip", ["always", "once", "never"])
def test_wang2024_says_itself_when_clips_are_mirrored(windows, chosen, flip):
    with pytest.raises(
        ConfigError, match=rf"evaluate.flip = '{flip}', but it must be protocol with protocol wang"
    ):
        score(chosen, windows, flip=flip)
