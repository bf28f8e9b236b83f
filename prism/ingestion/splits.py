"""The videos of a source, each with its class and its split: as the source names it, or cut with a seed.

Whole recordings are set apart: clips of one recording look alike, so a recording on both sides would make
a network that remembers places look as if it knew actions.
"""

import hashlib
import os
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from prism.artifacts.kinds import STORE, kind_of
from prism.artifacts.store import SPLITS, ordered_classes
from prism.errors import ConfigError, SourceError
from prism.ingestion.listing import (
    IMAGE_SUFFIXES,
    LINKED_FOLDER,
    LOOSE,
    MISSING,
    NESTED,
    OUTSIDE,
    SPLIT_NAMES,
    VIDEO_SUFFIXES,
    Listing,
    VideoSource,
    few,
)
from prism.ingestion.options import LAYOUTS, IngestConfig
from prism.machine.files import file_sha256
from prism.machine.randomness import derive_seed

LINKED_OUT = "it is a link that leaves the source."
POINTER = "it is the text of a link, or a Git LFS pointer: copy the video there, or fetch it with git lfs pull."
FOLLOW = " --follow-links reads what lies behind links; or copy it (cp -rL)."
MOVE = " Move them into the folders of their classes, or name them in a .csv list."
BEGINNING = 65536
"""Bytes of a file that are compared first."""
NAMED = r"_(g\d+)_c\d+"
"""The recording in names like those of UCF101: clip 2 of recording 1 is `_g01_c02`."""


def list_videos(source: Path, config: IngestConfig | None = None) -> Listing:
    """Find the videos of a source with the layout that the options name.

    Args:
        source: a folder, or a CSV file whose paths are relative to its own folder.
        config: options of `prism ingest`; the defaults for None.

    Returns:
        The listing, its videos sorted by their relative path.

    Raises:
        SourceError: the source is missing, has no videos, or its lists are missing or faulty.
        ConfigError: the layout gives no listing.
    """
    config = config or IngestConfig()
    if not source.exists():
        raise SourceError(f"source '{source}' does not exist.")
    if source.is_dir() and kind_of(source) == STORE:
        raise SourceError(f"source '{source}' is a clip store already. Name the videos that it was made from.")
    if source.is_file() and source.suffix.lower() != ".csv":
        raise SourceError(
            f"source '{source}' is a file, but it must be a folder of videos or a .csv list of them."
        )
    listing = LAYOUTS.make(config.layout, config).videos_of(source)
    check_listing(listing, LAYOUTS.name_of(config.layout))
    again = _keep_files(listing, config.follow_links)
    if lost := sorted(listing.labels.keys() - {video.label for video in listing.videos}):
        path = min(listing.labels[label] for label in lost)
        links = {LINKED_OUT, LINKED_FOLDER} & {*listing.skipped.values()}
        raise SourceError(
            f"classes of which no video can be used: {_counted(lost)}. '{path}' is skipped: "
            f"{listing.skipped[path]}{FOLLOW * bool(links)}"
        )
    if not listing.videos:
        raise SourceError(_none_found(source, listing, config))
    listing.videos.sort(key=lambda video: video.relative)
    listing.notes.extend(_left_out(listing, again))
    return listing


def check_listing(listing: Any, layout: str) -> None:
    """Refuse what only a custom layout gives: another thing than a listing, or a video without a place in it."""
    if not isinstance(listing, Listing):
        given = type(listing).__name__
        raise ConfigError(f"layout {layout} gives a {given}, not a Listing. docs/extending.md shows one.")
    seen = Counter(video.relative for video in listing.videos)
    for video in listing.videos:
        if video.split not in ("", *SPLIT_NAMES.values()):
            problem = f"the split {video.split!r}, but it must be one of train, val, test, or empty"
        elif not isinstance(video.label, str) or not video.label:
            problem = f"the class {video.label!r}, but it must be a text"
        elif seen[video.relative] > 1:
            problem = "more than one place, but a video is listed once"
        else:
            continue
        raise SourceError(f"layout {layout} gives '{video.relative}' {problem}.")


def _keep_files(listing: Listing, follow_links: bool) -> list[str]:
    """Skip videos that are missing, leave the source by a link, or are a file that has another name as well.

    Returns:
        The other names.
    """
    root, folders = os.path.join(os.path.realpath(listing.root), ""), dict[str, str]()
    files, links = list[tuple[str, VideoSource]](), list[tuple[str, VideoSource]]()
    for video in listing.videos:
        # As os.path.realpath, but each folder is looked up once.
        folder, name = os.path.split(video.path)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        real = os.path.join(folders[folder], name)
        is_link = os.path.islink(real)
        real = os.path.realpath(real) if is_link else real
        if not follow_links and not real.startswith(root):
            listing.skipped[video.relative] = LINKED_OUT
        elif not os.path.exists(real):
            listing.skipped[video.relative] = "it is a link that leads nowhere." if is_link else MISSING
        elif _is_pointer(real):
            listing.skipped[video.relative] = POINTER
        else:
            (links if is_link else files).append((real, video))
    first, again = dict[str, VideoSource](), list[str]()
    for real, video in (*files, *links):
        if first.setdefault(real, video) is not video:
            again.append(video.relative)
            listing.skipped[video.relative] = f"it is the file of '{first[real].relative}' by another name."
    listing.videos = list(first.values())
    return again


