"""Cutting videos into training, validation and test where the source does not.

Whole recordings are set apart: clips of one recording look alike, so a recording on both sides would make
a network that remembers places look as if it knew actions.
"""

import hashlib
import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from prism.artifacts.store import SPLITS, ordered_classes
from prism.errors import SourceError
from prism.ingestion.listing import VideoSource
from prism.ingestion.options import IngestConfig
from prism.machine.files import file_sha256
from prism.machine.randomness import derive_seed

BEGINNING = 65536
"""Bytes of a file that are compared first."""
NAMED = r"_(g\d+)_c\d+"
"""The recording in names like those of UCF101: clip 2 of recording 1 is `_g01_c02`."""


def in_order(videos: Iterable[VideoSource], config: IngestConfig) -> list[VideoSource]:
    """The videos with their splits, in the order of a store; errors like in `assign_splits`."""
    found = assign_splits(videos, config)
    labels = {name: label for label, name in enumerate(ordered_classes(video.label for video in found))}
    return sorted(found, key=lambda video: (SPLITS.index(video.split), labels[video.label], video.relative))


def assign_splits(videos: Iterable[VideoSource], config: IngestConfig) -> list[VideoSource]:
    """Give every video its split: the source's own, else one cut from train with a seed.

    The test split is cut first and validation from what is left, each by class and by recording; a class
    with a single recording keeps it in train.

    Raises:
        SourceError: there are fewer than two classes, a class has no training video, or the group pattern
            does not match a path.
    """
    videos = [replace(video, split=video.split or "train") for video in videos]
    splits_of: dict[str, set[str]] = defaultdict(set)
    for video in videos:
        splits_of[video.label].add(video.split)
    if len(splits_of) < 2:
        found = f"only class '{min(splits_of)}'" if splits_of else "no class"
        raise SourceError(f"the source has {found}, but it takes at least two classes to tell apart.")
    for label, splits in sorted(splits_of.items()):
        if "train" not in splits:
            raise SourceError(f"class '{label}' has videos in {' and '.join(sorted(splits))}, but none in train.")
    for split, share in (("test", config.test_fraction), ("val", config.val_fraction)):
        if not any(video.split == split for video in videos):
            videos = _cut(videos, split, share, config)
    return videos


def _cut(videos: list[VideoSource], split: str, share: float, config: IngestConfig) -> list[VideoSource]:
    """Move a share of the training recordings of each class to a split, at least one where two exist."""
    if share == 0:
        return videos
    recordings: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for video in videos:
        if video.split == "train":
            recordings[video.label].add((video.label, recording(video, config.group_pattern)))
    moved = set[tuple[str, str]]()
    for found in recordings.values():
        wanted = max(1, round(share * len(found)))
        order = sorted(found, key=lambda key: derive_seed(config.seed, split, *key))
        moved.update(order[: min(wanted, len(found) - 1)])
    return [
        replace(video, split=split)
        if video.split == "train" and (video.label, recording(video, config.group_pattern)) in moved
        else video
        for video in videos
    ]


def recording(video: VideoSource, pattern: str) -> str:
    """The recording that a video is from: by the pattern, else as the source names it, else the video itself.

    Raises:
        SourceError: the pattern does not match the path.
    """
    if not pattern:
        return video.recording or video.relative
    match = re.search(pattern, video.relative)
    if match is None or match.group(1) is None:
        raise SourceError(
            f"group pattern '{pattern}' finds no recording in path '{video.relative}'. Rename it or move it away, "
            "or name the videos in a .csv list with a column group."
        )
    return match.group(1)


def said_of_tests(listed: Sequence[VideoSource], videos: Sequence[VideoSource], config: IngestConfig) -> str:
    """How many test videos were set apart, where the source names none; else nothing.

    Args:
        listed: the videos with the splits that the source names.
        videos: the same with all their splits.
        config: the options.
    """
    if any(video.split == "test" for video in listed):
        return ""
    num_test = sum(video.split == "test" for video in videos)
    said = f"{num_test} are set apart from train" if num_test else "none is set apart, so nothing can be scored"
    why = "" if num_test or not config.test_fraction else " Every class has a single video or recording."
    return f"The source names no test videos: {said}.{why}"


