"""Images as a file stores them: float32, float16, or uint8 with a range of their own."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

DTYPES = {"float32": torch.float32, "float16": torch.float16, "uint8": torch.uint8}


@dataclass(frozen=True)
class Encoded:
    """Images as they are stored: K of them in a number format.

    A uint8 image k stands for `scale[k] * pixel + minimum[k]`: 1/255 and 0 where the image lies in
    [0, 1], as real clips do, else its own range.
    """

    frames: Tensor
    scale: Tensor | None = None
    minimum: Tensor | None = None

    @classmethod
    def encode(cls, frames: Tensor, storage: str) -> "Encoded":
        """Store float frames (K, C, H, W) as `float32`, `float16` or `uint8`."""
        if storage != "uint8":
            return cls(frames.to(DTYPES[storage]).contiguous())
        scale, minimum = level_ranges(*frames.flatten(1).aminmax(dim=1))
        levels = (frames - minimum.view(-1, 1, 1, 1)) / scale.view(-1, 1, 1, 1)
        return cls(levels.round().clamp(0, 255).to(torch.uint8), scale, minimum)

    @classmethod
    def join(cls, parts: Sequence["Encoded"]) -> "Encoded":
        """The images of all parts, one part after another; they have one number format."""
        names = ("frames", "scale", "minimum")
        joined = [[part for part in (getattr(each, name) for each in parts) if part is not None] for name in names]
        return cls(*(torch.cat(part) if part else None for part in joined))  # type: ignore[arg-type]

    def decode(self) -> Tensor:
        """The frames as float32 (K, C, H, W)."""
        if self.scale is None or self.minimum is None:
            return self.frames.float()
        return self.frames.float() * self.scale.view(-1, 1, 1, 1) + self.minimum.view(-1, 1, 1, 1)

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, where: Tensor | slice) -> "Encoded":
        """Some of the images, still encoded."""
        scale, minimum = (None if part is None else part[where] for part in (self.scale, self.minimum))
        return Encoded(self.frames[where], scale, minimum)

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
        return bool(((255 * self.scale).isfinite() & (255 * self.scale + self.minimum).isfinite()).all())

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Its tensors as a file holds them, under `name` and the names of its scale and minimum."""
        parts = zip((name, *scale_names(name)), (self.frames, self.scale, self.minimum), strict=True)
        return {key: part for key, part in parts if part is not None}

    @classmethod
    def of(cls, tensors: dict[str, Tensor], name: str) -> "Encoded":
        """The inverse of `tensors`."""
        return cls(tensors[name], *(tensors.get(key) for key in scale_names(name)))


def level_ranges(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and minimum of 256 levels, for images whose values go from `low` to `high` (K,)."""
    ordinary = (low >= 0) & (high <= 1)
    scale = torch.where(ordinary, 1 / 255, ((high - low) / 255).clamp(min=1e-12))
    return scale, torch.where(ordinary, 0.0, low)


def scale_names(name: str) -> tuple[str, str]:
    """The tensors that a uint8 tensor needs beside it: key-frames came first, so theirs have the short names."""
    prefix = "" if name == "keyframes" else f"{name}_"
    return f"{prefix}scale", f"{prefix}minimum"