def _is_pointer(path: str) -> bool:
    """Whether a file is what a checkout without links, or without Git LFS, has in the place of a video."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode) or not 0 < found.st_size < 1000:
        return False
    with suppress(OSError, UnicodeDecodeError, ValueError):
        text = Path(path).read_text(encoding="utf-8")
        is_place = "/" in text and os.path.exists(os.path.join(os.path.dirname(path), text.strip()))
        return is_place or text.startswith("version https://git-lfs.github.com/")
    return False


def _left_out(listing: Listing, again: list[str]) -> Iterator[str]:
    """A sentence for each reason for which names of the source, or of its lists, are no videos of the store."""
    capitals = Counter(label.casefold() for label in {video.label for video in listing.videos})
    alike = sorted({video.label for video in listing.videos if capitals[video.label.casefold()] > 1})
    for what, names, advice in (
        ("links that leave the source are skipped", _skipped(listing, LINKED_OUT), FOLLOW),
        ("folders that are links are not searched", _skipped(listing, LINKED_FOLDER), FOLLOW),
        ("videos in folders within class folders are skipped", _skipped(listing, NESTED), MOVE),
        ("videos in none of the split folders are skipped", _skipped(listing, OUTSIDE), MOVE),
        ("videos beside the class folders, whose class is not known, are skipped", _skipped(listing, LOOSE), MOVE),
        ("files are no videos, but pointers to some", _skipped(listing, POINTER), ""),
        ("listed videos are missing", _skipped(listing, MISSING), ""),
        ("videos that no list names are left out", sorted(listing.unlisted), ""),
        ("files with several names are used once, without the names", again, ""),
        ("folders of classes without a video, which are no part of the task", listing.empty, ""),
        ("classes whose names differ only in capitals are different ones", alike, ""),
    ):
        if names:
            yield f"Caution: {what}: {_counted(names)}.{advice}"
    if listing.unread:
        yield f"Passed over in class folders, as no videos: {_suffixes(listing.unread)}."


def _skipped(listing: Listing, reason: str) -> list[str]:
    return sorted(path for path, given in listing.skipped.items() if given == reason)


def _counted(names: Sequence[str]) -> str:
    return f"{len(names):,} ({few([repr(name) for name in names])})"


def _suffixes(names: Iterable[str]) -> str:
    """How many names have each suffix, the most frequent first."""
    counts = Counter(PurePosixPath(name).suffix.lower() or "without a suffix" for name in names)
    return few([f"{count:,} {suffix}" for suffix, count in counts.most_common()])


def _none_found(source: Path, listing: Listing, config: IngestConfig) -> str:
    """What to do about a source in which a layout finds no video."""
    if not LAYOUTS.is_builtin(config.layout):
        return f"layout {LAYOUTS.name_of(config.layout)} finds no videos in source '{source}'."
    if nested := _skipped(listing, NESTED):
        above = {(source / path).parents[1] for path in nested}
        name = f" Name '{above.pop()}', the folder above the classes." if len(above) == 1 else ""
        return f"source '{source}' has no videos in class folders, but deeper: {_counted(nested)}.{name}{MOVE}"
    if loose := _skipped(listing, LOOSE):
        is_ucf = any(re.match(r"v_\w+_g\d+_c\d+\.", path) for path in loose)
        hint = " --layout ucf101 reads names like these with its lists." * is_ucf
        return f"source '{source}' has no class folders, but videos: {_counted(loose)}.{MOVE}{hint}"
    others = [name for _, _, files in os.walk(source) for name in files] if source.is_dir() else []
    instead = f", but other files ({_suffixes(others)})" if others else ""
    return (
        f"source '{source}' has no videos{instead}. Expected <class>/<video> with {', '.join(VIDEO_SUFFIXES)}, or "
        f"<class>/<video>/ with frames as {', '.join(IMAGE_SUFFIXES)}."
    )


def split_videos(listing: Listing, config: IngestConfig) -> list[VideoSource]:
    """Give every video of a listing its split, and add cautions on the splits to the listing's notes.

    Returns:
        The videos in the order of a store.

    Raises:
        SourceError: as in `assign_splits`.
    """
    try:
        videos = assign_splits(listing.videos, config)
    except SourceError as error:
        left = ((path, why) for path, why in listing.skipped.items() if why in (LINKED_FOLDER, NESTED))
        raise SourceError(str(error) + next((f" '{path}' is skipped: {why}" for path, why in left), "")) from None
    labels = {name: label for label, name in enumerate(ordered_classes(video.label for video in videos))}
    videos.sort(key=lambda video: (SPLITS.index(video.split), labels[video.label], video.relative))
    listing.notes.extend(_cautions(listing.videos, videos, config))
    return videos


def assign_splits(videos: Iterable[VideoSource], config: IngestConfig) -> list[VideoSource]:
    """Give every video its split: the source's own, else one cut from train with a seed.

    The test split is cut first and validation from what is left, each by class and by recording; a class
    with a single recording keeps it in train.

    Raises:
        SourceError: there are fewer than two classes, a class has no training video, or the group pattern
            does not match a path.
    """
    videos = [replace(video, split=video.split or "train") for video in videos]
    labels = {video.label for video in videos}
    if len(labels) < 2:
        found = f"only class '{min(labels)}'" if labels else "no class"
        raise SourceError(f"the source has {found}, but it takes at least two classes to tell apart.")
    if lost := sorted(labels - {video.label for video in videos if video.split == "train"}):
        raise SourceError(f"classes with videos in other splits, but none in train: {_counted(lost)}.")
    for split, share in (("test", config.test_fraction), ("val", config.val_fraction)):
        if share and not any(video.split == split for video in videos):
            videos = _cut(videos, split, share, config)
    return videos


def _cut(videos: list[VideoSource], split: str, share: float, config: IngestConfig) -> list[VideoSource]:
    """Move a share of the training recordings of each class to a split, at least one where two exist."""
    recordings: dict[str, set[tuple[str, str]]] = defaultdict(set)
    keys = [
        (video.label, recording(video, config.group_pattern)) if video.split == "train" else None
        for video in videos
    ]
    for key in filter(None, keys):
        recordings[key[0]].add(key)
    moved = set[tuple[str, str] | None]()
    for found in recordings.values():
        wanted = max(1, round(share * len(found)))
        order = sorted(found, key=lambda key: derive_seed(config.seed, split, *key))
        moved.update(order[: min(wanted, len(found) - 1)])
    return [
        replace(video, split=split) if key in moved else video for video, key in zip(videos, keys, strict=True)
    ]


def recording(video: VideoSource, pattern: str) -> str:
    """The recording that a video is from: by the pattern, else as the source names it, else the video itself.

    Raises:
        SourceError: the pattern does not match the path.
    """
    if not pattern:
        return video.recording or video.relative
    if name := _named(video, pattern):
        return name
    raise SourceError(
        f"group pattern '{pattern}' finds no recording in path '{video.relative}'. Rename it or move it away, or "
        "name the videos in a .csv list with a column group."
    )


def _named(video: VideoSource, pattern: str) -> str:
    """The recording that a pattern finds in a path; empty where it finds none."""
    match = re.search(pattern, video.relative)
    return (match and match[1]) or ""


def _cautions(listed: Sequence[VideoSource], videos: Sequence[VideoSource], config: IngestConfig) -> Iterator[str]:
    """Sentences on test videos that were set apart, on recordings in several splits, and on copies in these.

    Args:
        listed: the videos with the splits that the source names.
        videos: the same with all their splits.
        config: the options; what is cut by a group pattern is cut whole, as where the source names recordings.
    """
    if not any(video.split == "test" for video in listed):
        num_test = sum(video.split == "test" for video in videos)
        said = (
            f"{num_test:,} are set apart from train" if num_test else "none is set apart, so nothing can be scored"
        )
        why = "" if num_test or not config.test_fraction else " Every class has a single video or recording."
        yield f"The source names no test videos: {said}.{why}"
    pattern, cut = config.group_pattern, {video.split for video in videos} - {video.split for video in listed}
    alike = "have clips in more than one split. They look alike, so scores will be too high."
    groups = _splits_of(
        (video, _named(video, pattern) if pattern else video.recording) for video in listed if video.split
    )
    named = _splits_of((video, "" if pattern or video.recording else _named(video, NAMED)) for video in videos)
    if parted := sum(len(splits) > 1 for splits in groups.values()):
        who = "the group pattern" if pattern else "the source"
        yield f"Caution: {parted:,} of {len(groups):,} recordings that {who} names {alike}"
    elif parted := sum(len(splits) > 1 and bool(splits & cut) for splits in named.values()):
        yield (
            f"Caution: {parted:,} of {len(named):,} recordings (named as in _g01_c02) {alike} Set recordings "
            "apart whole with --group-pattern '_(g\\d+)_'."
        )
    yield from _copies(videos)


def _splits_of(videos: Iterable[tuple[VideoSource, str]]) -> dict[tuple[str, str], set[str]]:
    """The splits in which each recording of a class has clips; videos without one are left out."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for video, name in videos:
        if name:
            found[video.label, name].add(video.split)
    return found


def _copies(videos: Sequence[VideoSource]) -> Iterator[str]:
    """A caution where files of different splits hold the same bytes; folders of frames and links are not compared.

    Few files are read: those of one size, and of these those that begin alike.
    """
    alike = [list(videos)]
    for content in (_size, _beginning, file_sha256):
        alike = [part for group in alike for part in _parted(group, content)]
    copies = [(group[0], video) for group in alike for video in group if video.split != group[0].split]
    if copies:
        first, copy = copies[0]
        yield (
            f"Caution: videos that are copies of one in another split, byte for byte: {len(copies):,}, such as "
            f"'{copy.relative}' ({copy.split}) of '{first.relative}' ({first.split}). A network is then scored on "
            "what it has seen. Remove one."
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
