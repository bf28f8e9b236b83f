"""Videos as static images and dynamic memories (Wang et al., arXiv 2312.00362)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from prism.artifacts.clips import Normalisation
from prism.artifacts.encodings.encoding import Encoding, checked, extent_problem
from prism.artifacts.encodings.images import Encoded
from prism.artifacts.hallucinator import KERNEL, MEMORIES, combine, hallucinate
from prism.errors import ArtifactError


@dataclass(frozen=True)
class StaticDynamicEncoding(Encoding):
    """Videos taken apart into static images and dynamic memories, and the hallucinator that joins them.

    Wang et al., arXiv 2312.00362. Video v is rendered from one of the images 2v and 2v + 1 and one of the
    memories 2v and 2v + 1, drawn anew whenever it is rendered.

    Attributes:
        static: (2V, 3, H, W) images, in units of [0, 1].
        dynamic: (2V, T, H, W) memories of one channel.
        weight: (3, 4, 3, 3, 3) float32, of the hallucinator, which works on normalised images.
        bias: (3,) float32.
    """

    NAME: ClassVar[str] = "static-dynamic"
    IMAGES: ClassVar[dict[str, int]] = {"static": 4, "dynamic": 4}
    TENSORS: ClassVar[dict[str, tuple[torch.dtype, int]]] = {
        "weight": (torch.float32, 5),
        "bias": (torch.float32, 1),
    }
    is_random: ClassVar[bool] = True

    static: Encoded
    dynamic: Encoded
    weight: Tensor
    bias: Tensor

    @classmethod
    def encode(
        cls, static: Tensor, dynamic: Tensor, weight: Tensor, bias: Tensor, number_format: str
    ) -> "StaticDynamicEncoding":
        """Store images and memories as `float32`, `float16` or `uint8`; the hallucinator stays float32."""
        static_images, memories = (Encoded.encode(part, number_format) for part in (static, dynamic))
        return cls(static_images, memories, weight.float(), bias.float())

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> "StaticDynamicEncoding":
        """The encoding in a file; its tensors say how long and how large a clip is.

        Raises:
            ArtifactError: the file has a scale, though images and memories are as large as the clips.
        """
        if checked(metadata.get("scale", 1), int) != 1:
            raise ArtifactError("its metadata names another size or length than its tensors have.")
        static, dynamic = Encoded.of(tensors, "static"), Encoded.of(tensors, "dynamic")
        return cls(static, dynamic, tensors["weight"], tensors["bias"])

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the file."""
        images = self.static.tensors("static") | self.dynamic.tensors("dynamic")
        return {**images, "weight": self.weight, "bias": self.bias}

    def problem(self, num_videos: int) -> str | None:
        """The first thing that is wrong with it for a set of so many videos, or None."""
        static, dynamic = self.static.frames, self.dynamic.frames
        if static.dim() != 4 or static.shape[1] != 3 or not 1 <= min(static.shape) <= max(static.shape) < 2**31:
            return f"static images must be (2V, 3, H, W), got {tuple(static.shape)}"
        if dynamic.dim() != 4 or dynamic.shape[2:] != static.shape[2:]:
            return f"dynamic memories must be (2V, T, H, W) like the static images, got {tuple(dynamic.shape)}"
        if problem := extent_problem(self.clip_shape):
            return problem
        if num_videos < 1 or not len(static) == len(dynamic) == MEMORIES * num_videos:
            return f"there must be {MEMORIES} static images and {MEMORIES} dynamic memories for each video"
        if static.dtype != dynamic.dtype:
            return "static images and dynamic memories differ in their number format"
        if tuple(self.weight.shape) != KERNEL or tuple(self.bias.shape) != KERNEL[:1]:
            return f"the hallucinator must have a weight of shape {KERNEL} and a bias of shape {KERNEL[:1]}"
        finite = self.static.is_finite and self.dynamic.is_finite
        if not (finite and self.weight.isfinite().all() and self.bias.isfinite().all()):
            return "an image, a memory or the hallucinator holds a value that is not finite"
        return None

    @property
    def clip_shape(self) -> tuple[int, int, int]:
        """Frames, height and width of a rendered clip."""
        return self.dynamic.shape[1], self.static.shape[2], self.static.shape[3]

    @property
    def storage(self) -> str:
        """Number format of the static images and dynamic memories."""
        return self.static.storage

    @property
    def num_values(self) -> int:
        """Numbers that are stored: images, memories and the hallucinator."""
        return sum(part.numel() for part in (self.static.frames, self.dynamic.frames, self.weight, self.bias))

    @property
    def mask(self) -> Tensor:
        """(V, T) bool, all False: no frame of a clip is stored as it is."""
        return torch.zeros(len(self.static.frames) // MEMORIES, self.clip_shape[0], dtype=torch.bool)

    @property
    def keyframe_counts(self) -> Tensor:
        """(V,) int64, static images of each video; its memories are no colour images."""
        return torch.full((len(self.static.frames) // MEMORIES,), MEMORIES)

    def render(self, videos: Tensor, normalisation: Normalisation, generator: torch.Generator | None) -> Tensor:
        """The hallucinated clips; without a generator, of each video's first image and first memory.

        All videos take part in the draw, so that a video's clip does not depend on which others are rendered.
        """
        static, dynamic = (where[videos] for where in combine(len(self.keyframe_counts), generator))
        images = normalisation.apply(self.static[static].decode())
        clips = hallucinate(images, self.dynamic[dynamic].decode(), self.weight, self.bias)
        return normalisation.invert(clips)
