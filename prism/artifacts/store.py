"""ClipStore: the clips of a data set as one memory-mapped file and an index. `docs/formats.md` has every byte."""

import csv
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from prism.artifacts.kinds import STORE, check_format, kind_of
from prism.config import as_path, short_repr
from prism.errors import ArtifactError, ConfigError
from prism.machine.files import file_sha256
from prism.machine.text_io import canonical_json, csv_text, parse_json, read_text, typed

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from prism.artifacts.clips import Clips, Normalisation

FORMAT, VERSION = "prism-clip-store", 1
Split = Literal["train", "val", "test"]
StoreSplit = Literal[Split, "test-random"]
SPLITS = get_args(StoreSplit)
"""Splits in the order of a store. The optional test-random has random windows of each test video."""
ENTRIES = ("cache", "clips.csv", "damaged.csv", "frames.u8", "skipped.csv", "store.json")
"""Files and folders of a store; `prism.artifacts.cache` writes the folder `cache`."""


@dataclass(frozen=True)
class ClipSource:
    """Source of a clip: the video's path under the source, the window in video frames, and the recording.

    `recording` is empty if the path alone gives it. Videos of one recording look alike.
    """

    split: str
    label: str
    path: str
    start: int
    stride: int
    video_frames: int
    recording: str = ""


def has_group(pattern: Any) -> bool:
    """Whether a pattern of recordings is empty, or a regular expression with a group (…)."""
    try:
        return not pattern or re.compile(pattern).groups > 0
    except (re.error, TypeError, OverflowError, RecursionError):
        return False


