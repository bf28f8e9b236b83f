"""CondensedSet: a few videos for each class, stored as the key-frames or parts from which they are rendered.

One safetensors file holds everything: the tensors of an encoding (`prism.artifacts.encodings`), the labels, and
JSON metadata without clock or host. Reading a file runs no code from it. `docs/formats.md` has every byte.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from prism.artifacts import STORAGES
from prism.artifacts.clips import Clips, Normalisation, as_pixels
from prism.artifacts.encodings import Encoding, problem_of
from prism.artifacts.encodings.sparse import H264, KeyFrameEncoding, Yuv420
from prism.artifacts.encodings.static_dynamic import StaticDynamicEncoding
from prism.artifacts.kinds import SET, STORE, TENSORS, check_format, kind_of
from prism.artifacts.store import ClipStore
from prism.config import as_path
from prism.errors import ArtifactError, ClipError, ConfigError, PrismError
from prism.machine.files import lock, write_atomically
from prism.machine.provenance import versions
from prism.machine.text_io import canonical_json, parse_json, typed

FORMAT, VERSION = "prism-condensed-set", 1
ENCODINGS: tuple[type[Encoding], ...] = (KeyFrameEncoding, StaticDynamicEncoding, H264, Yuv420)
Tensors = dict[str, Tensor]
MAX_SIDE, MAX_CLIP_VALUES = 4096, 2**28  # 1 GiB as float32: 64 frames of 1180×1180 pixels.
MOST_MEAN = 4.0
"""Largest mean absolute pixel in units of [0, 1]; above it pixels are taken to be in 0..255 by mistake."""


@dataclass(frozen=True)
class SetHeader:
    """Metadata of a set's file, without format, version and checksum; the file leaves defaults out."""

    classes: tuple[str, ...]
    num_frames: int
    size: tuple[int, int]
    flip: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: dict[str, Any]
    encoding: str = KeyFrameEncoding.NAME
    scale: int = 1
    takes: int = 1


