"""ClipStore: the clips of a data set as one memory-mapped file and an index.

    STORE/store.json    format version, shape, classes, splits, normalisation, settings, checksums
    STORE/clips.csv     a row for every clip: its class, split, source path and window
    STORE/frames.u8     uint8 (N, T, C, H, W), in the order of clips.csv
    STORE/skipped.csv   the videos that could not be used, each with its reason

Clips are sorted by split (train, val, test, test-random), class and path. `docs/formats.md` specifies every byte.
"""

import csv
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism.artifacts.kinds import kind_of
from prism.errors import ConfigError, StoreError
from prism.machine.files import file_sha256
from prism.machine.texts import canonical_json, csv_text, parse_json, read_text

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from prism.artifacts.clips import Clips, Normalisation

FORMAT = "prism-clip-store"
VERSION = 1
SPLITS = ("train", "val", "test", "test-random")
"""In the order of the store. Only some stores have test-random: several random windows of each test video."""
ENTRIES = ("cache", "clips.csv", "frames.u8", "skipped.csv", "store.json")
"""All that PRISM writes into a store; `cache` is that of `prism.artifacts.cache`."""
CLIP_COLUMNS = ("split", "label", "path", "start", "stride", "video_frames")


@dataclass(frozen=True)
class ClipSource:
    """Where a clip comes from: the video's path under the source, and its window in video frames."""

    split: str
    label: str
    path: str
    start: int
    stride: int
    video_frames: int


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

    def to_json(self) -> str:
        """The text of `store.json`."""
        return canonical_json({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=1) + "\n"


def clips_csv(sources: Iterable[ClipSource]) -> str:
    """The text of `clips.csv`."""
    return csv_text(CLIP_COLUMNS, ([getattr(source, column) for column in CLIP_COLUMNS] for source in sources))


class ClipStore:
    """A data set of real clips, read from disk as they are needed.

    Open one with `ClipStore.open(path)`, or make one with `prism.ingest`.
    """

    def __init__(self, path: Path, header: StoreHeader, sources: Sequence[ClipSource]) -> None:
        self.path = path
        self.header = header
        self.sources = sources
        self._stamp = _stamp(path)

    @classmethod
    def open(cls, path: str | Path, verify: bool = True) -> "ClipStore":
        """Open a store.

        Args:
            path: the store's folder.
            verify: compare the clips with their checksum, about a second per gigabyte.

        Raises:
            StoreError: there is no store, it is of a newer format, or a part of it is missing or changed.
        """
        path = Path(path)
        header = _read_header(path)
        for name in ("clips.csv", "frames.u8"):
            if not (path / name).is_file():
                raise StoreError(f"store '{path}' has lost its {name}. Ingest it again.")
        if file_sha256(path / "clips.csv") != header.sha256["clips.csv"]:
            raise StoreError(f"store '{path}' has a changed clips.csv (its checksum differs). Ingest it again.")
        store = cls(path, header, _read_sources(path, header))
        expected = len(store) * store.clip_bytes
        found = (path / "frames.u8").stat().st_size
        if found != expected:
            raise StoreError(f"store '{path}' has {found} bytes of frames, but its index needs {expected}.")
        if verify and file_sha256(path / "frames.u8") != header.sha256["frames.u8"]:
            raise StoreError(f"store '{path}' has changed frames (their checksum differs). Ingest it again.")
        return store

    @classmethod
    def of(cls, store: "ClipStore | str | Path") -> "ClipStore":
        """A store as it is, or opened and verified if its folder is given."""
        return store if isinstance(store, ClipStore) else cls.open(store)

    def __reduce__(self) -> tuple[Any, ...]:
        # A store travels to another process, or machine, as its place, and is opened and compared there.
        return _arrived, (os.path.abspath(self.path), self.fingerprint)

    def __len__(self) -> int:
        return len(self.sources)

    def __repr__(self) -> str:
        return f"ClipStore({str(self.path)!r}: {self.contents})"

    @property
    def contents(self) -> str:
        """What it holds, in a few words."""
        height, width = self.size
        counts = ", ".join(f"{len(self.positions(split))} {split}" for split in self.splits)
        return f"{len(self.classes)} classes, {counts}, {self.num_frames}×{height}×{width}"

    @property
    def name(self) -> str:
        """The name of the data set, where the ingest was given one; else that of the folder."""
        return str(self.header.settings.get("name") or self.path.resolve().name)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that this store has, in their order; any but the first may be empty."""
        return tuple(split for split in SPLITS if split in self.header.splits)

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, sorted; a label is a position in them."""
        return self.header.classes

    @property
    def num_frames(self) -> int:
        """Frames per clip (T)."""
        return self.header.num_frames

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.header.size

    @property
    def flip(self) -> bool:
        """Whether a horizontal flip keeps the labels."""
        return self.header.flip

    @property
    def clip_bytes(self) -> int:
        """Bytes of one clip in the store (uint8)."""
        return self.num_frames * 3 * self.size[0] * self.size[1]

    @cached_property
    def normalisation(self) -> "Normalisation":
        """Mean and deviation of the training pixels."""
        from prism.artifacts.clips import Normalisation

        return Normalisation(self.header.mean, self.header.std)

    @cached_property
    def fingerprint(self) -> str:
        """A digest that two stores share only if their clips, labels, splits and flip rule are equal."""
        checksums = self.header.sha256
        identity = [checksums["frames.u8"], checksums["clips.csv"], list(self.classes), self.flip]
        return hashlib.sha256(canonical_json(identity).encode()).hexdigest()

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

        height, width = self.size
        shape = (len(self), self.num_frames, 3, height, width)
        self.check_unchanged()
        # Copy-on-write keeps the file unchanged and spares torch's warning about read-only memory.
        frames = np.memmap(self.path / "frames.u8", np.uint8, mode="c", shape=shape)
        self.check_unchanged()
        return torch.from_numpy(frames)

    def check_unchanged(self) -> None:
        """Refuse clips that are no longer those that were opened, by their file's place, size and time.

        Raises:
            StoreError: the store was changed, replaced or moved since.
        """
        if _stamp(self.path) != self._stamp:
            raise StoreError(
                f"store '{self.path}' was changed, replaced or moved while it was being used. Nothing that was "
                "made of it since is saved; start again from a store that stays as it is."
            )

    def positions(self, split: str) -> range:
        """The positions of a split's clips; they are contiguous."""
        start = 0
        for name in SPLITS:
            count = self.header.splits.get(name, 0)
            if name == split:
                return range(start, start + count)
            start += count
        raise ConfigError(f"split = {split!r}, but it must be one of {', '.join(SPLITS)}.")

    def clips(self, split: str) -> "Clips":
        """All clips of a split; their frames stay on disk until they are read.

        Raises:
            StoreError: the split is empty.
        """
        from prism.artifacts.clips import Clips

        at = self.positions(split)
        if not at:
            remedy = "more videos of each class, or with a list that names their splits"
            raise StoreError(f"store '{self.path}' has no {split} clips. Ingest it again from {remedy}.")
        return Clips(self._frames[at.start : at.stop], self.labels[at.start : at.stop], self.classes)

    @property
    def num_passes(self) -> int:
        """Random windows of each test video; 0 where the store has none."""
        return len(self.positions("test-random")) // max(1, len(self.positions("test")))

    def passes(self) -> "list[Clips]":
        """All test videos as often as they have random windows, each time by another window of theirs.

        Returns:
            `num_passes` times as many clips as the test split has, in its order.

        Raises:
            StoreError: the store has no random windows of test videos.
        """
        from prism.artifacts.clips import Clips

        every, num = self.clips("test-random"), self.num_passes
        return [Clips(every.frames[k::num], every.labels[k::num], every.classes) for k in range(num)]

    def counts(self, split: str) -> "Tensor":
        """(C,) clips of each class in a split."""
        import torch

        at = self.positions(split)
        return torch.bincount(self.labels[at.start : at.stop], minlength=len(self.classes))

    def sample(self, num: int, generator: "Generator", split: str = "train") -> "Tensor":
        """Draw up to `num` different clips of every class.

        Returns:
            Positions in the split, int64, grouped by class; a class with fewer clips gives all it has.
        """
        import torch

        at = self.positions(split)
        labels = self.labels[at.start : at.stop]
        # Sorting by label + a random fraction shuffles within the classes and keeps them in order.
        order = torch.argsort(labels + torch.rand(len(labels), generator=generator, dtype=torch.float64))
        counts = self.counts(split)
        rank = torch.arange(len(labels)) - (counts.cumsum(0) - counts)[labels]
        return order[rank < num]

    def require_vpc(self, vpc: int, option: str) -> None:
        """Check that every class has at least `vpc` training clips.

        Raises:
            ConfigError: the first class that has fewer is named.
        """
        for name, count in zip(self.classes, self.counts("train").tolist(), strict=True):
            if count < vpc:
                raise ConfigError(
                    f"{option} = {vpc}, but class '{name}' has {count} training clips. "
                    f"Lower {option.rpartition('.')[2]}, or ingest more clips per video."
                )


def _arrived(path: str, fingerprint: str) -> ClipStore:
    """The store that another process has opened.

    Raises:
        StoreError: it is not there, or holds other clips.
    """
    return _opened(path, fingerprint, _stamp(Path(path)))


@lru_cache(maxsize=2)
def _opened(path: str, fingerprint: str, stamp: tuple[int, ...]) -> ClipStore:
    """Opened once in a process for all that it computes, until the files change."""
    store = ClipStore.open(path)
    if store.fingerprint != fingerprint:
        raise StoreError(
            f"store '{path}' holds other clips here than where the run was begun. All machines of a run must see "
            "the same files."
        )
    return store


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = (path / "frames.u8").stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _read_header(path: Path) -> StoreHeader:
    if not path.exists():
        raise StoreError(f"store '{path}' does not exist.")
    if not path.is_dir():
        raise StoreError(f"'{path}' is {kind_of(path)}, not a clip store. Make one with prism ingest.")
    if not (path / "store.json").is_file():
        raise StoreError(f"'{path}' is not a clip store: it has no store.json. Make one with prism ingest.")
    try:
        content = parse_json(read_text(path / "store.json"))
    except (OSError, ValueError) as error:
        raise StoreError(f"store '{path}' has an unreadable store.json: {error}.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise StoreError(f"'{path}' is not a clip store: its store.json does not say format '{FORMAT}'.")
    if content.get("version") != VERSION:
        raise StoreError(
            f"store '{path}' has format version {content.get('version')!r}, but this PRISM reads {VERSION}. "
            "Update prism-condense, or ingest it again."
        )
    try:
        return _checked_header(content)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"store '{path}' has an inconsistent store.json: {error}.") from None


def _checked_header(content: dict[str, Any]) -> StoreHeader:
    def check(allowed: bool, problem: str) -> None:
        if not allowed:
            raise ValueError(problem)

    def is_count(value: object) -> bool:
        return type(value) is int and 0 <= value < 2**40

    values = {key: value for key, value in content.items() if key not in ("format", "version")}
    header = StoreHeader(**values)
    check(is_count(header.num_frames) and 2 <= header.num_frames <= 4096, "num_frames is not in 2..4096")
    check(isinstance(header.size, list) and len(header.size) == 2, "size is not [height, width]")
    check(all(is_count(side) and 1 <= side <= 4096 for side in header.size), "size is not in 1..4096")
    check(isinstance(header.classes, list) and len(header.classes) >= 2, "classes are not two or more")
    check(all(isinstance(name, str) for name in header.classes), "a class name is not text")
    check(header.classes == sorted(set(header.classes)), "classes are not sorted and different")
    named = isinstance(header.splits, dict) and {*header.splits, "test-random"} == set(SPLITS)
    check(named, "splits are not train, val, test and perhaps test-random")
    check(all(is_count(count) for count in header.splits.values()), "a split's count is not a number")
    check(is_count(header.num_skipped), "num_skipped is not a count")
    check(type(header.flip) is bool, "flip is not true or false")
    for name, numbers in (("mean", header.mean), ("std", header.std)):
        valid = isinstance(numbers, list) and len(numbers) == 3 and all(type(x) is float for x in numbers)
        check(valid and all(0 <= x <= 1 for x in numbers), f"{name} is not three numbers in 0..1")
    check(min(header.std) > 0, "std is zero")
    check(isinstance(header.settings, dict), "settings are not a table")
    sums = header.sha256
    check(isinstance(sums, dict) and set(sums) == {"clips.csv", "frames.u8"}, "sha256 does not name the two files")
    # JSON has lists only.
    sequences = {name: tuple(values[name]) for name in ("size", "classes", "mean", "std")}
    return replace(header, **sequences)


def _read_sources(path: Path, header: StoreHeader) -> list[ClipSource]:
    # The checksum has passed: a fault here is a fault of the writer, so any of them means the same.
    try:
        with (path / "clips.csv").open(encoding="utf-8", newline="") as file:
            rows = ([row[name] for name in CLIP_COLUMNS] for row in csv.DictReader(file))
            sources = [
                ClipSource(split, label, video, int(start), int(stride), int(count))
                for split, label, video, start, stride, count in rows
            ]
    except (KeyError, TypeError, ValueError, csv.Error, OSError) as error:
        raise StoreError(f"store '{path}' has an unreadable clips.csv: {error!r}.") from None
    if Counter(source.split for source in sources) != Counter(header.splits):
        raise StoreError(f"store '{path}' lists other clips in clips.csv than store.json counts.")
    if unknown := {source.label for source in sources} - set(header.classes):
        raise StoreError(f"store '{path}' has clips of class {min(unknown)!r}, which store.json does not name.")
    order = [(SPLITS.index(source.split), source.label) for source in sources]
    if order != sorted(order):
        raise StoreError(f"store '{path}' has clips that are not sorted by split and class.")
    tests, again = ([(s.label, s.path) for s in sources if s.split == name] for name in ("test", "test-random"))
    if again != [video for video in tests for _ in range(len(again) // len(tests))]:
        raise StoreError(f"store '{path}' has random windows of its test videos, but not as many of each.")
    return sources