def said_of_recordings(listed: Sequence[VideoSource], videos: Sequence[VideoSource], config: IngestConfig) -> str:
    """A caution where a recording has clips in several of the source's splits, by the group pattern or else by a
    list that names it, or where names alone tell recordings and the splits that were cut part one; else nothing.

    Args:
        listed: the videos with the splits that the source names.
        videos: the same with all their splits.
        config: the options; what is cut by a group pattern is cut whole, as where the source names recordings.
    """
    pattern = config.group_pattern
    by_source = _splits_of(
        (video, _named(video, pattern) if pattern else video.recording) for video in listed if video.split
    )
    if parted := sum(len(splits) > 1 for splits in by_source.values()):
        who, whose = ("the group pattern", "the source's") if pattern else ("the source", "its")
        return (
            f"Caution: {parted:,} of {len(by_source):,} recordings that {who} names have clips in more than "
            f"one of {whose} splits. They look alike, so scores will be too high."
        )
    cut = {video.split for video in videos} - {video.split for video in listed}
    by_name = _splits_of((video, _named(video, NAMED)) for video in videos if not video.recording)
    parted = sum(len(splits) > 1 and bool(splits & cut) for splits in by_name.values())
    if pattern or not parted:
        return ""
    return (
        f"Caution: {parted:,} of {len(by_name):,} recordings (named as in _g01_c02) have clips in "
        "more than one split. They look alike, so scores will be too high. Set recordings apart whole with "
        "--group-pattern '_(g\\d+)_'."
    )


def _named(video: VideoSource, pattern: str) -> str:
    """The recording that a pattern finds in a path; empty where it finds none."""
    match = re.search(pattern, video.relative)
    return (match and match[1]) or ""


def _splits_of(videos: Iterable[tuple[VideoSource, str]]) -> dict[tuple[str, str], set[str]]:
    """The splits in which each recording of a class has clips; videos without one are left out."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for video, name in videos:
        if name:
            found[video.label, name].add(video.split)
    return found


def said_of_same_files(videos: Sequence[VideoSource]) -> Iterator[str]:
    """A caution where two names lead to one and the same file.

    Args:
        videos: all videos, with their splits.

    Raises:
        SourceError: the two are in different splits.
    """
    firsts: dict[str, VideoSource] = {}
    again: list[tuple[VideoSource, VideoSource]] = []
    for video in videos:
        first = firsts.setdefault(os.path.realpath(video.path), video)
        if first.split != video.split:
            raise SourceError(
                f"'{first.relative}' ({first.split}) and '{video.relative}' ({video.split}) are one and the same "
                "file. Keep one."
            )
        if first is not video:
            again.append((first, video))
    if again:
        first, video = again[0]
        yield (
            f"Caution: {len(again):,} of {len(videos):,} videos are the file of another one, such as "
            f"'{video.relative}' that of '{first.relative}'. It counts twice. Remove the link if it should not."
        )


def said_of_copies(videos: Sequence[VideoSource]) -> Iterator[str]:
    """A caution where files of different splits hold the same bytes.

    Few files are read: those of one size, and of these those that begin alike.

    Args:
        videos: all videos, with their splits; folders of frames and links are not compared.
    """
    alike = [list(videos)]
    for content in (_size, _beginning, file_sha256):
        alike = [part for group in alike for part in _parted(group, content)]
    copies = [(group[0], video) for group in alike for video in group if video.split != group[0].split]
    if copies:
        first, copy = copies[0]
        are = f"{len(copies):,} of {len(videos):,} videos are copies" if len(copies) > 1 else "a video is a copy"
        yield (
            f"Caution: {are} of one in another split, byte for byte, such as '{copy.relative}' ({copy.split}) and "
            f"'{first.relative}' ({first.split}). A network is then scored on what it has seen. Remove one."
        )


def _parted(videos: Sequence[VideoSource], content: Callable[[Path], object]) -> Iterator[list[VideoSource]]:
    """The videos of each content, where several splits have it; an empty or unreadable file has none."""
    found: dict[object, list[VideoSource]] = defaultdict(list)
    for video in videos:
        with suppress(OSError):
            if key := content(video.path):
                found[key].append(video)
    return (group for group in found.values() if len({video.split for video in group}) > 1)


def _size(path: Path) -> int:
    """In bytes; 0 of what is not opened: a link may leave the source, and a pipe would never end."""
    found = path.lstat()
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.sha256(file.read(BEGINNING)).digest()
