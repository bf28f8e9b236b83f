"""The index of a store: `store.json`, its header, and `clips.csv`, where each of its clips comes from."""

import csv
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from prism.artifacts.kinds import check_format, kind_of
from prism.errors import ArtifactError
from prism.machine.text_io import canonical_json, csv_text, parse_json, read_text

FORMAT = "prism-clip-store"
VERSION = 1
SPLITS = ("train", "val", "test", "test-random")
"""In the order of the store. Only some stores have test-random: several random windows of each test video."""
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


def ordered_classes(names: Iterable[str]) -> list[str]:
    """Different class names in the order of their labels: as numbers where all of them are, else as texts."""
    ordered = sorted(set(names))
    if all(re.fullmatch(r"[+-]?\d+(\.\d+)?", name, re.ASCII) for name in ordered):
        ordered.sort(key=float)
    return ordered


def clips_csv(sources: Iterable[ClipSource]) -> str:
    """The text of `clips.csv`."""
    return csv_text(CLIP_COLUMNS, ([getattr(source, column) for column in CLIP_COLUMNS] for source in sources))


def read_header(path: Path) -> StoreHeader:
    """Read and check the `store.json` of a store.

    Raises:
        ArtifactError: there is no store, or its `store.json` is of a newer format or inconsistent.
    """
    if not path.exists():
        raise ArtifactError(f"store '{path}' does not exist.")
    if not path.is_dir():
        raise ArtifactError(f"'{path}' is {kind_of(path)}, not a clip store. Make one with prism ingest.")
    if not (path / "store.json").is_file():
        raise ArtifactError(f"'{path}' is not a clip store: it has no store.json. Make one with prism ingest.")
    try:
        content = parse_json(read_text(path / "store.json"))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"store '{path}' has an unreadable store.json: {error}.") from None
    foreign = f"'{path}' is not a clip store: its store.json"
    check_format(content, FORMAT, VERSION, ArtifactError, foreign, f"store '{path}'", ", or ingest it again")
    try:
        return _checked_header(content)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"store '{path}' has an inconsistent store.json: {error}.") from None


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
    # Stores of before numbers were ordered as such have them as texts.
    orders = sorted(set(header.classes)), ordered_classes(header.classes)
    check(header.classes in orders, "classes are not sorted and different")
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


def read_sources(path: Path, header: StoreHeader) -> list[ClipSource]:
    """Read the `clips.csv` of a store, whose checksum has passed, and hold it against its header.

    Raises:
        ArtifactError: it is unreadable, or says otherwise than the header.
    """
    # The checksum has passed: a fault here is a fault of the writer, so any of them means the same.
    try:
        with (path / "clips.csv").open(encoding="utf-8", newline="") as file:
            rows = ([row[name] for name in CLIP_COLUMNS] for row in csv.DictReader(file))
            sources = [
                ClipSource(split, label, video, int(start), int(stride), int(count))
                for split, label, video, start, stride, count in rows
            ]
    except (KeyError, TypeError, ValueError, csv.Error, OSError) as error:
        raise ArtifactError(f"store '{path}' has an unreadable clips.csv: {error!r}.") from None
    if Counter(source.split for source in sources) != Counter(header.splits):
        raise ArtifactError(f"store '{path}' lists other clips in clips.csv than store.json counts.")
    labels = {name: label for label, name in enumerate(header.classes)}
    if unknown := {source.label for source in sources} - labels.keys():
        raise ArtifactError(f"store '{path}' has clips of class {min(unknown)!r}, which store.json does not name.")
    order = [(SPLITS.index(source.split), labels[source.label]) for source in sources]
    if order != sorted(order):
        raise ArtifactError(f"store '{path}' has clips that are not sorted by split and class.")
    tests, again = ([(s.label, s.path) for s in sources if s.split == name] for name in ("test", "test-random"))
    if again != [video for video in tests for _ in range(len(again) // len(tests))]:
        raise ArtifactError(f"store '{path}' has random windows of its test videos, but not as many of each.")
    return sources