@dataclass(frozen=True, eq=False)
class CondensedSet:
    """Synthetic or selected videos, stored in fewer numbers than their clips have; equal if their files are equal.

    Attributes:
        encoding: the stored tensors of all videos, and the rendering of clips from them.
        labels: (V,) int64 class indices, ascending.
        classes: the class names.
        normalisation: mean and deviation of the real training pixels, for networks trained on this set.
        flip: whether a horizontal flip keeps the labels.
        source: how the set was made: method, configuration, seed, versions, fingerprint of the store.
        takes: clips of each video, side by side in the encoding; rendering a video draws one of them.
    """

    encoding: Encoding
    labels: Tensor
    classes: tuple[str, ...]
    normalisation: Normalisation
    flip: bool
    source: dict[str, Any] = field(default_factory=dict)
    takes: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", self.labels.long())
        if problem := self._problem():
            raise ArtifactError(f"inconsistent condensed set: {problem}.")

    def _problem(self) -> str | None:
        if not 1 <= self.takes < 2**31:
            return f"a video must stand for one take or more, got {self.takes}"
        num_frames, (height, width) = self.num_frames, self.size
        is_fit = 2 <= num_frames <= MAX_SIDE and 1 <= min(height, width) <= max(height, width) <= MAX_SIDE
        if not is_fit or num_frames * 3 * height * width > MAX_CLIP_VALUES:
            return f"PRISM renders no clips of {num_frames}×{height}×{width}"
        if problem := problem_of(self.encoding, self.stored_clips):
            return problem
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            return "there must be two or more classes with different names"
        if not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            return f"labels must lie in 0..{len(self.classes) - 1}"
        return "labels must ascend" if bool((self.labels.diff() < 0).any()) else None

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"CondensedSet({self.contents})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CondensedSet) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @property
    def contents(self) -> str:
        takes = f" of {self.takes} takes" if self.takes > 1 else ""
        held = f"{len(self.classes)} classes, {len(self)} videos{takes}, {self.num_keyframes} key-frames"
        shape = f"{self.num_frames}×{self.size[0]}×{self.size[1]}"
        return f"{held}, {shape}, {self.encoding.storage}, {self.num_bytes:,} bytes"

    @property
    def num_frames(self) -> int:
        """Frames of a rendered clip (T)."""
        return self.encoding.num_frames

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.encoding.size

    @property
    def stored_clips(self) -> int:
        """Clips that the set stores: one for each take of each video."""
        return len(self) * self.takes

    @property
    def is_random(self) -> bool:
        """Whether a video stands for several clips, of which each rendering draws one."""
        return self.takes > 1 or self.encoding.is_random

    @property
    def float32_bytes(self) -> int:
        """Bytes as the paper counts them: every stored value as float32, indices ignored."""
        return self.encoding.num_values * 4

    @cached_property
    def num_bytes(self) -> int:
        """Bytes of the file."""
        return len(self.to_bytes())

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything in the set: SHA-256, 64 hexadecimal digits."""
        return self.metadata["sha256"]

    @property
    def mask(self) -> Tensor:
        """(V, T) bool, True at the frames of each video's first take that are stored, not interpolated."""
        return self.encoding.mask[:: self.takes]

    @property
    def keyframe_counts(self) -> Tensor:
        """(V,) int64, number of colour images (key-frames or static images) stored for all takes of each video."""
        return self.encoding.keyframe_counts.view(-1, self.takes).sum(dim=1)

    @property
    def num_keyframes(self) -> int:
        """Number of colour images stored for all videos."""
        return int(self.keyframe_counts.sum())

    def render(self, videos: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Rendered clips (n, T, C, H, W), float32 in units of [0, 1] or beyond (paper, equation 3).

        Args:
            videos: (n,) positions of the videos to render, or a mask; all by default.
            generator: draws one clip of a video that stands for several; with None it is always the same clip.
        """
        # Takes are drawn for all videos, so that a video's clip does not depend on which others are rendered.
        places = torch.arange(0, self.stored_clips, self.takes)
        if generator is not None and self.takes > 1:
            places = places + torch.randint(self.takes, places.shape, generator=generator)
        return self.encoding.render(places if videos is None else places[videos], self.normalisation, generator)

    def clips(self, generator: torch.Generator | None = None) -> Clips:
        """All rendered clips with their labels; `generator` like in `render`."""
        return Clips(self.render(generator=generator), self.labels, self.classes)

    def unenlarged(self) -> "CondensedSet":
        """The set with clips of the size of its key-frames, whose stored pixels `render` then gives exactly."""
        held, (height, width) = self.encoding, self.size
        size = height // held.scale, width // held.scale
        return replace(self, encoding=held.holding(held.tensors, held.num_frames, size))

    def apart(self) -> "CondensedSet":
        """The same clips with each take as a video: a video with n takes becomes n videos."""
        return replace(self, labels=self.labels.repeat_interleave(self.takes), takes=1)

    @classmethod
    def from_clips(
        cls,
        clips: Clips,
        store: ClipStore | str | Path,
        *,
        method: str,
        seed: int | None = None,
        storage: Encoding | str | None = None,
        **options: int | float | str | bool,
    ) -> "CondensedSet":
        """A set of videos from another tool, every frame a key-frame, to compare with PRISM's own sets.

        Args:
            clips: the videos, uint8 in 0..255 or floats in units of [0, 1] (synthetic ones may exceed it), in any
                order, one or more of each class of the store.
            store: the data set that the videos were made from, or its folder; it gives normalisation and flip.
            method: name of the method in tables and on pages.
            seed: seed of the videos; sets that differ only in their seed form one group.
            options: further options of the method, to be recorded.
            storage: encoding of the frames, or its name; by default `uint8` for uint8 frames, else `float32`.

        Raises:
            ArtifactError: classes, length or size differ from the store's, or a class has no video.
            ClipError: the pixels are not finite, or are floats in 0..255.
            ConfigError: an option cannot be recorded, the seed is no integer, or `storage` is no encoding.
        """
        store = ClipStore.of(store)
        if tuple(clips.classes) != store.classes:
            raise ArtifactError("classes of the clips are not those of the store, or in another order.")
        shape, wanted = (clips.num_frames, *clips.size), (store.num_frames, *store.size)
        if shape != wanted:
            raise ArtifactError(f"clips have (T, H, W) = {shape}, but the store has {wanted}.")
        if missing := (clips.labels.bincount(minlength=len(store.classes)) == 0).nonzero().flatten().tolist():
            raise ArtifactError(f"the clips have no video of class '{store.classes[missing[0]]}'.")
        made: dict[str, Any] = {"method": method, **options} | ({} if seed is None else {"seed": seed})
        made = {key: _as_value(key, value) for key, value in made.items()}
        if type(method) is not str or type(made.get("seed", 0)) is not int:
            raise ConfigError(f"method = {method!r}, seed = {seed!r}, but they must be a text and a whole number.")
        labels, order = clips.labels.cpu().sort(stable=True)
        frames = clips.frames.detach().cpu()[order]
        pixels = as_pixels(frames)
        if not (mean := float(pixels.abs().mean())) <= MOST_MEAN:
            raise ClipError(f"frames have a mean of {mean:.3g}, but they must be finite, and floats lie in 0..1.")
        exact = "uint8" if frames.dtype == torch.uint8 else "float32"
        kept: Encoding = STORAGES.make(exact if storage is None else storage)
        source = {"method": made.pop("method"), "config": made, "versions": versions(), "store": store.fingerprint}
        return cls(kept.with_frames(pixels), labels, store.classes, store.normalisation, store.flip, source)

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        tensors = {**self.encoding.tensors, "labels": self.labels.to(torch.int32)}
        return {name: tensor.contiguous() for name, tensor in tensors.items()}

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the file, with a checksum over metadata and tensors."""
        encoding, shown = self.encoding, self.normalisation
        clips = self.num_frames, self.size, self.flip, shown.mean, shown.std
        header = SetHeader(self.classes, *clips, self.source, encoding.NAME, encoding.scale, self.takes)
        written = {key: value for key, value in vars(header).items() if value != getattr(SetHeader, key, None)}
        content = {"format": FORMAT, "version": VERSION, **written}
        return {**content, "sha256": _digest(content, self._tensors)}

    def to_bytes(self) -> bytes:
        """The bytes of the file; equal sets give equal bytes."""
        return safetensors.torch.save(self._tensors, metadata={"prism": canonical_json(self.metadata)})

    def save(self, path: str | Path) -> None:
        """Write the set to a file; if that fails, an older file of that name stays.

        Raises:
            BusyError: another run is writing the file.
        """
        with lock(path):
            write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path, encodings: Iterable[type[Encoding]] = ()) -> "CondensedSet":
        """The set in a file, which may be untrusted: it cannot make PRISM import a custom encoding.

        Raises:
            ArtifactError: the file is missing, damaged, foreign, inconsistent or of a newer format.
        """
        path = as_path(path, "a condensed set, or its file,")
        kind, content, tensors = _read(path, {kind.NAME: kind for kind in (*ENCODINGS, *encodings)})
        if content.pop("sha256", None) != _digest(content, tensors):
            raise ArtifactError(f"'{path}' was damaged or edited: its checksum differs.")
        try:
            header = typed(SetHeader, {key: content[key] for key in content if key not in ("format", "version")})
            labels, shown = tensors.pop("labels"), Normalisation(header.mean, header.std)
            encoding = kind().holding(tensors, header.num_frames, header.size, header.scale)
            return cls(encoding, labels, header.classes, shown, header.flip, header.source, header.takes)
        except (PrismError, ValueError, RuntimeError) as error:
            what = "" if isinstance(error, PrismError) else "not a valid condensed set: "
            raise ArtifactError(f"'{path}': {what}{str(error).rstrip('.')}.") from None


