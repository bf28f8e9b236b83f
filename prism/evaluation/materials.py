"""What networks are trained on: a condensed set, or the clips of a store; and how a result records it."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from prism.artifacts.clips import Clips
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Subject, relative_to_result
from prism.artifacts.store import ClipStore
from prism.errors import ArtifactError, ConfigError
from prism.evaluation.options import JudgeConfig
from prism.machine.randomness import generator
from prism.networks.training import Draw

RENDERING = Lock()
TRAIN_STORE = "a store to train on (--train STORE, in Python train_store=)"


@dataclass(frozen=True)
class SetMaterial:
    """A condensed set, as a whole for every seed; its clips are drawn anew in every epoch if it is random."""

    condensed: CondensedSet
    path: Path | None

    def __reduce__(self) -> tuple[Any, ...]:
        # A set in a file travels as its place, and is read and compared where it arrives.
        if self.path is None:
            return SetMaterial, (self.condensed, None)
        return _arrived, (self.path.absolute(), self.condensed.fingerprint)

    def clips(self, seed: int) -> Clips | Draw:
        """The clips for the network of a seed, the same for all seeds."""
        if self.condensed.is_random:
            return self.condensed.clips
        # All trials ask at once, and each would render a copy of its own.
        with RENDERING:
            return self._rendered

    @cached_property
    def _rendered(self) -> Clips:
        return self.condensed.clips()

    def check_unchanged(self) -> None:
        """Nothing: the set is in memory."""


def _arrived(path: Path, fingerprint: str) -> SetMaterial:
    condensed = CondensedSet.load(path)
    if condensed.fingerprint != fingerprint:
        raise ArtifactError(
            f"'{path}' holds another set here than where the run was begun. All machines of a run must see "
            "the same files."
        )
    return SetMaterial(condensed, path)


@dataclass(frozen=True)
class StoreMaterial:
    """The training clips of a store: all, or `train_vpc` random ones of each class, anew for each seed."""

    store: ClipStore
    train_vpc: int

    def clips(self, seed: int) -> Clips:
        """The clips for the network of a seed."""
        everything = self.store.clips("train")
        if not self.train_vpc:
            return everything
        return everything.subset(self.store.sample(self.train_vpc, generator(seed, "subset")))

    def check_unchanged(self) -> None:
        """Refuse clips that were changed since they were opened.

        Raises:
            ArtifactError: they were.
        """
        self.store.check_unchanged()


Material = SetMaterial | StoreMaterial
"""The clips that networks are trained on."""


def set_material(
    condensed: CondensedSet | str | Path, store: ClipStore, config: JudgeConfig, output: Path | None
) -> tuple[SetMaterial, Subject]:
    """A condensed set as networks are trained on it, and as the result at `output` records it.

    Raises:
        ConfigError: the set does not fit the store or the options.
    """
    given = condensed
    condensed = given if isinstance(given, CondensedSet) else CondensedSet.load(given)
    file = None if isinstance(given, CondensedSet) else Path(given)
    _check_same_shape(condensed, store, "the condensed set")
    if config.train_vpc:
        raise ConfigError(
            f"{config.section}.train_vpc needs {TRAIN_STORE}; a condensed set is trained on as a whole."
        )
    source, made_by, made_from = (condensed.source, *map(condensed.source.get, ("config", "store")))
    subject = Subject(
        "condensed",
        relative_to_result(file, output) if file else "",
        str(source.get("method", "unknown")),
        len(condensed),
        condensed.num_keyframes,
        condensed.num_bytes,
        condensed.float32_bytes,
        made_by if isinstance(made_by, dict) else {},
        condensed.fingerprint,
        condensed.stored_clips,
        # A set of another tool does not say where its clips are from.
        made_from if isinstance(made_from, str) and not store.is_source(made_from) else "",
        videos=replace(condensed, source={}).fingerprint,
    )
    return SetMaterial(condensed, file), subject


def store_material(
    source: ClipStore, store: ClipStore, config: JudgeConfig, output: Path | None
) -> tuple[Material, Subject]:
    """The training clips of a store, and as the result at `output` records them.

    Raises:
        ConfigError: they do not fit the store that is scored, or the options.
    """
    _check_same_shape(source, store, "the store to train on")
    source.require_vpc(max(1, config.train_vpc), f"{config.section}.train_vpc")
    material = StoreMaterial(source, config.train_vpc)
    counts = source.counts("train")
    num_clips = int((counts.clamp(max=config.train_vpc) if config.train_vpc else counts).sum())
    num_bytes = num_clips * source.clip_bytes
    subject = Subject(
        "store",
        relative_to_result(source.path, output),
        "subset" if config.train_vpc else "full",
        num_clips,
        num_clips * source.num_frames,
        num_bytes,
        4 * num_bytes,
        {},
        source.fingerprint,
        shared_videos=0 if source.fingerprint == store.fingerprint else num_shared(source, store, config.split),
    )
    return material, subject


def num_shared(source: ClipStore, store: ClipStore, split: str) -> int:
    """The videos of a split that seem to be among the training videos of another store.

    They have the class, the path and the length of one of these, as after another cut of the splits, or the pixels
    of one of their clips. A video of another name, of which other frames are stored, is not seen.
    """
    named, shown = set(_videos(source, "train")), set(_digests(source, "train"))
    clips = zip(_videos(store, split), _digests(store, split), strict=True)
    return len({video for video, digest in clips if video in named or digest in shown})


def _videos(store: ClipStore, split: str) -> Iterator[tuple[str, str, int]]:
    for place in store.positions(split):
        found = store.sources[place]
        yield found.label, found.path, found.video_frames


def _digests(store: ClipStore, split: str) -> Iterator[bytes]:
    if store.positions(split):
        for clip in store.clips(split).frames:
            yield hashlib.blake2b(clip.numpy().tobytes()).digest()


def _check_same_shape(source: CondensedSet | ClipStore, store: ClipStore, what: str) -> None:
    if set(source.classes) != set(store.classes):
        other = min(set(source.classes) ^ set(store.classes))
        raise ConfigError(
            f"{what} and the data '{store.path}' have different classes: only one of them has '{other}'. "
            f"Name the store that {what} belongs to with --data."
        )
    if source.classes != store.classes:
        # Labels are positions in this order.
        raise ConfigError(
            f"{what} has the classes of the data '{store.path}' in another order: {', '.join(source.classes)}. "
            f"The data has {', '.join(store.classes)}."
        )
    for name in ("num_frames", "size"):
        ours, theirs = getattr(source, name), getattr(store, name)
        if ours != theirs:
            option = f"--{name.replace('_', '-')} {source.size[0] if name == 'size' else ours}"
            raise ConfigError(
                f"{what} has {name} = {ours}, but the data '{store.path}' has {theirs}. "
                f"Ingest the data again with {option}."
            )