@dataclass(frozen=True)
class StoreHeader:
    """The content of `store.json`, apart from the format's name and version."""

    num_frames: int
    size: tuple[int, int]
    classes: tuple[str, ...]
    splits: dict[str, int]
    num_skipped: int
    flip: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]
    settings: dict[str, Any]
    sha256: dict[str, str]

    def __post_init__(self) -> None:
        checks = {
            "num_frames": 2 <= self.num_frames <= 4096,
            "size": all(1 <= side <= 4096 for side in self.size),
            "classes": len(self.classes) >= 2 and list(self.classes) == ordered_classes(self.classes),
            "splits": {*self.splits, "test-random"} == {*SPLITS},
            "mean": len(self.mean) == 3 and all(0 <= mean <= 1 for mean in self.mean),
            "std": len(self.std) == 3 and all(0 < std <= 1 for std in self.std),
            "settings": has_group(self.settings.get("group_pattern")),
            "sha256": self.sha256.keys() == {"clips.csv", "frames.u8"},
        }
        if wrong := [name for name, is_good in checks.items() if not is_good]:
            raise ValueError(f"'{wrong[0]}' is {short_repr(getattr(self, wrong[0]))}")

    def to_json(self) -> str:
        return canonical_json({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=1) + "\n"


def ordered_classes(names: Iterable[str]) -> list[str]:
    """Distinct class names in the order of their labels: by number if all are numbers, else as texts."""
    ordered = sorted(set(names))
    if all(re.fullmatch(r"[+-]?\d+(\.\d+)?", name, re.ASCII) for name in ordered):
        ordered.sort(key=float)
    return ordered


COLUMNS = get_type_hints(ClipSource)
"""Columns of `clips.csv` with their types; the last column, `recording`, is left out if it is empty everywhere."""
UCF_RECORDING = r"_(g\d+)_c\d+"
"""Pattern of the recording in file names like UCF101's: `_g01_c02` is clip 2 of recording 1."""


def recording_in(path: str, pattern: str) -> str:
    """The recording in a path, the first group of a pattern; empty if the pattern does not match."""
    match = re.search(pattern, path) if pattern else None
    return (match and match[1]) or ""


def clips_csv(sources: Iterable[ClipSource]) -> str:
    sources = list(sources)
    columns = list(COLUMNS) if any(source.recording for source in sources) else list(COLUMNS)[:-1]
    return csv_text(columns, ([getattr(source, key) for key in columns] for source in sources))


class ClipStore:
    """A data set of real clips, which are read from disk when they are needed.

    Open one with `ClipStore.open(path)`, or make one with `prism.ingest`.

    Attributes:
        classes: the class names (`ordered_classes`); a label is a position among them.
        num_frames: frames per clip (T).
        size: height and width in pixels.
        flip: whether a horizontal flip keeps the labels.
        splits: the splits of the store, in the order of `SPLITS`; any but train may be empty.
        clip_bytes: bytes of one clip (uint8).
        name: name of the data set as given to `ingest`; else the name of the folder.
    """

    def __init__(self, path: Path, header: StoreHeader, sources: Sequence[ClipSource]) -> None:
        # The absolute path, for when the working folder changes.
        self.path, self.place = path, Path(os.path.abspath(path))
        self.header, self.sources = header, sources
        self.classes, self.flip = header.classes, header.flip
        self.num_frames, self.size = header.num_frames, header.size
        self.splits = tuple(split for split in SPLITS if split in header.splits)
        self.clip_bytes = 3 * header.num_frames * header.size[0] * header.size[1]
        self.name = str(header.settings.get("name") or path.resolve().name)
        self._stamp = _stamp(self.place)

    @classmethod
    def open(cls, path: str | Path, verify: bool = True) -> "ClipStore":
        """The store in a folder.

        Args:
            verify: compare the clips with their checksum, about a second per gigabyte.

        Raises:
            ArtifactError: the folder is no store, or its format is newer, or a part of it is missing or changed.
        """
        path = as_path(path, "a clip store, or its folder,")
        stamp, header = _stamp(path), _read_header(path)
        for name, is_checked in (("clips.csv", True), ("frames.u8", verify)):
            if not (path / name).is_file():
                raise ArtifactError(f"store '{path}' has lost its {name}. Ingest it again.")
            if is_checked and file_sha256(path / name) != header.sha256[name]:
                raise ArtifactError(f"store '{path}' has a changed {name}: its checksum differs. Ingest it again.")
        store = cls(path, header, _read_sources(path, header))
        store._stamp = stamp
        expected, found = len(store) * store.clip_bytes, (path / "frames.u8").stat().st_size
        if found != expected:
            raise ArtifactError(f"store '{path}' has {found} bytes of frames, but its index needs {expected}.")
        return store

    @classmethod
    def of(cls, store: "ClipStore | str | Path") -> "ClipStore":
        """A store unchanged; or the store in a folder, opened and verified."""
        return store if isinstance(store, ClipStore) else cls.open(store)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled by its place: another process or machine opens the files there and compares the fingerprint.
        return _arrived, (str(self.place), self.fingerprint)

    def __len__(self) -> int:
        return len(self.sources)

    def __repr__(self) -> str:
        return f"ClipStore({str(self.path)!r}: {self.contents})"

    @property
    def contents(self) -> str:
        """Classes, clips and shape, in a few words."""
        counts = ", ".join(f"{len(self.positions(split))} {split}" for split in self.splits)
        return f"{len(self.classes)} classes, {counts}, {self.num_frames}×{self.size[0]}×{self.size[1]}"

    @cached_property
    def normalisation(self) -> "Normalisation":
        """Mean and deviation of the training pixels."""
        from prism.artifacts.clips import Normalisation

        return Normalisation(self.header.mean, self.header.std)

    @cached_property
    def fingerprint(self) -> str:
        """Digest (SHA-256) of clips, index, class names, flip and normalisation."""
        header, checksums = self.header, self.header.sha256
        content = [checksums["frames.u8"], checksums["clips.csv"], list(self.classes), self.flip]
        return hashlib.sha256(canonical_json([*content, header.mean, header.std]).encode()).hexdigest()

    @cached_property
    def labels(self) -> "Tensor":
        """(N,) int64 class indices of all clips."""
        import torch

        index = {name: label for label, name in enumerate(self.classes)}
        return torch.tensor([index[source.label] for source in self.sources], dtype=torch.int64)

    @cached_property
    def _frames(self) -> "Tensor":
        import numpy as np
        import torch

        self.check_unchanged()
        # Copy-on-write keeps the file unchanged, and torch does not warn about read-only memory.
        shape = (len(self), self.num_frames, 3, *self.size)
        frames = np.memmap(self.place / "frames.u8", np.uint8, mode="c", shape=shape)
        self.check_unchanged()
        return torch.from_numpy(frames)

    def check_unchanged(self) -> None:
        """Raise an ArtifactError if place, size or time of the files have changed since the store was opened."""
        if _stamp(self.place) != self._stamp:
            said = f"store '{self.path}' was changed, replaced or moved while it was being used"
            raise ArtifactError(f"{said}. Nothing that was made of it since is saved: start again.")

    def positions(self, split: str) -> range:
        """The positions of a split's clips; they are contiguous."""
        if split not in SPLITS:
            raise ConfigError(f"split = {split!r}, but it must be one of {', '.join(SPLITS)}.")
        start = sum(self.header.splits.get(name, 0) for name in SPLITS[: SPLITS.index(split)])
        return range(start, start + self.header.splits.get(split, 0))

    def clips(self, split: str) -> "Clips":
        """All clips of a split, else an ArtifactError; their frames stay on disk until they are read."""
        from prism.artifacts.clips import Clips

        at = self.positions(split)
        if not at:
            more = f"more videos of each class, or with a larger --{split}-fraction"
            remedy = "with --random-test-windows" if split == "test-random" else more
            raise ArtifactError(f"store '{self.path}' has no {split} clips. Ingest {remedy}.")
        return Clips(self._frames[at.start : at.stop], self.labels[at.start : at.stop], self.classes)

    @property
    def num_passes(self) -> int:
        """Number of random windows of each test video; 0 if the store has none."""
        return len(self.positions("test-random")) // max(1, len(self.positions("test")))

    def passes(self) -> "list[Clips]":
        """Random windows of the test videos, as `num_passes` items: item k has window k of every test video."""
        from prism.artifacts.clips import Clips

        every, num = self.clips("test-random"), self.num_passes
        return [Clips(every.frames[k::num], every.labels[k::num], every.classes) for k in range(num)]

    def recordings(self, split: str) -> list[tuple[str, str]]:
        """Class and recording of each clip of a split; without a recording in index or path, the path itself."""
        pattern, at = str(self.header.settings.get("group_pattern") or UCF_RECORDING), self.positions(split)
        own = self.sources[at.start : at.stop]
        return [(one.label, one.recording or recording_in(one.path, pattern) or one.path) for one in own]

    def counts(self, split: str) -> "Tensor":
        """(C,) int64, number of clips of each class in a split."""
        at = self.positions(split)
        return self.labels[at.start : at.stop].bincount(minlength=len(self.classes))

    def sample(self, num: int, generator: "Generator") -> "Tensor":
        """Positions of up to `num` different training clips of every class, drawn at random, grouped by class."""
        import torch

        at = self.positions("train")
        labels = self.labels[at.start : at.stop]
        # Sorting by label + a random fraction shuffles within the classes and keeps the classes in order.
        order = torch.argsort(labels + torch.rand(len(labels), generator=generator, dtype=torch.float64))
        return torch.cat([of_class[:num] for of_class in order.split(self.counts("train").tolist())])

    def require_vpc(self, vpc: int, option: str) -> None:
        """Raise a ConfigError if a class has fewer than `vpc` training clips."""
        fewest, name = min(zip(self.counts("train").tolist(), self.classes, strict=True))
        if fewest < vpc:
            said = f"{option} = {vpc}, but class '{name}' has only {fewest} for training"
            smaller = f"Pass a smaller --{option.rpartition('.')[2].replace('_', '-')}"
            raise ConfigError(f"{said}. {smaller}, or ingest more clips per video.")


def _arrived(path: str, fingerprint: str) -> ClipStore:
    store = _opened(path, _stamp(Path(path)))
    if store.fingerprint != fingerprint:
        what = f"store '{path}' holds other clips here than where the run was begun."
        raise ArtifactError(f"{what} All machines of a run must see the same files.")
    return store


@lru_cache(maxsize=2)
def _opened(path: str, stamp: object) -> ClipStore:
    # Cached, so that a process opens and verifies a store only once while the files stay unchanged.
    return ClipStore.open(path)


def _stamp(path: Path) -> object:
    """Place, size and time of the files that must not change; None if one is missing."""
    try:
        found = [(path / name).stat() for name in ("store.json", "clips.csv", "frames.u8")]
    except (OSError, ValueError):  # A ValueError for a path with a zero byte, which a result may name.
        return None
    return tuple((file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns) for file in found)


def _read_header(path: Path) -> StoreHeader:
    if (kind := kind_of(path)) != STORE:
        raise ArtifactError(f"'{path}' is {kind}, not a clip store. Make one with prism ingest.")
    try:
        content = parse_json(read_text(path / "store.json"))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"store '{path}' has an unreadable store.json: {error}.") from None
    check_format(content, FORMAT, VERSION, path / "store.json")
    try:
        del content["format"], content["version"]
        return typed(StoreHeader, content)
    except ValueError as problem:
        raise ArtifactError(f"store '{path}' has a store.json whose {problem}. Ingest it again.") from None


