"""Takes: a video of a set may stand for several clips, one of which is drawn whenever it is shown."""

from dataclasses import replace

import pytest
import torch

import prism
from prism.artifacts.condensed import CondensedSet
from prism.errors import ArtifactError, ConfigError
from prism.machine.randomness import generator
from prism.selection.select import select
from tests.artifacts.test_condensed import GOLDEN

SHOWN = 60
"""Epochs: that none shows one of four clips has a chance of 3 · 10⁻⁸ for each."""


@pytest.fixture
def taken(store) -> CondensedSet:
    """One video of each class that stands for all four training clips."""
    return select(store, takes=4)


def test_every_epoch_shows_one_clip_of_each_video_and_in_time_every_clip(store, taken):
    held = (taken.encoding.render(torch.arange(8), taken.normalisation, None) * 255).round().to(torch.uint8)
    assert sorted(map(hash_of, held)) == sorted(map(hash_of, store.clips("train").frames))
    seen = set()
    for epoch in range(SHOWN):
        clips = taken.clips(generator(0, "clips", epoch))
        assert clips.labels.tolist() == [0, 1]
        for video, clip in enumerate((clips.frames * 255).round().to(torch.uint8)):
            of_video = [hash_of(other) for other in held[4 * video : 4 * video + 4]]
            seen.add((video, of_video.index(hash_of(clip))))
    assert len(seen) == 8


def hash_of(clip: torch.Tensor) -> str:
    return clip.numpy().tobytes().hex()


@pytest.mark.parametrize("storage", ["uint8", "h264"])
def test_a_set_of_takes_survives_its_file_and_says_what_it_is(store, tmp_path, storage):
    made = select(store, takes=2, vpc=2, storage=storage, output=tmp_path / "set.safetensors")
    read = CondensedSet.load(tmp_path / "set.safetensors")
    assert (len(read), read.takes, read.is_random, read.to_bytes()) == (4, 2, True, made.to_bytes())
    assert (read.num_keyframes, read.stored_clips) == (2 * 4 * store.num_frames, 2 * 4)
    assert read.keyframe_counts.tolist() == [2 * store.num_frames] * 4
    assert torch.equal(read.render(generator=generator(1, "x")), made.render(generator=generator(1, "x")))
    assert "4 videos of 2 takes" in repr(read)


def test_all_means_as_many_as_the_smallest_class_has_and_takes_that_do_not_fit_are_refused(taken, make_store):
    for takes in (0, -4, 3):
        with pytest.raises(ArtifactError, match=r"inconsistent|one take or more"):
            replace(taken, takes=takes)
    uneven = make_store(train=[5, 8])
    assert select(uneven, takes=0).takes == 5
    assert select(uneven, takes=0, vpc=2).takes == 2
    with pytest.raises(ConfigError, match=r"takes = 6, but class 'class0' has only 5"):
        select(uneven, takes=3, vpc=2)


def test_any_encoding_can_have_takes(tmp_path):
    single = CondensedSet.load(GOLDEN / "static-dynamic-uint8.safetensors")
    taken = replace(single, takes=len(single), labels=torch.tensor([0]))
    taken.save(tmp_path / "set")
    read = CondensedSet.load(tmp_path / "set")
    assert (read.to_bytes(), read.metadata["encoding"]) == (taken.to_bytes(), "static-dynamic")
    assert torch.equal(read.render(), single.render(torch.tensor([0])))
    drawn = {hash_of(read.render(generator=generator(0, "clips", epoch))) for epoch in range(SHOWN)}
    assert len(drawn) == 4 * len(single)


def test_a_data_set_of_takes_shows_others_in_every_epoch_and_the_same_ones_again(taken, tmp_path):
    taken.save(tmp_path / "set.safetensors")
    videos = prism.load(tmp_path / "set.safetensors")
    first = videos[0][0].clone()
    shown = []
    for epoch in range(10):
        videos.draw(epoch)
        shown.append(videos[0][0].clone())
    assert len(videos) == 2
    assert any(not torch.equal(first, clip) for clip in shown)
    videos.draw(3)
    assert torch.equal(videos[0][0], shown[3])
