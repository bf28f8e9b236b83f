"""CondensedSet: a few videos per class, as the key-frames they are interpolated from.

One safetensors file holds everything: packed key-frames, their times, offsets and labels, and one
JSON text of metadata. Nothing in it depends on the clock or the host. Reading it runs no code.
`docs/formats.md` specifies every byte.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from prism.clips import Clips, Normalisation
from prism.errors import ClipError, CondensedError
from prism.keyframes import render
from prism.runtime import canonical_json, parse_json, write_atomically

FORMAT = "prism-condensed-set"
VERSION = 1
DTYPES = {"float32": torch.float32, "float16": torch.float16, "uint8": torch.uint8}
MAX_FRAMES = 4096
MAX_SIDE = 4096
MAX_CLIP_VALUES = 2**28
"""Values of one rendered clip, 1 GiB as float32: 64 frames of 1180×1180 pixels."""


@dataclass(frozen=True)
class Encoded:
    """Key-frames as they are stored: K frames in a number format, in units of [0, 1] once decoded.

    A uint8 frame k stands for `scale[k] * pixel + minimum[k]`: 1/255 and 0 where the frame lies in
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

    def is_finite(self) -> bool:
        """Whether every decoded value is a number that float32 can hold."""
        if self.scale is None or self.minimum is None:
            return bool(self.frames.isfinite().all())
        return bool(((255 * self.scale).isfinite() & (255 * self.scale + self.minimum).isfinite()).all())

    def decode(self) -> Tensor:
        """The frames as float32 (K, C, H, W)."""
        if self.scale is None or self.minimum is None:
            return self.frames.float()
        return self.frames.float() * self.scale.view(-1, 1, 1, 1) + self.minimum.view(-1, 1, 1, 1)


