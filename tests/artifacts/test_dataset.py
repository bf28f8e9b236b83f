"""VideoDataset: any set or store as an ordinary PyTorch data set."""

import pytest
import torch

import prism
from prism.artifacts.clips import as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.dataset import VideoDataset
from prism.artifacts.encodings.sparse import Float32
from prism.errors import ConfigError
from prism.selection.select import select


@pytest.fixture
def chosen(store):
    return select(store, vpc=2)


@pytest.mark.parametrize(
    ("output_format", "shape"), [("CTHW", (3, 8, 48, 50)), ("TCHW", (8, 3, 48, 50)), ("THWC", (8, 48, 50, 3))]
)
def test_every_output_format_holds_the_same_pixels(output_format, shape):
    from prism.artifacts.clips import Normalisation

    frames = torch.rand(2, 8, 3, 48, 50, generator=torch.Generator().manual_seed(0))
    condensed = CondensedSet(
        Float32().with_frames(frames, torch.ones(2, 8, dtype=torch.bool)),
        torch.tensor([0, 1]),
        classes=("a", "b"),
        normalisation=Normalisation((0.5,) * 3, (0.25,) * 3),
        flip=True,
    )
    video, label = VideoDataset(condensed, output_format=output_format, normalise=False)[1]
    assert video.shape == shape
    assert label == 1
    t, c, y, x = 5, 2, 17, 33
    where = {"T": t, "C": c, "H": y, "W": x}
    assert video[tuple(where[axis] for axis in output_format)] == frames[1, t, c, y, x]


def test_videos_are_normalised_as_the_evaluation_trains_unless_asked_for_pixels(store, chosen):
    normalised, pixels = VideoDataset(chosen), VideoDataset(chosen, normalise=False)
    torch.testing.assert_close(normalised[0][0], (pixels[0][0] - 0.5) / 0.25)
    assert pixels[0][0].min() >= 0
    assert pixels[0][0].max() <= 1


def test_a_transform_sees_every_video_in_the_output_format_and_changes_none_in_place(chosen):
    dataset = VideoDataset(chosen, output_format="THWC", normalise=False, transform=lambda video: video.mul_(0.5))
    first = dataset[0][0].clone()
    assert torch.equal(dataset[0][0], first)
    assert [tuple(video.shape) for video, _ in dataset] == [(8, 48, 48, 3)] * 4


def test_a_store_gives_the_clips_of_the_asked_split(make_store):
    store = make_store(random_test_windows=3)
    for split, count in [("train", 8), ("val", 2), ("test", 4), ("test-random", 12)]:
        dataset = VideoDataset(store, split=split, normalise=False, output_format="TCHW")
        assert len(dataset) == count
        assert torch.equal(dataset[0][0], as_pixels(store.clips(split).frames[0]))


@pytest.mark.parametrize("split", ["test", "nonsense", None])
def test_a_set_has_no_split_but_train(chosen, tmp_path, split):
    chosen.save(tmp_path / "set")
    with pytest.raises(ConfigError, match=rf"split = {split!r}, but a condensed set has training videos alone"):
        prism.load(tmp_path / "set", split=split)
    assert len(prism.load(tmp_path / "set", split="train")) == 4


def test_a_slice_is_refused_in_one_sentence(chosen):
    with pytest.raises(ConfigError, match=r"one video at a time: data\[0\]"):
        VideoDataset(chosen)[0:2]
