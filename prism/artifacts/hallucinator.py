"""The hallucinator as pure mathematics: a still image and a memory of motion become a clip.

Wang et al. (arXiv 2312.00362) take a synthetic video apart into what it shows and how it moves. One small
convolution, shared by all videos, puts the two together:

    clip = conv3d(static repeated over time ⊕ dynamic),   4 → 3 channels, kernel 3, padding 1
"""

import torch
from torch import Tensor
from torch.nn import functional

MEMORIES = 2
"""Static images, and dynamic memories, of each video: it is rendered from one of either."""
KERNEL = (3, 4, 3, 3, 3)


def hallucinate(static: Tensor, dynamic: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The clips that pairs of a static image and a dynamic memory stand for.

    Args:
        static: (V, 3, H, W) normalised images.
        dynamic: (V, T, H, W), the one channel that moves.
        weight: (3, 4, 3, 3, 3), input channels red, green, blue, dynamic.
        bias: (3,).

    Returns:
        (V, T, 3, H, W) normalised clips, differentiable with respect to everything.
    """
    still = static.unsqueeze(2).expand(-1, -1, dynamic.shape[1], -1, -1)
    clips = functional.conv3d(torch.cat([still, dynamic.unsqueeze(1)], dim=1), weight, bias, padding=1)
    return clips.transpose(1, 2)


def combine(num_videos: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Which static image and which dynamic memory render each video.

    Args:
        num_videos: V.
        generator: draws one of the two, for either and for every video apart; None takes the first.

    Returns:
        Two (V,) int64 tensors of positions: video v has the images, and the memories, 2v and 2v + 1.
    """
    picks = torch.zeros(2, num_videos, dtype=torch.int64)
    if generator is not None:
        picks = torch.randint(MEMORIES, picks.shape, generator=generator, device=generator.device).cpu()
    static, dynamic = MEMORIES * torch.arange(num_videos) + picks
    return static, dynamic
