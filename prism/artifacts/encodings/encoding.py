"""What every encoding answers, and the largest clips that one may render to."""

from typing import ClassVar, Protocol

import torch
from torch import Tensor

from prism.artifacts.clips import Normalisation
from prism.artifacts.encodings.coded import Coded
from prism.artifacts.encodings.images import Encoded

MAX_FRAMES = 4096
MAX_SIDE = 4096
MAX_SCALE = 16
MAX_CLIP_VALUES = 2**28
"""Values of one rendered clip, 1 GiB as float32: 64 frames of 1180×1180 pixels."""


class Encoding(Protocol):
    """How the videos of a set are stored.

    Attributes:
        NAME: the `encoding` of the metadata.
        IMAGES: names of the tensors in one of three number formats, with their rank.
        OTHERS: names, number format and rank of the others, apart from the labels.
        is_random: whether a video stands for several clips, one of which is drawn whenever it is rendered.
    """

    NAME: ClassVar[str]
    IMAGES: ClassVar[dict[str, int]]
    OTHERS: ClassVar[dict[str, tuple[torch.dtype, int]]]
    is_random: ClassVar[bool]

    @classmethod
    def from_tensors(
        cls, tensors: dict[str, Tensor], num_frames: int, size: tuple[int, int], scale: int
    ) -> "Encoding":
        """The encoding that a file's tensors make up, for clips of this length, size and scale."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the file."""
        ...

    def problem(self, num_videos: int) -> str | None:
        """What is wrong with it for a set of so many videos, or None."""
        ...

    @property
    def scale(self) -> int:
        """How many times as high and wide as a stored image a rendered clip is."""
        ...

    @property
    def num_frames(self) -> int:
        """Frames of a rendered clip (T)."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        ...

    @property
    def storage(self) -> str:
        """Number format of the stored images, or their codec."""
        ...

    @property
    def num_values(self) -> int:
        """Numbers that are stored for the videos; indices are none."""
        ...

    @property
    def mask(self) -> Tensor:
        """(V, T) bool, True at frames of a clip that are stored as they are."""
        ...

    @property
    def keyframe_counts(self) -> Tensor:
        """(V,) int64, colour images stored for each video."""
        ...

    @property
    def shown(self) -> Encoded | Coded | None:
        """The stored pixels, if a clip shows nothing that lies outside their range."""
        ...

    def render(self, videos: Tensor, normalisation: Normalisation, generator: torch.Generator | None) -> Tensor:
        """The clips (n, T, 3, H, W) of the videos at these positions, float32, in units of [0, 1]."""
        ...


def extent_problem(encoding: Encoding) -> str | None:
    """What is wrong with the length and size of the clips that an encoding renders to, or None."""
    (height, width), num_frames = encoding.size, encoding.num_frames
    if max(height, width) > MAX_SIDE:
        return f"frames of {height}×{width} pixels exceed {MAX_SIDE}"
    if not 2 <= num_frames <= MAX_FRAMES:
        return f"clips must have 2 to {MAX_FRAMES} frames, got {num_frames}"
    if num_frames * 3 * height * width > MAX_CLIP_VALUES:
        return f"a clip of {num_frames}×{height}×{width} is larger than PRISM renders"
    return None
