"""Encodings: the tensors that a condensed set stores, what is wrong with them, and the clips they stand for.

Each encoding knows the tensors of its file (`docs/formats.md`) and nothing of the set around them: labels,
classes and metadata are the set's.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from prism.clips import Normalisation
from prism.hallucinator import KERNEL, MEMORIES, combine, hallucinate
from prism.keyframes import render

DTYPES = {"float32": torch.float32, "float16": torch.float16, "uint8": torch.uint8}
MAX_FRAMES = 4096
MAX_SIDE = 4096
MAX_CLIP_VALUES = 2**28
"""Values of one rendered clip, 1 GiB as float32: 64 frames of 1180×1180 pixels."""


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
        low, high = frames.flatten(1).aminmax(dim=1)
        ordinary = (low >= 0) & (high <= 1)
        minimum = torch.where(ordinary, 0.0, low)
        scale = torch.where(ordinary, 1 / 255, ((high - low) / 255).clamp(min=1e-12))
        levels = (frames - minimum.view(-1, 1, 1, 1)) / scale.view(-1, 1, 1, 1)
        return cls(levels.round().clamp(0, 255).to(torch.uint8), scale, minimum)

    def decode(self) -> Tensor:
        """The frames as float32 (K, C, H, W)."""
        if self.scale is None or self.minimum is None:
            return self.frames.float()
        return self.frames.float() * self.scale.view(-1, 1, 1, 1) + self.minimum.view(-1, 1, 1, 1)

    def __getitem__(self, where: Tensor | slice) -> "Encoded":
        """Some of the images, still encoded."""
        scale, minimum = (None if part is None else part[where] for part in (self.scale, self.minimum))
        return Encoded(self.frames[where], scale, minimum)

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


def scale_names(name: str) -> tuple[str, str]:
    """The tensors that a uint8 tensor needs beside it: key-frames came first, so theirs have the short names."""
    prefix = "" if name == "keyframes" else f"{name}_"
    return f"{prefix}scale", f"{prefix}minimum"


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
    def from_tensors(cls, tensors: dict[str, Tensor], num_frames: int) -> "Encoding":
        """The encoding that a file's tensors make up."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the file."""
        ...

    def problem(self, num_videos: int) -> str | None:
        """What is wrong with it for a set of so many videos, or None."""
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
        """Number format of the stored images."""
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
    def shown(self) -> Encoded | None:
        """The stored pixels, if a clip shows nothing that lies outside their range."""
        ...

    def render(self, videos: Tensor, normalisation: Normalisation, generator: torch.Generator | None) -> Tensor:
        """The clips (n, T, 3, H, W) of the videos at these positions, float32, in units of [0, 1]."""
        ...


