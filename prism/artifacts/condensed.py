"""CondensedSet: a few videos for each class, as the key-frames or the parts that they are rendered from.

One safetensors file holds everything: the tensors of an encoding (`prism.artifacts.encodings`), the labels, and
one JSON text of metadata. Nothing in it depends on the clock or the host. Reading it runs no code.
`docs/formats.md` specifies every byte.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, prod
from pathlib import Path
from threading import Lock
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from prism.artifacts.clips import Clips, Normalisation, as_pixels, as_positions
from prism.artifacts.encodings import ENCODINGS, Encoding, KeyFrameEncoding, reading_problem, tensor_problem
from prism.artifacts.encodings.encoding import checked
from prism.artifacts.encodings.storages import Float32, Storage, UInt8, encoded
from prism.artifacts.kinds import SET, TENSORS, check_format, kind_of
from prism.artifacts.store import ClipStore
from prism.config import as_path, short_repr
from prism.errors import ArtifactError, ClipError, ConfigError
from prism.machine.files import write_atomically
from prism.machine.free_memory import available_memory_bytes
from prism.machine.provenance import versions
from prism.machine.text_io import canonical_json, parse_json

FORMAT = "prism-condensed-set"
VERSION = 1

DECODING = Lock()
"""Networks that are trained side by side ask for takes at the same time: the first decodes them for all."""


@dataclass(frozen=True, eq=False)
class CondensedSet:
    """Synthetic or selected videos, in fewer numbers than their clips have; equal where their files would be.

    Attributes:
        encoding: what is stored of all videos, and how it renders to clips.
        labels: (V,) int64 class indices, ascending.
        classes: the class names.
        normalisation: mean and deviation of the real training pixels, for networks trained on this set.
        flip: whether a horizontal flip keeps the labels.
        source: how the set was made: method, configuration, seed, versions, fingerprint of the store.
        takes: clips that each video stands for, side by side in the encoding; one is drawn when it is rendered.
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
        if self.takes < 1:
            raise ArtifactError(f"a video must stand for one take or more, got {self.takes}.")
        if problem := self.encoding.problem(self.stored_clips) or self._problem():
            raise ArtifactError(f"inconsistent condensed set: {problem}.")

    def _problem(self) -> str | None:
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
        """What it holds and takes, in a few words."""
        height, width = self.size
        videos = f"{len(self)} videos" + (f" of {self.takes} takes" if self.takes > 1 else "")
        held = f"{len(self.classes)} classes, {videos}, {self.num_keyframes} key-frames"
        held += f", {self.num_frames}×{height}×{width}"
        return f"{held}, {self.storage}, {self.num_bytes:,} bytes"

    @property
    def num_frames(self) -> int:
        """Frames of a rendered clip (T)."""
        return self.encoding.clip_shape[0]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.encoding.clip_shape[1:]

    @property
    def storage(self) -> str:
        """Number format of the stored images, or their codec."""
        return self.encoding.storage

    @property
    def stored_clips(self) -> int:
        """Clips that the set holds: one for each video, but where a video has takes."""
        return len(self) * self.takes

    @property
    def is_random(self) -> bool:
        """Whether a video stands for several clips, one of which is drawn whenever it is rendered."""
        return self.takes > 1 or self.encoding.is_random

    @property
    def float32_bytes(self) -> int:
        """Bytes as the paper counts them: every stored value as float32, indices ignored."""
        return self.encoding.num_values * 4

    @cached_property
    def num_bytes(self) -> int:
        """Bytes of the file that was read or written; of the one that would be, where there is none yet."""
        return len(self.to_bytes())

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything in the set: SHA-256, 64 hexadecimal digits."""
        return self.metadata["sha256"]

    @property
    def mask(self) -> Tensor:
        """(V, T) bool, True at frames of each video's first take that are stored as they are."""
        return self.encoding.mask[:: self.takes]

    @property
    def keyframe_counts(self) -> Tensor:
        """(V,) int64, colour images stored for all takes of each video: key-frames or static images."""
        return self.encoding.keyframe_counts.view(-1, self.takes).sum(dim=1)

    @property
    def num_keyframes(self) -> int:
        """Colour images stored for all videos."""
        return int(self.keyframe_counts.sum())

    def render(self, videos: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """The clips that the stored images stand for (paper, equation 3).

        All videos take part in a draw, so that a video's clip does not depend on which others are rendered.

        Args:
            videos: (n,) positions of the videos to render; all by default.
            generator: draws, where a video stands for several clips; None always gives the same one of them.

        Returns:
            (n, T, C, H, W) float32 pixels in units of [0, 1] (synthetic ones may exceed it).

        Raises:
            ClipError: the positions are no whole numbers.
            ArtifactError: compressed images are not what the set says of them.
        """
        chosen = torch.arange(len(self)) if videos is None else as_positions(videos)
        places = torch.arange(0, self.stored_clips, self.takes)
        if generator is not None and self.takes > 1:
            places = places + torch.randint(self.takes, places.shape, generator=generator)
            if (decoded := self._decoded) is not None:
                return decoded[places[chosen]]
        return self.encoding.render(places[chosen], self.normalisation, generator)

    @property
    def _decoded(self) -> Tensor | None:
        """All takes as clips, once for all epochs; None where they are draws, or fill a quarter of the memory."""
        with DECODING:
            return self._decoded_once

    @cached_property
    def _decoded_once(self) -> Tensor | None:
        num_bytes = self.stored_clips * 4 * 3 * prod(self.encoding.clip_shape)
        if self.encoding.is_random or num_bytes > (available_memory_bytes(torch.device("cpu")) or 0) / 4:
            return None
        return self.encoding.render(torch.arange(self.stored_clips), self.normalisation, None)

    def __getstate__(self) -> dict[str, Any]:
        # Clips that were decoded may be many times as large as the set: they are decoded again where it arrives.
        return {key: value for key, value in vars(self).items() if key != "_decoded_once"}

    def clips(self, generator: torch.Generator | None = None) -> Clips:
        """All rendered clips with their labels; `generator` like in `render`."""
        return Clips(self.render(generator=generator), self.labels, self.classes)

    def apart(self) -> "CondensedSet":
        """The same clips, each of them a video of its own: a video with n takes becomes n videos."""
        return replace(self, labels=self.labels.repeat_interleave(self.takes), takes=1)

    @classmethod
    def from_clips(
        cls,
        clips: Clips,
        store: ClipStore,
        *,
        method: str,
        seed: int | None = None,
        storage: Storage | None = None,
        **options: int | float | str | bool,
    ) -> "CondensedSet":
        """A set of videos that were made elsewhere, with every frame a key-frame, as a rival of PRISM's own.

        Args:
            clips: the videos, uint8 or in units of [0, 1] (they may exceed it), in any order, one or more of each
                class of the store, on any device. Gradients are left behind.
            store: the data set that they were made of; it says how networks normalise and whether they flip.
            method: how they were made, as tables and pages name it.
            seed: of their making. Sets of one method that differ in their seed alone are compared as one group.
            storage: how the frames are written; as `Float32` by default, as `UInt8` where they are uint8.
            options: what else they were made by, recorded beside the seed.

        Raises:
            ArtifactError: classes, length or size are not the store's, or a class has no video.
            ConfigError: the method or an option is no plain value, or the storage cannot hold the frames.
        """
        for what, found, wanted in (
            ("classes", tuple(clips.classes), store.classes),
            ("frames", clips.num_frames, store.num_frames),
            ("height and width", clips.size, store.size),
        ):
            if found != wanted:
                raise ArtifactError(
                    f"{what} of the clips are {short_repr(found)}, but the store has {short_repr(wanted)}."
                )
        counts = clips.labels.bincount(minlength=len(store.classes))
        if missing := (counts == 0).nonzero().flatten().tolist():
            raise ArtifactError(f"the clips have no video of class '{store.classes[missing[0]]}'.")
        made = {**({} if seed is None else {"seed": seed}), **options}
        if seed is not None and type(seed) is not int:
            raise ConfigError(f"seed = {short_repr(seed)}, but it must be a whole number.")
        for name, value in {"method": method, **made}.items():
            if not isinstance(value, bool | int | str) and not (isinstance(value, float) and isfinite(value)):
                raise ConfigError(
                    f"{name} = {short_repr(value)}, but it must be a finite number, a text, True or False."
                )
        labels, order = clips.labels.cpu().sort(stable=True)
        frames = clips.frames.detach().cpu()[order]
        keep = storage or (UInt8() if frames.dtype == torch.uint8 else Float32())
        encoding = encoded(keep, as_pixels(frames), torch.ones(frames.shape[:2], dtype=torch.bool))
        source = {"method": method, "config": made, "versions": versions(), "store": store.fingerprint}
        return cls(encoding, labels, store.classes, store.normalisation, store.flip, source)

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        tensors = {**self.encoding.tensors(), "labels": self.labels.to(torch.int32)}
        return {name: tensor.contiguous() for name, tensor in tensors.items()}

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
            **self.encoding.metadata(),
            **({"takes": self.takes} if self.takes != 1 else {}),
        }
        return {**content, "sha256": _digest(content, self._tensors)}

    def to_bytes(self) -> bytes:
        """The whole file; equal sets give equal bytes."""
        return safetensors.torch.save(self._tensors, metadata={"prism": canonical_json(self.metadata)})

    def save(self, path: str | Path) -> None:
        """Write the set, or leave what stood under its name before.

        Raises:
            ArtifactError: the encoding is such that the file could not be read again.
            OutputError: the file cannot be written, or the disk is full.
        """
        if problem := reading_problem(self.encoding):
            raise ArtifactError(f"'{path}' cannot be written: {problem}.")
        data = self.to_bytes()
        write_atomically(Path(path), data)
        vars(self)["num_bytes"] = len(data)

    @classmethod
    def load(cls, path: str | Path, encodings: Iterable[type[Encoding]] = ()) -> "CondensedSet":
        """Read a set; a stranger's file is safe to open.

        Args:
            path: the file.
            encodings: those that it may have beside PRISM's own. A file cannot make PRISM import one.

        Raises:
            ArtifactError: the file is missing, damaged, foreign, inconsistent or of a newer format.
        """
        path = as_path(path, "a condensed set, or its file,")
        known = {encoding.NAME: encoding for encoding in (*ENCODINGS, *encodings)}
        kind, metadata, tensors = _read(path, known)
        try:
            content = {key: value for key, value in metadata.items() if key != "sha256"}
            if metadata["sha256"] != _digest(content, tensors):
                raise ArtifactError("its checksum differs: the file was damaged or edited.")
            num_frames = checked(metadata["num_frames"], int)
            height, width = checked(metadata["size"], list, int)
            condensed = cls(
                kind.from_tensors(tensors, metadata),
                tensors["labels"].long(),
                tuple(checked(metadata["classes"], list, str)),
                Normalisation(*(tuple(checked(metadata[key], list, float)) for key in ("mean", "std"))),
                checked(metadata["flip"], bool),
                checked(metadata["source"], dict),
                checked(metadata.get("takes", 1), int),
            )
            if condensed.encoding.clip_shape != (num_frames, height, width):
                raise ArtifactError("its metadata names another size or length than its tensors have.")
            # Another writer's header may be longer than ours.
            vars(condensed)["num_bytes"] = path.stat().st_size
            return condensed
        except (ArtifactError, ClipError) as error:
            raise ArtifactError(f"'{path}': {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArtifactError(f"'{path}' is not a valid condensed set: {error}.") from None


def _digest(content: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(canonical_json(content).encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().data)
    return digest.hexdigest()


def _read(
    path: Path, known: Mapping[str, type[Encoding]]
) -> tuple[type[Encoding], dict[str, Any], dict[str, Tensor]]:
    if not path.exists():
        raise ArtifactError(f"'{path}' does not exist.")
    try:
        if (kind := kind_of(path)) not in (SET, TENSORS):
            raise ArtifactError(
                f"'{path}' is {kind}, not a condensed set. prism condense and prism select make one."
            )
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = _parse_metadata(path, (file.metadata() or {}).get("prism"))
            # Sets of key-frames, the first kind, do not name theirs.
            name = metadata.get("encoding", KeyFrameEncoding.NAME)
            # A stranger's name may be of a type that no mapping can look up.
            if name not in list(known):
                raise ArtifactError(
                    f"'{path}' has the encoding {name!r}, but this PRISM reads {', '.join(known)}. "
                    "Update prism-condense, or if the encoding is somebody's own, read it in Python with "
                    "CondensedSet.load(path, encodings=[…])."
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(f"'{path}' is not a condensed set, or is truncated: {error}.") from None
    if problem := tensor_problem(known[name], tensors):
        raise ArtifactError(f"'{path}' {problem}.")
    return known[name], metadata, tensors


def _parse_metadata(path: Path, text: str | None) -> dict[str, Any]:
    if text is None:
        raise ArtifactError(f"'{path}' is a safetensors file, but not a condensed set: it has no PRISM metadata.")
    try:
        metadata = parse_json(text)
    except ValueError:
        raise ArtifactError(f"'{path}' has metadata that is not JSON.") from None
    foreign = f"'{path}' is not a condensed set: its metadata"
    check_format(metadata, FORMAT, VERSION, ArtifactError, foreign, f"'{path}'")
    return metadata
