"""Videos as static images and dynamic memories, and the hallucinator that joins them.

Wang et al. (arXiv 2312.00362) take a synthetic video apart into what it shows and how it moves. One small
convolution, shared by all videos, puts the two together:

    clip = conv3d(static repeated over time ⊕ dynamic),   4 → 3 channels, kernel 3, padding 1
"""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from prism.artifacts.clips import Normalisation
from prism.artifacts.encodings import Encoding, Formats, as_numbers, from_numbers, shape_problem

MEMORIES = 2
"""Static images, and dynamic memories, of each video, which is rendered from one of each."""
KERNEL = (3, 4, 3, 3, 3)


class StaticDynamicEncoding(Encoding):
    """Static images, dynamic memories, and one hallucinator for all videos (Wang et al., arXiv 2312.00362).

    Video v is rendered from one of the images 2v and 2v + 1 of `static`, (2V, 3, H, W) in units of [0, 1], and one
    of the memories 2v and 2v + 1 of `dynamic`, (2V, T, H, W), drawn anew whenever it is rendered. The hallucinator
    (`weight`, `bias`) works on normalised images.
    """

    NAME: ClassVar[str] = "static-dynamic"
    TENSORS: ClassVar[Formats] = {
        "static": (None, 4),
        "dynamic": (None, 4),
        "weight": (torch.float32, 5),
        "bias": (torch.float32, 1),
    }
    is_random: ClassVar[bool] = True

    @classmethod
    def of_parts(
        cls, static: Tensor, dynamic: Tensor, weight: Tensor, bias: Tensor, number_format: str
    ) -> "StaticDynamicEncoding":
        """Images and memories as `float32`, `float16` or `uint8`; the hallucinator stays float32."""
        images = as_numbers("static", static, number_format) | as_numbers("dynamic", dynamic, number_format)
        size = static.shape[2], static.shape[3]
        return cls().holding({**images, "weight": weight.float(), "bias": bias.float()}, dynamic.shape[1], size)

    @property
    def mask(self) -> Tensor:
        return torch.zeros(len(self.tensors["static"]) // MEMORIES, self.num_frames, dtype=torch.bool)

    @property
    def keyframe_counts(self) -> Tensor:
        return torch.full((len(self.tensors["static"]) // MEMORIES,), MEMORIES)

    def render(self, videos: Tensor, normalisation: Normalisation, generator: torch.Generator | None) -> Tensor:
        static, dynamic = (where[videos] for where in combine(len(self.keyframe_counts), generator))
        images = normalisation.apply(from_numbers("static", self.tensors, static))
        memories = from_numbers("dynamic", self.tensors, dynamic)
        return normalisation.invert(hallucinate(images, memories, self.tensors["weight"], self.tensors["bias"]))

    def problem(self, num_videos: int) -> str | None:
        num = MEMORIES * num_videos
        wanted = {"static": (num, 3, *self.size), "dynamic": (num, self.num_frames, *self.size)}
        if self.scale != 1 or num_videos < 1:
            return "static images and dynamic memories are of one video or more, and have no scale"
        if self.tensors["static"].dtype != self.tensors["dynamic"].dtype:
            return "static images and dynamic memories differ in their number format"
        return shape_problem(self.tensors, {**wanted, "weight": KERNEL, "bias": KERNEL[:1]})


def hallucinate(static: Tensor, dynamic: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Normalised clips (V, T, 3, H, W) of pairs of an image and a memory, differentiable in everything.

    Args:
        static: (V, 3, H, W) normalised images.
        dynamic: (V, T, H, W), the one channel that moves.
        weight, bias: (3, 4, 3, 3, 3), with input channels red, green, blue, dynamic; and (3,).
    """
    # The frames are channels of a convolution over height and width alone. On a CPU that takes a sixth of the time
    # of one over three axes, whose four channels are filled up to sixteen.
    num_frames = dynamic.shape[1]
    kernel, biases = _between_frames(weight, num_frames), bias.repeat_interleave(num_frames)
    frames = functional.conv2d(torch.cat([static, dynamic], dim=1), kernel, biases, padding=1)
    return frames.unflatten(1, (len(bias), num_frames)).transpose(1, 2)


def _between_frames(weight: Tensor, num_frames: int) -> Tensor:
    """Weights (3·T, 3 + T, 3, 3) of each image channel, and each frame of a memory, in each frame of a clip."""
    frame = torch.arange(num_frames, device=weight.device)
    taps = torch.arange(KERNEL[2], device=weight.device).view(-1, 1, 1)
    # Tap k takes a frame to the one that lies k - 1 before it: (taps, to, from), 1 where both are in the clip.
    carries = (frame + 1 - frame[:, None] == taps).to(weight.dtype)
    from_image = torch.einsum("ockhw,kts->otchw", weight[:, :3], carries)
    from_memory = torch.einsum("okhw,kts->otshw", weight[:, 3], carries)
    return torch.cat([from_image, from_memory], dim=2).flatten(0, 1)


def combine(num_videos: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Positions (V,) of the static image and of the dynamic memory that render each video.

    Video v has the images, and the memories, 2v and 2v + 1; without a generator each first one is taken.
    """
    picks = torch.zeros(2, num_videos, dtype=torch.int64)
    if generator is not None:
        picks = torch.randint(MEMORIES, picks.shape, generator=generator, device=generator.device).cpu()
    static, dynamic = MEMORIES * torch.arange(num_videos) + picks
    return static, dynamic
