"""Videos as static images and dynamic memories, and the hallucinator that joins them.

Wang et al. (arXiv 2312.00362) split a synthetic video into a static image (appearance) and a dynamic memory
(motion). One small convolution, shared by all videos, renders a clip from both:

    clip = conv3d(static repeated over time ⊕ dynamic),   4 → 3 channels, kernel 3, padding 1
"""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from prism.artifacts.clips import Normalisation
from prism.artifacts.encodings import Encoding, Formats, as_numbers, from_numbers, shape_problem

MEMORIES = 2
"""Number of static images of each video, and of dynamic memories; a clip is rendered from one of each."""
KERNEL = (3, 4, 3, 3, 3)


class StaticDynamicEncoding(Encoding):
    """Static images, dynamic memories, and one hallucinator for all videos (Wang et al., arXiv 2312.00362).

    Video v has images 2v and 2v + 1 of `static`, (2V, 3, H, W) in units of [0, 1], and memories 2v and 2v + 1 of
    `dynamic`, (2V, T, H, W). Each rendering draws one image and one memory. The hallucinator (`weight`, `bias`)
    works on normalised images.
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
        """The encoding of images and memories as `float32`, `float16` or `uint8`; the hallucinator is float32."""
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
    """Normalised clips (V, T, 3, H, W) from one image and one memory each, differentiable in all arguments.

    Args:
        static: (V, 3, H, W) normalised images.
        dynamic: (V, T, H, W) memories, one channel per frame.
        weight, bias: (3, 4, 3, 3, 3), with input channels red, green, blue, dynamic; and (3,).
    """
    # A 2-D convolution with frames as channels takes a sixth of a 3-D convolution's time on a CPU, where the four
    # channels of the latter are padded to sixteen.
    num_frames = dynamic.shape[1]
    kernel, biases = _between_frames(weight, num_frames), bias.repeat_interleave(num_frames)
    frames = functional.conv2d(torch.cat([static, dynamic], dim=1), kernel, biases, padding=1)
    return frames.unflatten(1, (len(bias), num_frames)).transpose(1, 2)


def _between_frames(weight: Tensor, num_frames: int) -> Tensor:
    """Weights (3·T, 3 + T, 3, 3) from 3 image channels and T frames of a memory to 3 channels of T clip frames."""
    frame = torch.arange(num_frames, device=weight.device)
    taps = torch.arange(KERNEL[2], device=weight.device).view(-1, 1, 1)
    # (taps, to, from): 1 where tap k carries frame `from` to frame `to` = from − (k − 1), both within the clip.
    carries = (frame + 1 - frame[:, None] == taps).to(weight.dtype)
    from_image = torch.einsum("ockhw,kts->otchw", weight[:, :3], carries)
    from_memory = torch.einsum("okhw,kts->otshw", weight[:, 3], carries)
    return torch.cat([from_image, from_memory], dim=2).flatten(0, 1)


def combine(num_videos: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Positions (V,) of the static image and of the dynamic memory from which each video is rendered.

    Both are drawn from 2v and 2v + 1 for video v; without a generator they are 2v.
    """
    picks = torch.zeros(2, num_videos, dtype=torch.int64)
    if generator is not None:
        picks = torch.randint(MEMORIES, picks.shape, generator=generator, device=generator.device).cpu()
    static, dynamic = MEMORIES * torch.arange(num_videos) + picks
    return static, dynamic
