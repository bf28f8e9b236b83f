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

    The frames are channels of a convolution over height and width alone. (On a CPU that takes a sixth of the
    time of one over three axes, whose four channels are filled up to sixteen.)
    """
    num_frames = dynamic.shape[1]
    kernel, biases = _between_frames(weight, num_frames), bias.repeat_interleave(num_frames)
    frames = functional.conv2d(torch.cat([static, dynamic], dim=1), kernel, biases, padding=1)
    return frames.unflatten(1, (len(bias), num_frames)).transpose(1, 2)


def _between_frames(weight: Tensor, num_frames: int) -> Tensor:
    """(3·T, 3 + T, 3, 3): what each channel of an image, and each frame of a memory, gives to each frame."""
    frame = torch.arange(num_frames, device=weight.device)
    taps = torch.arange(KERNEL[2], device=weight.device).view(-1, 1, 1)
    # Tap k takes a frame to the one that lies k - 1 before it: (taps, to, from), 1 where both are in the clip.
    carries = (frame + 1 - frame[:, None] == taps).to(weight.dtype)
    from_image = torch.einsum("ockhw,kts->otchw", weight[:, :3], carries)
    from_memory = torch.einsum("okhw,kts->otshw", weight[:, 3], carries)
    return torch.cat([from_image, from_memory], dim=2).flatten(0, 1)


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
