"""How long the steps of a plan are said to take."""

from dataclasses import replace

import pytest
import torch

from prism.artifacts.store import ClipStore
from prism.networks.convnet3d import ConvNet3D
from prism.reproduction import minutes as module
from prism.reproduction.minutes import Minutes, in_words, total
from prism.reproduction.paper import exhibit
from prism.reproduction.plan import plan
from prism.reproduction.run import reproduce


@pytest.fixture
def minutes(monkeypatch) -> Minutes:
    """Minutes by a network that embeds a clip in a minute, so that they count clips."""
    monkeypatch.setattr(Minutes, "clip_seconds", lambda *_: 60.0)
    return Minutes("cpu")


def steps(store: ClipStore, tmp_path, row: str):
    (place,) = [
        place
        for place in plan(exhibit("paper-size"), [store], tmp_path, scale="small")
        if place.cell.label.startswith(row)
    ]
    return (*place.sets, *place.scores)


def test_a_condensation_embeds_each_networks_real_clips_once_and_its_own_three_times(
    make_store, minutes, tmp_path
):
    store = make_store(classes=2, train=20)
    made, _ = steps(store, tmp_path, "Small")
    synthetic = 3 * 2 * 800
    assert minutes.of(made, store) == 800 * 2 * 16 + synthetic
    # Another method, or another seed, of the same networks reads their class means.
    assert minutes.of(replace(made, config=replace(made.config, seed=1)), store) == synthetic
    assert minutes.of(steps(store, tmp_path, "DM")[0], store) == synthetic
    assert minutes.of(replace(made, config=replace(made.config, network_seed=1)), store) > synthetic


def test_a_network_is_trained_on_the_set_and_scored_once(make_store, minutes, tmp_path):
    store = make_store(classes=2, train=20, test=3)
    _, score = steps(store, tmp_path, "Random")
    assert minutes.of(score, store) == 3 * (3 * 500 * 2 + 6)
    (whole,) = steps(store, tmp_path, "Whole")
    assert minutes.of(whole, store) == 3 * (3 * 15 * 40 + 6)


def test_every_window_of_a_test_video_is_scored(make_store, minutes, tmp_path):
    store = make_store(classes=2, train=20, test=3, random_test_windows=3)
    _, score = steps(store, tmp_path, "Random")
    shown = replace(score, config=replace(score.config, protocol="wang2024"))
    assert minutes.of(shown, store) - minutes.of(score, store) == 3 * 2 * 6


def test_picking_at_random_takes_no_time_and_herding_trains_an_embedder(make_store, minutes, tmp_path):
    store = make_store(classes=2, train=20)
    assert minutes.of(steps(store, tmp_path, "Random")[0], store) == 0
    assert minutes.of(steps(store, tmp_path, "Herding")[0], store) == 40 * (3 * 20 + 1)


def test_the_time_of_a_clip_is_measured_once_for_each_network(make_store, monkeypatch):
    measured = []
    monkeypatch.setattr(Minutes, "_embed", lambda *_: measured.append(1) or 0.8)
    monkeypatch.setattr(module.torch, "get_num_threads", lambda: 2)
    minutes, store = Minutes("cpu"), make_store()
    for width in (2, 2, 4):
        # Eight clips in 0.8 seconds, on two threads.
        assert minutes.clip_seconds(store, "convnet3d", {"width": width}) == pytest.approx(0.05)
    assert len(measured) == 2 * module.TURNS


def test_a_clip_is_timed_in_smaller_parts_where_memory_runs_out(make_store, monkeypatch):
    original, sizes = ConvNet3D.forward, []

    def forward(self: ConvNet3D, clips: torch.Tensor) -> torch.Tensor:
        sizes.append(len(clips))
        if len(clips) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(self, clips)

    monkeypatch.setattr(ConvNet3D, "forward", forward)
    assert Minutes("cpu").clip_seconds(make_store(), "convnet3d", {"width": 2}) > 0
    assert sizes == [8] + [4, 4] * module.TURNS


@pytest.mark.parametrize(
    ("count", "words"), [(0.2, "under a minute"), (40.4, "about 40 min"), (190, "about 3 h 10 min")]
)
def test_minutes_are_said_in_words(count, words):
    assert in_words(count) == words


def test_a_plan_says_its_time_before_anything_is_done(make_store, minutes, tmp_path, capsys):
    store = make_store(classes=2, train=4, val=1, test=1)
    reproduce("paper-size", [store], tmp_path / "out", scale="small", dry_run=True)
    said = capsys.readouterr().err.splitlines()
    assert all("  # " in line for line in said[:-1])
    assert said[-1] == total([0], minutes.device).replace("Under a minute", said[-1].split(" on this")[0])
    assert not (tmp_path / "out").exists()