def _as_value(name: str, value: Any) -> Any:
    """A value that JSON can hold, with NumPy's numbers as Python's; else a ConfigError."""
    value = value.tolist() if type(value).__module__ == "numpy" else value
    try:
        canonical_json(value).encode()
    except (TypeError, ValueError):
        raise ConfigError(f"{name} = {value!r:.200}, but it must be a number or a text.") from None
    return value


def _digest(content: dict[str, Any], tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(canonical_json(content).encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _read(path: Path, known: Mapping[str, type[Encoding]]) -> tuple[type[Encoding], dict[str, Any], Tensors]:
    try:
        if (kind := kind_of(path)) not in (SET, TENSORS):
            how = "prism condense or select makes one"
            how += ", and evaluate --train takes a store" if kind == STORE else ""
            raise ArtifactError(f"'{path}' is {kind}, not a condensed set. {how}.")
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = parse_json((file.metadata() or {}).get("prism", "{}"))
            check_format(metadata, FORMAT, VERSION, path)
            # A damaged name may be of a type that no mapping can look up.
            if (name := metadata.get("encoding", KeyFrameEncoding.NAME)) not in list(known):
                said = f"'{path}' has the encoding {name!r}, but this PRISM reads {', '.join(known)}."
                own = "evaluate(CondensedSet.load(path, encodings=[…]), …)"
                raise ArtifactError(f"{said} Update, or read a custom one in Python, as in {own}.")
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(f"'{path}' is not a condensed set, or is truncated: {error}.") from None
    labels = tensors.get("labels", torch.empty(0))
    if labels.dtype != torch.int32 or labels.dim() != 1:
        raise ArtifactError(f"'{path}' has no tensor 'labels' of int32.")
    return known[name], metadata, tensors