def _read_sources(path: Path, header: StoreHeader) -> list[ClipSource]:
    """Rows of `clips.csv`, whose checksum was compared before; ArtifactError if they contradict the header."""
    try:
        with (path / "clips.csv").open(encoding="utf-8", newline="") as file:
            rows = ({"recording": ""} | row for row in csv.DictReader(file))
            sources = [ClipSource(*(kind(row[key]) for key, kind in COLUMNS.items())) for row in rows]
        labels = {name: label for label, name in enumerate(header.classes)}
        order = [(SPLITS.index(source.split), labels[source.label]) for source in sources]
    except (KeyError, TypeError, ValueError, csv.Error, OSError) as error:
        raise ArtifactError(f"store '{path}' has an unreadable clips.csv: {error!r}.") from None
    if Counter(source.split for source in sources) != Counter(header.splits):
        raise ArtifactError(f"store '{path}' lists other clips in clips.csv than store.json counts.")
    if order != sorted(order):
        raise ArtifactError(f"store '{path}' has clips that are not sorted by split and class.")
    tests, again = ([(s.label, s.path) for s in sources if s.split == name] for name in ("test", "test-random"))
    if again != [video for video in tests for _ in range(len(again) // len(tests))]:
        raise ArtifactError(f"store '{path}' has random windows of its test videos, but not as many of each.")
    return sources
