"""Labelled clips in memory, the conversion of their pixels to a network's input, and augmentations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prism.errors import ClipError
from prism.machine.devices import send

PIXELS = (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Normalisation:
    """Per-channel mean and standard deviation of the training pixels, in units of [0, 1]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        mean, std = self.mean, self.std
        if not (len(mean) == len(std) == 3 and all(0 <= m <= 1 for m in mean) and all(0 < s <= 1 for s in std)):
            raise ClipError(f"normalisation needs three means in 0..1 and three deviations in (0, 1], got {self}.")

    def apply(self, frames: Tensor) -> Tensor:
        """Normalise pixels (..., C, H, W) in units of [0, 1]: zero mean, unit variance over the training set."""
        mean, std = self._as_tensors(frames)
        return (frames - mean).div_(std)

    def invert(self, frames: Tensor) -> Tensor:
        mean, std = self._as_tensors(frames)
        return frames * std + mean

    def _as_tensors(self, frames: Tensor) -> Tensor:
        return send(torch.tensor((self.mean, self.std), dtype=frames.dtype), frames.device).view(2, 3, 1, 1)


IMAGENET = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""ImageNet's constants, with which earlier work normalises every data set."""


class BatchStandardisation:
    """Standardisation of a batch by one mean and one deviation, after ImageNet's constants for each channel."""

    def apply(self, frames: Tensor) -> Tensor:
        """Normalise pixels (N, T, C, H, W): zero mean, unit variance over the batch; equal values become 0."""
        frames = IMAGENET.apply(frames)
        std, mean = torch.std_mean(frames)
        # Rounding gives equal values a deviation just above zero; 1e-6 is far below one grey level.
        return frames.sub_(mean).div_(std.clamp(min=1e-6))


Standardisation = Normalisation | BatchStandardisation


@dataclass(frozen=True, eq=False)
class Clips:
    """Labelled clips of equal shape; two objects are equal only if they are one object.

    Attributes:
        frames: (N, T, C, H, W), uint8 pixels in 0..255 or float pixels in units of [0, 1].
        labels: (N,), int64 class indices.
        classes: the class names, in the order of the labels.
    """

    frames: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if _type_of(self.frames) not in PIXELS:
            wanted = "a tensor of uint8 in 0..255, or of floats in units of [0, 1]"
            raise ClipError(f"frames must be {wanted}, got {_type_of(self.frames)}.")
        if _type_of(self.labels) != torch.int64:
            raise ClipError(f"labels must be a tensor of int64, got {_type_of(self.labels)}.")
        shape = tuple(self.frames.shape)
        if len(shape) != 5 or shape[2] != 3:
            hint = " Is this (N, C, T, H, W)?" if len(shape) == 5 and shape[1] == 3 else ""
            raise ClipError(f"frames must be (N, T, 3, H, W), got {shape}.{hint}")
        if self.labels.shape != (shape[0],):
            raise ClipError(f"labels must be ({shape[0]},) to match the frames, got {tuple(self.labels.shape)}.")
        if shape[0] and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            raise ClipError(f"labels must lie in 0..{len(self.classes) - 1}, one for each class name.")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_frames(self) -> int:
        """Frames per clip (T)."""
        return self.frames.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.frames.shape[3], self.frames.shape[4]

    def subset(self, positions: Tensor | Sequence[int]) -> "Clips":
        """The clips at the given positions, in that order, or where a mask is True."""
        index = positions if isinstance(positions, Tensor) else list(positions)
        return Clips(self.frames[index], self.labels[index], self.classes)


def _type_of(values: object) -> torch.dtype | str:
    return values.dtype if isinstance(values, Tensor) else f"a {type(values).__name__}"


def as_pixels(frames: Tensor) -> Tensor:
    """Frames as float32 pixels in units of [0, 1]: uint8 is divided by 255."""
    return frames.float().div_(255) if frames.dtype == torch.uint8 else frames.float()


def to_model_input(frames: Tensor, normalisation: Standardisation) -> Tensor:
    """Frames (N, T, C, H, W) as a network takes them: normalised float (N, C, T, H, W)."""
    return normalisation.apply(as_pixels(frames)).transpose(1, 2)


def flip_at_random(frames: Tensor, generator: torch.Generator) -> Tensor:
    """Clips (N, ..., W), each mirrored with probability one half; the draw is on the generator's device."""
    return mirror(frames, torch.rand(len(frames), generator=generator, device=generator.device) < 0.5)


def mirror(frames: Tensor, chosen: Tensor) -> Tensor:
    """Clips (N, ..., W), mirrored left to right where `chosen` (N,) is True."""
    mirrored = send(chosen.nonzero().flatten(), frames.device)
    return frames.index_copy(0, mirrored, frames.index_select(0, mirrored).flip(-1))


def shift_at_random(frames: Tensor, most: float, generator: torch.Generator) -> Tensor:
    """Clips (N, T, C, H, W), each moved in time, down and across by up to a share of each extent.

    The three shifts of a clip are whole numbers of frames and pixels, uniform in ±round(most · extent).
    Pixels from outside the clip repeat its edge. The draw happens on the generator's device.
    """
    for dim in (1, 3, 4):
        extent, limit = frames.shape[dim], round(most * frames.shape[dim])
        steps = torch.randint(-limit, limit + 1, (len(frames),), generator=generator, device=generator.device)
        sources = send((torch.arange(extent) - steps.cpu()[:, None]).clamp(0, extent - 1), frames.device)
        frames = torch.stack([clip.index_select(dim - 1, at) for clip, at in zip(frames, sources, strict=True)])
    return frames


def as_levels(clip: Tensor) -> NDArray[np.uint8]:
    """A clip (T, 3, H, W), uint8 or in units of [0, 1], as 8-bit pixels (T, H, W, 3), clipped to their range."""
    if clip.dtype != torch.uint8:
        clip = clip.clamp(0, 1).mul_(255).round_().byte()
    return clip.permute(0, 2, 3, 1).numpy()
