"""The hallucinator: what static images and dynamic memories render to, and how they are recombined."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from prism.artifacts.encodings.static_dynamic import KERNEL, combine, hallucinate


def parts(seed: int, num_frames: int = 3, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """Two static images and memories of 4×5 pixels, and a hallucinator."""
    draw = torch.Generator().manual_seed(seed)
    shapes = [(2, 3, 4, 5), (2, num_frames, 4, 5), KERNEL, KERNEL[:1]]
    return [torch.randn(shape, generator=draw, dtype=dtype) for shape in shapes]


def by_hand(static: np.ndarray, dynamic: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The image beside each frame of the memory, then a correlation with zeros around."""
    num, num_frames, height, width = dynamic.shape
    stacked = np.concatenate([static[:, :, None].repeat(num_frames, axis=2), dynamic[:, None]], axis=1)
    padded = np.pad(stacked, [(0, 0), (0, 0), (1, 1), (1, 1), (1, 1)])
    clips = np.empty((num, num_frames, 3, height, width))
    for t, y, x in np.ndindex(num_frames, height, width):
        around = padded[:, :, t : t + 3, y : y + 3, x : x + 3]
        clips[:, t, :, y, x] = np.einsum("nitjk,oitjk->no", around, weight) + bias
    return clips


@given(st.integers(0, 1000), st.integers(2, 5))
def test_a_hallucinated_clip_agrees_with_the_formula_in_numpy(seed, num_frames):
    given_parts = parts(seed, num_frames)
    expected = by_hand(*(part.numpy() for part in given_parts))
    np.testing.assert_allclose(hallucinate(*given_parts).numpy(), expected, rtol=1e-9, atol=1e-9)


def test_the_gradient_of_every_part_matches_finite_differences():
    assert gradcheck(hallucinate, [part.requires_grad_() for part in parts(0)])


def test_without_a_generator_each_video_has_its_first_image_and_memory():
    static, dynamic = combine(3)
    assert static.tolist() == dynamic.tolist() == [0, 2, 4]


def test_image_and_memory_are_drawn_independently_for_every_video():
    pairs = set()
    for seed in range(200):
        static, dynamic = combine(2, torch.Generator().manual_seed(seed))
        assert (static // 2).tolist() == (dynamic // 2).tolist() == [0, 1]
        pairs.add((*(static % 2).tolist(), *(dynamic % 2).tolist()))
    assert len(pairs) == 16
