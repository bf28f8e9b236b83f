"""Steps of key-frames in the metric of the clip depend on what they can express, not on how it is written down."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from prism.artifacts.keyframes import interpolation_weights
from prism.condensation.options import CondenseConfig
from prism.condensation.videos import KeyFrameVideos
from prism.networks.sgd import SGD
from tests.artifacts.test_keyframes import FRAME, masks


def videos(mask: Tensor, metric: str = "clip") -> tuple[KeyFrameVideos, SGD]:
    frames = torch.randn(*mask.shape, *FRAME, generator=torch.Generator().manual_seed(0))
    frames = torch.where(mask[:, :, None, None, None], frames, 0.0)
    made = KeyFrameVideos(frames, mask, torch.arange(len(mask)), CondenseConfig(keyframe_scale=1, metric=metric))
    return made, SGD([part.tensors for part in made.trainable], momentum=0.9)


def move(made: KeyFrameVideos, optimizer: SGD, seed: int) -> tuple[Tensor, Tensor]:
    """One step along a random gradient of the clip: that gradient, and how the clip moves."""
    optimizer.zero_grad()
    clips = made.render()
    gradient = torch.randn(clips.shape, generator=torch.Generator().manual_seed(seed))
    clips.backward(gradient)
    optimizer.step([0.1])
    with torch.no_grad():
        return gradient, made.render() - clips


def expressed(clips: Tensor, mask: Tensor) -> Tensor:
    """The part of clips that key-frames can express: the nearest clips that are interpolated from them."""
    weights = interpolation_weights(mask, torch.float64)
    return (weights @ torch.linalg.pinv(weights) @ clips.flatten(2).double()).view_as(clips).float()


@given(masks(), st.integers(0, 100))
def test_a_clip_moves_along_the_part_of_its_gradient_that_its_key_frames_can_express(mask, seed):
    gradient, moved = move(*videos(mask), seed)
    torch.testing.assert_close(moved, -0.1 * expressed(gradient, mask), atol=1e-5, rtol=0)


def test_a_step_in_the_metric_of_the_key_frames_is_longer_where_more_frames_share_one():
    mask = torch.tensor([[True, *[False] * 6, True]])
    gradient, moved = move(*videos(mask, "parameter"), 0)
    assert moved.norm() > 2 * (0.1 * expressed(gradient, mask)).norm()


@given(st.integers(2, 12), st.integers(0, 100))
def test_the_path_of_a_clip_of_which_every_frame_is_a_key_frame_is_that_of_free_frames(num_frames, seed):
    every = torch.ones(2, num_frames, dtype=torch.bool)
    ours, theirs = videos(every), videos(every, "parameter")
    for step in range(3):
        assert move(*ours, seed + step)[1].equal(move(*theirs, seed + step)[1])


@given(masks(), st.integers(0, 100))
def test_an_inserted_frame_changes_neither_the_clip_nor_the_next_step_of_what_was_expressed_before(mask, seed):
    both = videos(mask), videos(mask)
    grown, optimizer = both[0]
    for pair in both:
        move(*pair, seed)
    before = grown.render().detach()
    proposed = torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    grown.insert(proposed & ~mask, optimizer.momentum_buffers[grown.frames])
    torch.testing.assert_close(grown.render().detach(), before, atol=1e-5, rtol=0)
    next_step, other_step = (move(*pair, seed + 1)[1] for pair in both)
    torch.testing.assert_close(expressed(next_step, mask), other_step, atol=1e-4, rtol=0)