@dataclass(frozen=True)
class KeyFrameEncoding:
    """Videos sparse in time: key-frames, and linear interpolation between them (paper, section 3.1).

    Attributes:
        keyframes: (K, 3, H, W), those of all videos, one video after another.
        times: (K,) int64, the frame index of each key-frame, from 0 to T − 1 within every video.
        offsets: (V + 1,) int64; video v has the key-frames offsets[v]..offsets[v + 1].
        num_frames: frames of a rendered clip (T).
    """

    NAME: ClassVar[str] = "keyframes"
    IMAGES: ClassVar[dict[str, int]] = {"keyframes": 4}
    OTHERS: ClassVar[dict[str, tuple[torch.dtype, int]]] = {
        "times": (torch.int32, 1),
        "offsets": (torch.int64, 1),
    }
    is_random: ClassVar[bool] = False

    keyframes: Encoded
    times: Tensor
    offsets: Tensor
    num_frames: int

    @classmethod
    def encode(cls, frames: Tensor, mask: Tensor, storage: str) -> "KeyFrameEncoding":
        """Keep only the frames (V, T, C, H, W) that are marked in `mask` (V, T)."""
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), mask.sum(dim=1).cumsum(0)])
        return cls(Encoded.encode(frames[mask], storage), mask.nonzero()[:, 1], offsets, frames.shape[1])

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], num_frames: int) -> "KeyFrameEncoding":
        """The encoding that a file's tensors make up."""
        keyframes = Encoded.of(tensors, "keyframes")
        return cls(keyframes, tensors["times"].long(), tensors["offsets"], num_frames)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the file."""
        others = {"times": self.times.to(torch.int32), "offsets": self.offsets.to(torch.int64)}
        return self.keyframes.tensors("keyframes") | others

    def problem(self, num_videos: int) -> str | None:
        """What is wrong with it for a set of so many videos, or None."""
        shape, num_keyframes = self.keyframes.frames.shape, len(self.times)
        if len(shape) != 4 or shape[1] != 3 or not 1 <= min(shape[2:]) <= max(shape) < 2**31:
            return f"key-frames must be (K, 3, H, W), got {tuple(shape)}"
        problem = _extent_problem(self)
        if problem:
            return problem
        if num_videos < 1 or len(self.offsets) != num_videos + 1 or shape[0] != num_keyframes:
            return "its tensors do not belong together: labels, offsets, times and key-frames differ in length"
        # The range comes first: a stranger's offsets could be so far apart that their differences overflow.
        in_range = bool(((self.offsets >= 0) & (self.offsets <= num_keyframes)).all())
        runs = int(self.offsets[0]) == 0 and int(self.offsets[-1]) == num_keyframes
        if not (in_range and runs and int(self.offsets.diff().min()) >= 2):
            return "offsets must run from 0 to the number of key-frames, with two or more for each video"
        first, last = self.times[self.offsets[:-1]], self.times[self.offsets[1:] - 1]
        if bool((first != 0).any()) or bool((last != self.num_frames - 1).any()):
            return f"each video's key-frames must span its clip, from 0 to {self.num_frames - 1}"
        steps = self.times.diff()
        within = torch.ones(num_keyframes - 1, dtype=torch.bool)
        within[self.offsets[1:-1] - 1] = False
        if bool((steps[within] < 1).any()):
            return "the times of each video's key-frames must increase"
        return None if self.keyframes.is_finite else "a key-frame holds a value that is not finite"

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.keyframes.frames.shape[2], self.keyframes.frames.shape[3]

    @property
    def storage(self) -> str:
        """Number format of the stored key-frames."""
        return self.keyframes.storage

    @property
    def num_values(self) -> int:
        """Numbers that are stored for the videos; indices are none."""
        return self.keyframes.frames.numel()

    @property
    def keyframe_counts(self) -> Tensor:
        """(V,) int64, key-frames of each video."""
        return self.offsets.diff()

    @property
    def shown(self) -> Encoded:
        """The key-frames: what lies between two of them lies in their range."""
        return self.keyframes

    @property
    def mask(self) -> Tensor:
        """(V, T) bool, True at key-frames."""
        return self._mask

    @cached_property
    def _mask(self) -> Tensor:
        counts = self.keyframe_counts
        mask = torch.zeros(len(counts), self.num_frames, dtype=torch.bool)
        mask[torch.repeat_interleave(torch.arange(len(counts)), counts), self.times] = True
        return mask

    def render(self, videos: Tensor, normalisation: Normalisation, generator: torch.Generator | None) -> Tensor:
        """The interpolated clips (equation 3); nothing about them is random."""
        counts = self.keyframe_counts[videos]
        row = torch.repeat_interleave(torch.arange(len(videos)), counts)
        within = torch.arange(len(row)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        packed = torch.repeat_interleave(self.offsets[:-1][videos], counts) + within
        dense = torch.zeros(len(videos), self.num_frames, 3, *self.size)
        dense[row, self.times[packed]] = self.keyframes[packed].decode()
        return render(dense, self.mask[videos])


@dataclass(frozen=True)
class StaticDynamicEncoding:
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
    OTHERS: ClassVar[dict[str, tuple[torch.dtype, int]]] = {
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
        cls, static: Tensor, dynamic: Tensor, weight: Tensor, bias: Tensor, storage: str
    ) -> "StaticDynamicEncoding":
        """Store images and memories as `float32`, `float16` or `uint8`; the hallucinator stays float32."""
        return cls(Encoded.encode(static, storage), Encoded.encode(dynamic, storage), weight.float(), bias.float())

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], num_frames: int) -> "StaticDynamicEncoding":
        """The encoding that a file's tensors make up; the dynamic memories say how long a clip is."""
        static, dynamic = Encoded.of(tensors, "static"), Encoded.of(tensors, "dynamic")
        return cls(static, dynamic, tensors["weight"], tensors["bias"])

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the file."""
        images = self.static.tensors("static") | self.dynamic.tensors("dynamic")
        return {**images, "weight": self.weight, "bias": self.bias}

    def problem(self, num_videos: int) -> str | None:
        """What is wrong with it for a set of so many videos, or None."""
        static, dynamic = self.static.frames, self.dynamic.frames
        if static.dim() != 4 or static.shape[1] != 3 or not 1 <= min(static.shape) <= max(static.shape) < 2**31:
            return f"static images must be (2V, 3, H, W), got {tuple(static.shape)}"
        if dynamic.dim() != 4 or dynamic.shape[2:] != static.shape[2:]:
            return f"dynamic memories must be (2V, T, H, W) like the static images, got {tuple(dynamic.shape)}"
        problem = _extent_problem(self)
        if problem:
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
    def num_frames(self) -> int:
        """Frames of a rendered clip (T)."""
        return self.dynamic.frames.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.static.frames.shape[2], self.static.frames.shape[3]

    @property
    def storage(self) -> str:
        """Number format of the static images and dynamic memories."""
        return self.static.storage

    @property
    def num_values(self) -> int:
        """Numbers that are stored: images, memories and the hallucinator."""
        return sum(part.numel() for part in (self.static.frames, self.dynamic.frames, self.weight, self.bias))

    @property
    def shown(self) -> None:
        """Nothing: the hallucinator may render any value."""
        return None

    @property
    def mask(self) -> Tensor:
        """(V, T) bool, all False: no frame of a clip is stored as it is."""
        return torch.zeros(len(self.static.frames) // MEMORIES, self.num_frames, dtype=torch.bool)

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


ENCODINGS: dict[str, type[Encoding]] = {
    encoding.NAME: encoding for encoding in (KeyFrameEncoding, StaticDynamicEncoding)
}


def _extent_problem(encoding: Encoding) -> str | None:
    (height, width), num_frames = encoding.size, encoding.num_frames
    if max(height, width) > MAX_SIDE:
        return f"frames of {height}×{width} pixels exceed {MAX_SIDE}"
    if not 2 <= num_frames <= MAX_FRAMES:
        return f"clips must have 2 to {MAX_FRAMES} frames, got {num_frames}"
    if num_frames * 3 * height * width > MAX_CLIP_VALUES:
        return f"a clip of {num_frames}×{height}×{width} is larger than PRISM renders"
    return None


def tensor_problem(encoding: type[Encoding], tensors: dict[str, Tensor]) -> str | None:
    """What is wrong with the names, number formats and ranks of a file's tensors, or None."""
    expected = {name: (set(DTYPES.values()), rank) for name, rank in encoding.IMAGES.items()}
    expected |= {name: ({dtype}, rank) for name, (dtype, rank) in encoding.OTHERS.items()}
    expected["labels"] = ({torch.int32}, 1)
    for name in encoding.IMAGES:
        if name in tensors and tensors[name].dtype == torch.uint8:
            expected |= dict.fromkeys(scale_names(name), ({torch.float32}, 1))
    if set(tensors) != set(expected):
        return f"must hold the tensors {sorted(expected)}, but holds {sorted(tensors)}"
    for name, (dtypes, rank) in expected.items():
        tensor = tensors[name]
        if tensor.dtype not in dtypes or tensor.dim() != rank:
            return f"has a tensor '{name}' of {tensor.dtype} and shape {tuple(tensor.shape)}"
    for name in encoding.IMAGES:
        if any(len(tensors[key]) != len(tensors[name]) for key in scale_names(name) if key in tensors):
            return f"must hold a scale and a minimum for each image of '{name}'"
    return None
