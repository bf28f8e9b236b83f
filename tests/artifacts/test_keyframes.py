"""Rendering and insertion against the paper's equations (section 3.1)."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from prism.artifacts import keyframes
from prism.artifacts.keyframes import best_placed, enlarge, evenly_spread, insert, neighbours, reduce, render

FRAME = (3, 2, 2)
"""Shape of a frame in these tests: the mathematics treats every pixel alike."""


@st.composite
def masks(draw: st.DrawFn, max_videos: int = 3) -> torch.Tensor:
    """Any (V, T) mask whose first and last frame are key-frames."""
    num_frames = draw(st.integers(2, 12))
    row = st.lists(st.booleans(), min_size=num_frames - 2, max_size=num_frames - 2)
    rows = draw(st.lists(row, min_size=1, max_size=max_videos))
    return torch.tensor([[True, *row, True] for row in rows])


def random_frames(mask: torch.Tensor, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((*mask.shape, *FRAME)))


def rendered_by_equation_3(frames: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """One frame after the other, with the key-frames k_i and k_(i+1) searched for each."""
    clips = np.empty_like(frames)
    for v in range(len(mask)):
        keys = [t for t in range(mask.shape[1]) if mask[v, t]]
        for t in range(mask.shape[1]):
            if t in keys:
                clips[v, t] = frames[v, t]
                continue
            left = max(k for k in keys if k < t)
            right = min(k for k in keys if k > t)
            alpha = (right - t) / (right - left)
            clips[v, t] = alpha * frames[v, left] + (1 - alpha) * frames[v, right]
    return clips


@given(masks(), st.integers(0, 1000))
def test_rendering_is_equation_3_for_every_mask(mask, seed):
    frames = random_frames(mask, seed)
    expected = rendered_by_equation_3(frames.numpy(), mask.numpy())
    np.testing.assert_allclose(render(frames, mask).numpy(), expected, atol=1e-12)


@given(masks())
def test_neighbours_are_the_nearest_keyframes_on_both_sides(mask):
    before, after = neighbours(mask)
    for v, row in enumerate(mask.tolist()):
        keys = [t for t, is_key in enumerate(row) if is_key]
        for t in range(len(row)):
            assert before[v, t] == max(k for k in keys if k <= t)
            assert after[v, t] == min(k for k in keys if k >= t)


@given(masks(), st.data())
def test_inserting_interpolated_frames_leaves_the_clip_unchanged(mask, data):
    chosen = st.lists(st.booleans(), min_size=mask.numel(), max_size=mask.numel())
    inserted = torch.tensor(data.draw(chosen)).view_as(mask)
    frames = random_frames(mask)
    new_frames = frames.clone()
    new_mask = insert(new_frames, mask, inserted)
    assert torch.equal(new_mask, mask | inserted)
    torch.testing.assert_close(render(new_frames, new_mask), render(frames, mask), rtol=0, atol=1e-12)


@pytest.mark.parametrize("row", [[1, 0, 0, 0, 1], [1, 0, 1, 0, 1], [1, 1, 1, 1, 1], [1, 0, 0, 1, 1]])
def test_keyframe_gradients_equal_finite_differences(row):
    mask = torch.tensor([row], dtype=torch.bool)
    assert gradcheck(lambda frames: render(frames, mask), [random_frames(mask).requires_grad_()])


@given(masks(), st.integers(1, 4))
def test_enlarging_and_interpolating_in_time_may_change_places(mask, scale):
    frames = random_frames(mask)
    torch.testing.assert_close(enlarge(render(frames, mask), scale), render(enlarge(frames, scale), mask))


@given(st.integers(1, 5), st.tuples(st.integers(1, 6), st.integers(1, 6)), st.integers(0, 99))
def test_enlarging_agrees_with_the_formula_in_numpy(scale, size, seed):
    frame = np.random.default_rng(seed).random(size)
    at = [((np.arange(side * scale) + 0.5) / scale - 0.5).clip(0, side - 1) for side in size]
    wide = np.array([np.interp(at[1], range(size[1]), row) for row in frame])
    expected = np.array([np.interp(at[0], range(size[0]), column) for column in wide.T]).T
    found = enlarge(torch.from_numpy(frame)[None, None, None], scale)[0, 0, 0]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@given(st.integers(1, 4), st.integers(0, 99))
def test_reducing_takes_the_mean_of_what_a_small_pixel_stands_for(scale, seed):
    clips = torch.from_numpy(np.random.default_rng(seed).random((2, 3, 3, 2 * scale, 3 * scale)))
    blocks = clips.view(2, 3, 3, 2, scale, 3, scale)
    torch.testing.assert_close(reduce(clips, scale), blocks.mean(dim=(4, 6)))
    assert torch.equal(reduce(clips, 1), clips)


@given(st.integers(2, 40), st.data())
def test_initial_keyframes_are_spread_evenly_from_the_first_frame_to_the_last(num_frames, data):
    num_keyframes = data.draw(st.integers(2, num_frames))
    mask = evenly_spread(2, num_frames, num_keyframes)
    assert mask.shape == (2, num_frames)
    assert torch.equal(mask[0], mask[1])
    times = mask[0].nonzero().flatten()
    assert (len(times), times[0], times[-1]) == (num_keyframes, 0, num_frames - 1)
    assert int(times.diff().max()) - int(times.diff().min()) <= 1


@given(st.integers(2, 7), st.data())
def test_keyframes_are_placed_where_no_other_places_err_less(num_frames, data):
    num, seed = data.draw(st.integers(2, num_frames)), data.draw(st.integers(0, 99))
    clips = torch.rand(2, num_frames, *FRAME, generator=torch.Generator().manual_seed(seed))

    def errors(mask: torch.Tensor) -> torch.Tensor:
        return (render(clips, mask) - clips).square().flatten(1).sum(1)

    placed = best_placed(clips, num)
    assert placed.sum(1).tolist() == [num, num]
    others = []
    for inner in itertools.combinations(range(1, num_frames - 1), num - 2):
        others.append(evenly_spread(2, num_frames, 2))
        others[-1][:, list(inner)] = True
    torch.testing.assert_close(errors(placed), torch.stack([errors(one) for one in others]).amin(0))


def test_keyframes_go_where_they_take_away_most_of_the_errors_that_weigh():
    still, moving = torch.zeros(6, *FRAME), torch.rand(6, *FRAME)
    clips = torch.stack([still, moving, 0.9 * moving])
    for need, nums in (([1.0, 1, 1e9], [2, 4, 6]), ([1e9, 1e9, 1], [2, 6, 4])):
        assert best_placed(clips, 4, torch.tensor(need)).sum(1).tolist() == nums


def test_a_further_keyframe_counts_for_no_more_than_the_one_before_it():
    # One between the ends takes away errors of 1.75, two 6.75; of the other clip 9.2 and 11.6.
    clips = torch.tensor([[0.0, 0.0, 3.0, 0.0, 0.0, 0.0], [0.0, 1.7, 1.7, 1.7, 1.7, 0.0]]).view(2, 6, 1, 1, 1)
    assert best_placed(clips, 3, torch.ones(2)).sum(1).tolist() == [2, 4]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 1000))
def test_coarse_colour_keeps_the_luma_of_every_pixel_and_what_has_one_colour(height, width, seed):
    draw = np.random.default_rng(seed)
    images = torch.from_numpy(draw.random((2, 3, height, width)))
    luma, chroma = keyframes.split_colour(images)
    assert (luma.shape, chroma.shape) == ((2, 1, height, width), (2, 2, (height + 1) // 2, (width + 1) // 2))
    again = keyframes.split_colour(keyframes.join_colour(luma, chroma))[0]
    torch.testing.assert_close(again, luma, atol=1e-6, rtol=0)
    plain = torch.from_numpy(draw.random((1, 3, 1, 1))).expand(1, 3, height, width)
    torch.testing.assert_close(keyframes.join_colour(*keyframes.split_colour(plain)), plain, atol=1e-6, rtol=0)
    by_hand = 0.299 * images[:, 0] + 0.587 * images[:, 1] + 0.114 * images[:, 2]
    torch.testing.assert_close(luma[:, 0], by_hand, atol=1e-6, rtol=0)