@dataclass(frozen=True)
class CondensedSet:
    """Synthetic or selected videos, sparse in time.

    Attributes:
        keyframes: the stored key-frames of all videos, one after another.
        times: (K,) int64, the frame index of each key-frame, from 0 to T − 1 within every video.
        offsets: (V + 1,) int64; video v has the key-frames offsets[v]..offsets[v + 1].
        labels: (V,) int64 class indices, ascending.
        classes: the class names.
        num_frames: frames of a rendered clip (T).
        normalisation: mean and deviation of the real training pixels, for networks trained on this set.
        flip: whether a horizontal flip keeps the labels.
        source: how the set was made: method, configuration, seed, versions, fingerprint of the store.
    """

    keyframes: Encoded
    times: Tensor
    offsets: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    num_frames: int
    normalisation: Normalisation
    flip: bool
    source: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise CondensedError(f"inconsistent condensed set: {problem}.")

    def _problem(self) -> str | None:
        frames, num_keyframes, num_videos = self.keyframes.frames, len(self.times), len(self.labels)
        if (
            frames.dim() != 4
            or frames.shape[1] != 3
            or not 1 <= min(frames.shape[2:]) <= max(frames.shape) < 2**31
        ):
            return f"key-frames must be (K, 3, H, W), got {tuple(frames.shape)}"
        if max(frames.shape[2:]) > MAX_SIDE:
            return f"key-frames of {frames.shape[2]}×{frames.shape[3]} pixels exceed {MAX_SIDE}"
        if not 2 <= self.num_frames <= MAX_FRAMES:
            return f"clips must have 2 to {MAX_FRAMES} frames, got {self.num_frames}"
        if self.num_frames * 3 * frames.shape[2] * frames.shape[3] > MAX_CLIP_VALUES:
            return f"a clip of {self.num_frames}×{frames.shape[2]}×{frames.shape[3]} is larger than PRISM renders"
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            return "there must be two or more classes with different names"
        if num_videos < 1 or len(self.offsets) != num_videos + 1 or len(frames) != num_keyframes:
            return "its tensors do not belong together: labels, offsets, times and key-frames differ in length"
        if not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            return f"labels must lie in 0..{len(self.classes) - 1}"
        if bool((self.labels.diff() < 0).any()):
            return "labels must ascend"
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
        if not self.keyframes.is_finite():
            return "a key-frame holds a value that is not finite"
        return None

    @classmethod
    def pack(
        cls,
        frames: Tensor,
        mask: Tensor,
        labels: Tensor,
        *,
        classes: tuple[str, ...],
        normalisation: Normalisation,
        flip: bool,
        storage: str = "float32",
        source: dict[str, Any] | None = None,
    ) -> "CondensedSet":
        """Keep only the key-frames of dense frames.

        Args:
            frames: (V, T, C, H, W) float pixels in units of [0, 1] (they may exceed it).
            mask: (V, T) bool, True at key-frames.
            labels: (V,) int64, ascending.
            storage: `float32`, `float16` or `uint8`.
        """
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), mask.sum(dim=1).cumsum(0)])
        return cls(
            Encoded.encode(frames[mask], storage),
            mask.nonzero()[:, 1],
            offsets,
            labels,
            classes,
            frames.shape[1],
            normalisation,
            flip,
            source or {},
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        height, width = self.size
        return (
            f"CondensedSet({len(self.classes)} classes, {len(self)} videos, {len(self.times)} key-frames, "
            f"{self.num_frames}×{height}×{width}, {self.storage}, {self.num_bytes} bytes)"
        )

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.keyframes.frames.shape[2], self.keyframes.frames.shape[3]

    @property
    def storage(self) -> str:
        """Number format of the stored key-frames."""
        return str(self.keyframes.frames.dtype).removeprefix("torch.")

    @property
    def float32_bytes(self) -> int:
        """Bytes as the paper counts them: every stored key-frame as float32, indices ignored."""
        return self.keyframes.frames.numel() * 4

    @cached_property
    def num_bytes(self) -> int:
        """Bytes of the saved file."""
        return len(self.to_bytes())

    @cached_property
    def mask(self) -> Tensor:
        """(V, T) bool, True at key-frames."""
        mask = torch.zeros(len(self), self.num_frames, dtype=torch.bool)
        mask[self._video_of_keyframe, self.times] = True
        return mask

    @property
    def _video_of_keyframe(self) -> Tensor:
        return torch.repeat_interleave(torch.arange(len(self)), self.offsets.diff())

    def render(self, videos: Tensor | None = None) -> Tensor:
        """The clips that the key-frames stand for (paper, equation 3).

        Args:
            videos: (n,) positions of the videos to render; all by default.

        Returns:
            (n, T, C, H, W) float32 pixels in units of [0, 1] (synthetic ones may exceed it).
        """
        chosen = torch.arange(len(self)) if videos is None else torch.as_tensor(videos, dtype=torch.int64)
        counts = self.offsets.diff()[chosen]
        row = torch.repeat_interleave(torch.arange(len(chosen)), counts)
        within = torch.arange(len(row)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        packed = torch.repeat_interleave(self.offsets[:-1][chosen], counts) + within
        some = Encoded(*(None if part is None else part[packed] for part in self._encoded_parts))  # type: ignore[arg-type]
        dense = torch.zeros(len(chosen), self.num_frames, 3, *self.size)
        dense[row, self.times[packed]] = some.decode()
        return render(dense, self.mask[chosen])

    @property
    def _encoded_parts(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        return self.keyframes.frames, self.keyframes.scale, self.keyframes.minimum

    def clips(self) -> Clips:
        """All rendered clips with their labels."""
        return Clips(self.render(), self.labels, self.classes)

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        tensors = {
            "keyframes": self.keyframes.frames,
            "times": self.times.to(torch.int32),
            "offsets": self.offsets.to(torch.int64),
            "labels": self.labels.to(torch.int32),
            "scale": self.keyframes.scale,
            "minimum": self.keyframes.minimum,
        }
        return {name: tensor.contiguous() for name, tensor in tensors.items() if tensor is not None}

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What the file says beside its tensors, with a checksum over both."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "classes": list(self.classes),
            "num_frames": self.num_frames,
            "size": list(self.size),
            "flip": self.flip,
            "mean": list(self.normalisation.mean),
            "std": list(self.normalisation.std),
            "source": self.source,
        }
        return {**content, "sha256": _digest(content, self._tensors)}

    def to_bytes(self) -> bytes:
        """The whole file; equal sets give equal bytes."""
        return safetensors.torch.save(self._tensors, metadata={"prism": canonical_json(self.metadata)})

    def save(self, path: str | Path) -> None:
        """Write the set, or leave what stood under its name before.

        Raises:
            OutputError: the file cannot be written, or the disk is full.
        """
        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "CondensedSet":
        """Read a set; a stranger's file is safe to open.

        Raises:
            CondensedError: the file is missing, damaged, foreign, inconsistent or of a newer format.
        """
        path = Path(path)
        metadata, tensors = _read(path)
        try:
            return cls._from_parts(metadata, tensors)
        except (CondensedError, ClipError) as error:
            raise CondensedError(f"'{path}': {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CondensedError(f"'{path}' is not a valid condensed set: {error}.") from None

    @classmethod
    def _from_parts(cls, metadata: dict[str, Any], tensors: dict[str, Tensor]) -> "CondensedSet":
        content = {key: value for key, value in metadata.items() if key != "sha256"}
        if metadata["sha256"] != _digest(content, tensors):
            raise CondensedError("its checksum differs: the file was damaged or edited.")
        condensed = cls(
            Encoded(tensors["keyframes"], tensors.get("scale"), tensors.get("minimum")),
            tensors["times"].long(),
            tensors["offsets"],
            tensors["labels"].long(),
            tuple(_checked(metadata["classes"], list, str)),
            _checked(metadata["num_frames"], int),
            Normalisation(*(tuple(_checked(metadata[key], list, float)) for key in ("mean", "std"))),
            _checked(metadata["flip"], bool),
            _checked(metadata["source"], dict),
        )
        if _checked(metadata["size"], list, int) != list(condensed.size):
            raise CondensedError("its metadata names another size than its key-frames have.")
        return condensed


def _checked(value: Any, kind: type, item_kind: type | None = None) -> Any:
    if type(value) is not kind or (item_kind and any(type(item) is not item_kind for item in value)):
        raise TypeError(f"a metadata value is not of type {kind.__name__}")
    return value


def _digest(content: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(canonical_json(content).encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().data)
    return digest.hexdigest()


EXPECTED = {
    "keyframes": (set(DTYPES.values()), 4),
    "times": ({torch.int32}, 1),
    "offsets": ({torch.int64}, 1),
    "labels": ({torch.int32}, 1),
}
ONLY_UINT8 = {"scale": ({torch.float32}, 1), "minimum": ({torch.float32}, 1)}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not path.is_file():
        kind = "is a folder, not a condensed set" if path.is_dir() else "does not exist"
        raise CondensedError(f"'{path}' {kind}.")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = _parse_metadata(path, (file.metadata() or {}).get("prism"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CondensedError(f"'{path}' is not a condensed set, or is truncated: {error}.") from None
    expected = EXPECTED | (ONLY_UINT8 if "scale" in tensors or "minimum" in tensors else {})
    if set(tensors) != set(expected):
        raise CondensedError(f"'{path}' must hold the tensors {sorted(expected)}, but holds {sorted(tensors)}.")
    for name, (dtypes, rank) in expected.items():
        tensor = tensors[name]
        if tensor.dtype not in dtypes or tensor.dim() != rank:
            raise CondensedError(
                f"'{path}' has a tensor '{name}' of {tensor.dtype} and shape {tuple(tensor.shape)}."
            )
    is_uint8 = tensors["keyframes"].dtype == torch.uint8
    lengths = {len(tensors[name]) for name in expected if name in ("keyframes", *ONLY_UINT8)}
    if is_uint8 != ("scale" in tensors) or len(lengths) != 1:
        raise CondensedError(
            f"'{path}' must hold a scale and a minimum for each uint8 key-frame, and for no other."
        )
    return metadata, tensors


def _parse_metadata(path: Path, text: str | None) -> dict[str, Any]:
    if text is None:
        raise CondensedError(f"'{path}' is a safetensors file, but not a condensed set: it has no PRISM metadata.")
    try:
        metadata = parse_json(text)
    except ValueError:
        raise CondensedError(f"'{path}' has metadata that is not JSON.") from None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise CondensedError(f"'{path}' is not a condensed set: its metadata does not say format '{FORMAT}'.")
    if metadata.get("version") != VERSION:
        raise CondensedError(
            f"'{path}' has format version {metadata.get('version')!r}, but this PRISM reads {VERSION}. "
            "Update prism-condense."
        )
    return metadata
