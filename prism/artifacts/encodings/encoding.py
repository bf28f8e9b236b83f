"""Encoding: what a file holds of the videos of a set, and the clips that they render to."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from prism.artifacts.clips import Normalisation
from prism.artifacts.encodings.images import Images
from prism.errors import ConfigError

MAX_FRAMES = 4096
MAX_SIDE = 4096
MAX_CLIP_VALUES = 2**28
"""Values of one rendered clip, 1 GiB as float32: 64 frames of 1180×1180 pixels."""


class Encoding(ABC):
    """How the videos of a set are stored.

    For an encoding of your own, name its tensors in `TENSORS` and write the five abstract methods; all else has a
    default. `CondensedSet(MyEncoding(…), …)` can be saved, and `CondensedSet.load(path, encodings=[MyEncoding])`
    reads it again: no file makes PRISM import code. A file may come from a stranger. The names, number formats and
    ranks of its tensors are checked before `from_tensors` gets them, everything else is for `problem` to check.

    Attributes:
        NAME: the `encoding` in the metadata of a file.
        TENSORS: number format and rank of each tensor, by its name in a file; the labels are the set's.
        IMAGES: rank of each tensor that may have one of three number formats (`images.Encoded`), by its name.
        is_random: whether a video stands for several clips, one of which is drawn whenever it is rendered.
    """

    NAME: ClassVar[str]
    TENSORS: ClassVar[dict[str, tuple[torch.dtype, int]]] = {}
    IMAGES: ClassVar[dict[str, int]] = {}
    is_random: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def from_tensors(cls, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> Self:
        """The encoding in a file.

        Args:
            tensors: by name.
            metadata: of the file: `num_frames` (an int) and `size` (two) of a clip, and, unchecked, the rest.
        """

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a file."""

    @property
    @abstractmethod
    def clip_shape(self) -> tuple[int, int, int]:
        """Frames, height and width of a rendered clip."""

    @property
    @abstractmethod
    def mask(self) -> Tensor:
        """(V, T) bool, True at frames of a clip that are stored as they are."""

    @abstractmethod
    def render(self, videos: Tensor, normalisation: Normalisation, generator: torch.Generator | None) -> Tensor:
        """The clips of some videos.

        Args:
            videos: (n,) positions.
            normalisation: of the real training pixels.
            generator: draws, where `is_random`; None always gives the same clips.

        Returns:
            (n, T, 3, H, W) float32, in units of [0, 1].
        """

    @classmethod
    def join(cls, parts: Sequence[Any]) -> "Encoding":
        """The videos of all parts, one part after another; a run on many machines has one part for each class.

        Raises:
            ConfigError: by default.
        """
        raise ConfigError(f"sets in the encoding {cls.NAME} cannot be joined. Leave out --engine.")

    def problem(self, num_videos: int) -> str | None:
        """The first thing that is wrong with it for a set of so many videos, or None."""
        if problem := extent_problem(self.clip_shape):
            return problem
        held = len(self.mask)
        return None if held == num_videos > 0 else f"it holds {held} videos, but there are {num_videos} labels"

    def metadata(self) -> dict[str, Any]:
        """The entries that are its own in the metadata of a file."""
        return {"encoding": self.NAME}

    @property
    def storage(self) -> str:
        """Number format of the stored images, or their codec."""
        return self.NAME

    @property
    def num_values(self) -> int:
        """Numbers that are stored for the videos; indices do not count."""
        return sum(tensor.numel() for tensor in self.tensors().values())

    @property
    def keyframe_counts(self) -> Tensor:
        """(V,) int64, colour images stored for each video."""
        return self.mask.sum(dim=1)

    @property
    def shown(self) -> Images | None:
        """The stored pixels, if a clip shows nothing that lies outside their range."""
        return None

    def stream(self, video: int) -> list[bytes] | None:
        """The packets of H.264 that are the clip of a video as they stand; None where it has to be rendered."""
        return None


def extent_problem(clip_shape: tuple[int, int, int]) -> str | None:
    """The first limit that clips of this length and size exceed, or None."""
    num_frames, height, width = clip_shape
    if max(height, width) > MAX_SIDE:
        return f"frames of {height}×{width} pixels exceed {MAX_SIDE}"
    if not 2 <= num_frames <= MAX_FRAMES:
        return f"clips must have 2 to {MAX_FRAMES} frames, got {num_frames}"
    if num_frames * 3 * height * width > MAX_CLIP_VALUES:
        return f"a clip of {num_frames}×{height}×{width} is larger than PRISM renders"
    return None


def checked(value: Any, kind: type, item_kind: type | None = None) -> Any:
    """A value of a stranger's metadata, if it has this type, and its items have theirs.

    Raises:
        TypeError: it has another one. `True` is no int.
    """
    if type(value) is not kind or (item_kind and any(type(item) is not item_kind for item in value)):
        raise TypeError(f"a metadata value is not of type {kind.__name__}")
    return value
