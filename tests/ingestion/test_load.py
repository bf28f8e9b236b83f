"""`prism.load` and VideoDataset: a set, a store, or videos as they lie in a folder."""

import pickle

import pytest
import torch
from settings import refusal_of, set_of
from videos import shown_number, write_classes, write_images

import prism
from prism.artifacts.clips import as_pixels
from prism.errors import ConfigError
from prism.ingestion.load import VideoDataset
from prism.selection.select import select

CLIP = {"num_frames": 4, "stride": 1, "size": 32, "window": "centre"}


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    return write_classes(tmp_path_factory.mktemp("videos"), videos=2, num_frames=6)


def test_a_folder_of_videos_gives_all_of_them_and_leaves_no_file(videos, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    loaded = prism.load(videos, normalise=False, output_format="TCHW", **CLIP)
    assert (loaded.classes, loaded.targets, capsys.readouterr().err) == (["jump", "walk"], [0, 0, 1, 1], "")
    # Two videos a class, which begin with 0, 7, 50 and 57; the centre of six frames begins with the second.
    numbers = [[shown_number(255 * frame.numpy()) for frame in video] for video, _ in loaded]
    assert numbers == [list(range(first, first + 4)) for first in (1, 8, 51, 58)]
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(pickle.loads(pickle.dumps(loaded))[3][0], loaded[3][0])


def test_splits_of_the_folder_are_kept_and_others_cut_where_it_is_said(videos, tmp_path):
    assert len(prism.load(videos, split="test", test_fraction=0.5, **CLIP)) == 2
    for video in ("train/a/0", "train/a/1", "train/b/0", "train/b/1", "test/a/0", "test/b/0"):
        write_images(tmp_path / video, 4)
    assert len(prism.load(tmp_path, **CLIP)) == 4
    assert len(prism.load(tmp_path, split="test", **CLIP)) == 2
    with pytest.raises(ConfigError, match=r"names no test videos\. Pass test_fraction=0\.2\.$"):
        prism.load(videos, split="test", **CLIP)


def test_an_exported_set_is_loaded_again(chosen, tmp_path):
    prism.export(chosen, tmp_path / "out", lossless=True)
    loaded = prism.load(tmp_path / "out", num_frames=8, size=48, normalise=False, output_format="TCHW")
    assert loaded.targets == chosen.labels.tolist()
    clips = torch.stack([video for video, _ in loaded])
    assert torch.equal((255 * clips).round(), (255 * chosen.render()).round())


@pytest.mark.parametrize(
    ("output_format", "shape"), [("CTHW", (3, 8, 48, 50)), ("TCHW", (8, 3, 48, 50)), ("THWC", (8, 48, 50, 3))]
)
def test_every_output_format_holds_the_same_pixels(output_format, shape):
    frames = torch.rand(2, 8, 3, 48, 50, generator=torch.Generator().manual_seed(0))
    video, label = VideoDataset(set_of(frames), output_format=output_format, normalise=False)[1]
    assert (video.shape, label) == (shape, 1)
    t, c, y, x = 5, 2, 17, 33
    where = {"T": t, "C": c, "H": y, "W": x}
    assert video[tuple(where[axis] for axis in output_format)] == frames[1, t, c, y, x]


def test_videos_are_normalised_as_the_evaluation_trains_unless_asked_for_pixels(store, chosen):
    normalised, pixels = VideoDataset(chosen), VideoDataset(chosen, normalise=False)
    torch.testing.assert_close(normalised[0][0], (pixels[0][0] - 0.5) / 0.25)
    assert 0 <= pixels[0][0].min() <= pixels[0][0].max() <= 1
    said = refusal_of(ConfigError, VideoDataset, chosen, normalise="no")
    assert "normalise = 'no', but it must be True or False" in said


def test_a_transform_sees_every_video_in_the_output_format_and_changes_none_in_place(chosen):
    dataset = VideoDataset(chosen, output_format="THWC", normalise=False, transform=lambda video: video.mul_(0.5))
    first = dataset[0][0].clone()
    assert torch.equal(dataset[0][0], first)
    assert [tuple(video.shape) for video, _ in dataset] == [(8, 48, 48, 3)] * 4


def test_a_file_gives_its_set_and_a_store_the_clips_of_the_asked_split(make_store, tmp_path):
    store = make_store(random_test_windows=3)
    select(store, vpc=2).save(tmp_path / "set.safetensors")
    assert len(prism.load(tmp_path / "set.safetensors", split="train")) == 4
    for split, count in [("train", 8), ("val", 2), ("test", 4), ("test-random", 12)]:
        dataset = prism.load(str(store.path), split=split, normalise=False, output_format="TCHW")
        assert len(dataset) == count
        assert torch.equal(dataset[0][0], as_pixels(store.clips(split).frames[0]))
        # A process that loads videos gets to know the files, not the frames.
        sent = pickle.dumps(dataset)
        assert len(sent) < 2_000 < dataset[0][0].numel()
        assert torch.equal(pickle.loads(sent)[0][0], dataset[0][0])
