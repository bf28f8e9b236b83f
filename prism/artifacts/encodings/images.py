"""Images as a file stores them: as numbers in one of three formats here, as packets in `coded`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

DTYPES = {"float32": torch.float32, "float16": torch.float16, "uint8": torch.uint8}
"""The number formats of images, by name."""


class Images(ABC):
    """K stored images of one size, decoded where they are asked for."""

    @abstractmethod
    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of a file, where the images are called `name`."""

    @abstractmethod
    def __getitem__(self, where: Tensor | slice) -> "Encoded":
        """Some of the images, as numbers."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """(K, C, H, W)."""

    @property
    @abstractmethod
    def storage(self) -> str:
        """Their number format, or their codec."""

    @property
    @abstractmethod
    def is_finite(self) -> bool:
        """Whether every decoded value is a number that float32 can hold."""

    def __len__(self) -> int:
        return self.shape[0]

    def decode(self) -> Tensor:
        """All images as float32 (K, C, H, W)."""
        return self[:].decode()


@dataclass(frozen=True)
class Encoded(Images):
    """Images as numbers.

    A uint8 image k stands for `scale[k] * pixel + minimum[k]`: 1/255 and 0 where the image lies in
    [0, 1], as real clips do, else its own range.
    """

    frames: Tensor
    scale: Tensor | None = None
    minimum: Tensor | None = None

    @classmethod
    def encode(cls, frames: Tensor, number_format: str) -> "Encoded":
        """Store float frames (K, C, H, W) in a format of `DTYPES`."""
        if number_format != "uint8":
            return cls(frames.to(DTYPES[number_format]).contiguous())
        scale, minimum = level_ranges(*frames.flatten(1).aminmax(dim=1))
        levels = (frames - minimum.view(-1, 1, 1, 1)) / scale.view(-1, 1, 1, 1)
        return cls(levels.round().clamp(0, 255).to(torch.uint8), scale, minimum)

    @classmethod
    def of(cls, tensors: dict[str, Tensor], name: str) -> "Encoded":
        """The inverse of `tensors`."""
        return cls(tensors[name], *(tensors.get(key) for key in scale_names(name)))

    @property
    def _stored(self) -> list[Tensor]:
        return [part for part in (self.frames, self.scale, self.minimum) if part is not None]

    def decode(self) -> Tensor:
        """The frames as float32 (K, C, H, W)."""
        if self.scale is None or self.minimum is None:
            return self.frames.float()
        return self.frames.float() * self.scale.view(-1, 1, 1, 1) + self.minimum.view(-1, 1, 1, 1)

    def __getitem__(self, where: Tensor | slice) -> "Encoded":
        """Some of the images, still encoded."""
        return Encoded(*(part[where] for part in self._stored))

    @property
    def shape(self) -> tuple[int, ...]:
        """(K, C, H, W)."""
        return tuple(self.frames.shape)

    @property
    def storage(self) -> str:
        """The number format."""
        return str(self.frames.dtype).removeprefix("torch.")

    @property
    def is_finite(self) -> bool:
        """Whether every decoded value is a number that float32 can hold."""
        if self.scale is None or self.minimum is None:
            return bool(self.frames.isfinite().all())
        return levels_are_finite(self.scale, self.minimum)

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The frames as `name`, and where they are uint8 their scale and minimum."""
        return dict(zip((name, *scale_names(name)), self._stored, strict=False))


def level_ranges(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and minimum of 256 levels, for images whose values go from `low` to `high` (K,)."""
    # Pixels of real clips are multiples of 1/255: this range keeps them exactly.
    ordinary = (low >= 0) & (high <= 1)
    # An image of one colour has no range, but its scale must not be zero.
    scale = torch.where(ordinary, 1 / 255, ((high - low) / 255).clamp(min=1e-12))
    return scale, torch.where(ordinary, 0.0, low)


def levels_are_finite(scale: Tensor, minimum: Tensor) -> bool:
    """Whether the levels 0 to 255 stand for numbers that float32 can hold."""
    # The product alone may overflow where the sum, computed with more digits, would not.
    return bool(((255 * scale).isfinite() & (255 * scale + minimum).isfinite()).all())


def scale_names(name: str) -> tuple[str, str]:
    """The tensors that a uint8 tensor needs beside it: key-frames came first, so theirs have the short names."""
    prefix = "" if name == "keyframes" else f"{name}_"
    return f"{prefix}scale", f"{prefix}minimum"


def offsets_of(counts: Tensor) -> Tensor:
    """Where each of V videos begins, and the last one ends, if they have so many images (V,): (V + 1,) int64."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
