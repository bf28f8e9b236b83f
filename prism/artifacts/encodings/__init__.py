"""Encoding: how a set stores its videos as tensors in a file, and renders clips from the tensors."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor

from prism.artifacts.clips import Normalisation
from prism.errors import ConfigError

DTYPES = {"float32": torch.float32, "float16": torch.float16, "uint8": torch.uint8}
Formats = Mapping[str, tuple[torch.dtype | None, int]]
PLAIN = Normalisation((0.5,) * 3, (0.5,) * 3)


class Encoding(ABC):
    """Storage of the videos of a set.

    An encoding is the value of `--storage`. Its fields are options with defaults (`H264(quality=50)`), and
    `with_frames` gives the same encoding with videos. A custom encoding names its tensors, and has three methods:

        class EverySecond(Encoding):
            NAME = "every-second"
            TENSORS = {"levels": (torch.uint8, 5)}

            def encode(self, frames, mask, scale=1):
                clips = enlarge(keyframes.render(frames, mask), scale)
                return {"levels": (clips[:, ::2] * 255).round().clamp(0, 255).byte()}

            @property
            def mask(self):
                return (torch.arange(self.num_frames) % 2 == 0).repeat(len(self.tensors["levels"]), 1)

            def render(self, videos, normalisation, generator):
                levels = self.tensors["levels"][videos] / 255
                return levels.repeat_interleave(2, dim=1)[:, : self.num_frames]

        prism.condense(store, output="set.safetensors", storage=EverySecond())
        prism.CondensedSet.load("set.safetensors", encodings=[EverySecond])

    No file makes PRISM import code, so `load` must be given the custom class. No tensor may be called `labels`.
    Names, formats, ranks and finite values are checked before `problem`, which finds other damage. A tensor has
    the same number of rows for each video, unless `rejoined` corrects it.

    Attributes:
        NAME: the `encoding` in the metadata of a file.
        TENSORS: number format and rank of each tensor, by its name in a file. The format None stands for any of
            `DTYPES`; beside a uint8 tensor stand a scale and a minimum for each image (`as_numbers`).
        number_format: a key of `DTYPES` if the encoding can keep numbers of any kind, such as the memories of
            static-dynamic, in that format; None if it keeps only pictures.
        largest: the largest value that the encoding can hold.
        coarse_colour: whether colour has half the height and width; training then restricts key-frames alike.
        is_random: whether a video stands for several clips, of which each rendering draws one.
        tensors: the tensors of the file, without the labels.
        num_frames: frames of a rendered clip (T).
        size: height and width of a rendered clip in pixels.
        scale: factor of height and width from a stored image to a rendered clip.
    """

    NAME: ClassVar[str]
    TENSORS: ClassVar[Formats]
    number_format: ClassVar[str | None] = None
    largest: ClassVar[float] = 1e38
    coarse_colour: ClassVar[bool] = False
    is_random: ClassVar[bool] = False

    tensors: Mapping[str, Tensor] = {}
    num_frames: int = 0
    size: tuple[int, int] = (0, 0)
    scale: int = 1

    def encode(self, frames: Tensor, mask: Tensor, scale: int = 1) -> dict[str, Tensor]:
        """The tensors that store some videos, with the formats and ranks in TENSORS.

        Args:
            frames: (V, T, 3, h, w) float pixels in units of [0, 1] (they may exceed it).
            mask: (V, T) bool, True at key-frames, the first and the last frame among them; the values of other
                frames do not count, and `keyframes.render` interpolates them.
            scale: rendered clips have H = scale · h and W = scale · w.
        """
        raise ConfigError(f"the encoding '{self.NAME}' does not store frames. Choose another storage.")

    @property
    @abstractmethod
    def mask(self) -> Tensor:
        """(V, T) bool, True at the frames of a clip that are stored, not interpolated."""

    @abstractmethod
    def render(self, videos: Tensor, normalisation: Normalisation, generator: torch.Generator | None) -> Tensor:
        """The clips (n, T, 3, H, W) of the videos at positions (n,): float32 in units of [0, 1].

        `normalisation` is of the real training pixels. Without `generator` a random clip is always the same.
        """

    @classmethod
    def join(cls, parts: Sequence["Encoding"]) -> "Encoding":
        """One encoding of the videos of all parts in order; the parts agree in length, size, scale and storage."""
        first = parts[0]
        tensors = {name: torch.cat([part.tensors[name] for part in parts]) for name in first.tensors}
        joined = first.holding(cls.rejoined(tensors, parts), first.num_frames, first.size, first.scale)
        if problem_of(joined, sum(len(part.mask) for part in parts)):
            raise ConfigError(f"sets in the encoding '{cls.NAME}' cannot be joined. Leave out --executor.")
        return joined

    @classmethod
    def rejoined(cls, tensors: dict[str, Tensor], parts: Sequence["Encoding"]) -> dict[str, Tensor]:
        """Joined tensors, corrected where they do not have the same number of rows for each video."""
        return tensors

    def problem(self, num_videos: int) -> str | None:
        """The first problem with the values of the tensors for V = `num_videos`, in words; or None."""
        if tuple(self.mask.shape) != (num_videos, self.num_frames) or num_videos < 1:
            return f"its mask is {tuple(self.mask.shape)}, but there are {num_videos} labels"
        shape, wanted = self.render(torch.tensor([0]), PLAIN, None).shape[1:], (self.num_frames, 3, *self.size)
        return None if tuple(shape) == wanted else f"it renders clips of {tuple(shape)}, not {wanted}"

    @property
    def storage(self) -> str:
        """Number format of the images if it is one of `DTYPES`; else the name of the encoding."""
        images = [self.tensors[name].dtype for name, (dtype, _) in self.TENSORS.items() if dtype is None]
        return str(images[0]).removeprefix("torch.") if images else self.NAME

    @property
    def num_values(self) -> int:
        """Count of the numbers stored for the videos, without indices and ranges of levels."""
        return sum(self.tensors[name].numel() for name in self.TENSORS)

    @property
    def keyframe_counts(self) -> Tensor:
        """(V,) int64, number of colour images stored for each video."""
        return self.mask.sum(dim=1)

    def holding(
        self, tensors: Mapping[str, Tensor], num_frames: int, size: tuple[int, int], scale: int = 1
    ) -> Self:
        """A copy of this encoding that holds the given tensors, unchecked."""
        held = copy.copy(self)
        vars(held).update(tensors=tensors, num_frames=num_frames, size=size, scale=scale)
        return held

    def with_frames(self, frames: Tensor, mask: Tensor | None = None, scale: int = 1) -> Self:
        """A copy that holds the tensors of `encode`, else a ConfigError; by default every frame is a key-frame."""
        mask = torch.ones(frames.shape[:2], dtype=torch.bool) if mask is None else mask
        size = frames.shape[3] * scale, frames.shape[4] * scale
        held = self.holding(self.encode(frames, mask, scale), frames.shape[1], size, scale)
        if problem := problem_of(held, len(frames)):
            said = f"the storage '{type(self).__name__}' cannot store key-frames at scale {scale}"
            raise ConfigError(f"{said}: {problem}.")
        return held


def problem_of(encoding: Encoding, num_videos: int) -> str | None:
    """The first problem with the tensors of an untrusted encoding of V videos, in words; or None."""
    expected, tensors = dict(encoding.TENSORS), encoding.tensors
    if "labels" in expected:
        return "its tensor 'labels' has the name of the labels of a set"
    for name, (dtype, _) in encoding.TENSORS.items():
        if dtype is None and name in tensors and tensors[name].dtype == torch.uint8:
            expected |= dict.fromkeys(range_names(name), (torch.float32, 1))
    if set(tensors) != set(expected):
        return f"it must hold the tensors {sorted(expected)}, but holds {sorted(tensors)}"
    for name, (dtype, rank) in expected.items():
        found = tensors[name]
        if found.dtype not in ([dtype] if dtype else DTYPES.values()) or found.dim() != rank:
            return f"it has a tensor '{name}' of {found.dtype} and shape {tuple(found.shape)}"
        # A scale times a level of up to 255 must not overflow.
        if found.is_floating_point() and not (found.abs() < 1e36).all():
            return f"its '{name}' holds a value that is not finite"
        ranges = [] if dtype else [tensors[key] for key in range_names(name) if key in tensors]
        if any(len(each) != len(found) for each in ranges):
            return f"it must hold a scale and a minimum for each image of '{name}'"
    return encoding.problem(num_videos)


def shape_problem(tensors: Mapping[str, Tensor], wanted: Mapping[str, tuple[int, ...]]) -> str | None:
    """A sentence on the first tensor that does not have the wanted shape, or None."""
    for name, shape in wanted.items():
        if (found := tuple(tensors[name].shape)) != shape:
            return f"{name} must be {shape} by its metadata, got {found}: another size or length"
    return None


def as_numbers(name: str, images: Tensor, number_format: str) -> dict[str, Tensor]:
    """Tensors of images (K, C, H, W) in a format of `DTYPES`; a uint8 image is `scale[k] * level + minimum[k]`."""
    if number_format != "uint8":
        return {name: images.to(DTYPES[number_format]).contiguous()}
    scale, minimum = level_ranges(*images.flatten(1).aminmax(dim=1))
    levels = (images - minimum.view(-1, 1, 1, 1)) / scale.view(-1, 1, 1, 1)
    named_scale, named_minimum = range_names(name)
    return {name: levels.round().clamp(0, 255).byte(), named_scale: scale, named_minimum: minimum}


def from_numbers(name: str, tensors: Mapping[str, Tensor], chosen: Tensor) -> Tensor:
    """Chosen images from the tensors of `as_numbers`, float32 (k, C, H, W)."""
    images = tensors[name][chosen].float()
    if tensors[name].dtype != torch.uint8:
        return images
    scale, minimum = (tensors[key][chosen].view(-1, 1, 1, 1) for key in range_names(name))
    return images * scale + minimum


def level_ranges(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and minimum (K,) of 256 levels, for images with values from `low` to `high` (K,)."""
    # The range 0..1 keeps pixels of real clips exactly, which are multiples of 1/255.
    ordinary = (low >= 0) & (high <= 1)
    # An image of one value has a range of zero, but its scale must not be zero.
    scale = torch.where(ordinary, 1 / 255, ((high - low) / 255).clamp(min=1e-12))
    return scale, torch.where(ordinary, 0.0, low)


def range_names(name: str) -> tuple[str, str]:
    """Names of the scale and minimum of a uint8 tensor; for key-frames, the first encoding, without a prefix."""
    prefix = "" if name == "keyframes" else f"{name}_"
    return f"{prefix}scale", f"{prefix}minimum"
