"""Finding the videos of a source by the names of its folders, or by a CSV list.

Hidden files and files of other types are passed over. A link that leaves the source is listed as skipped,
because what it points to is not part of the data set that was named; so is a folder that is a link, because what
it holds would be there twice, and a video beside class folders or deeper than these, because its class is not
known. Published data sets are in `official`.
"""

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

from prism.artifacts.kinds import STORE, kind_of
from prism.errors import ConfigError, SourceError
from prism.ingestion.annotations import column_names, csv_rows
from prism.ingestion.listing import (
    VIDEO_SUFFIXES,
    Layout,
    Listing,
    VideoSource,
    are_frames,
    is_video,
    require_folder,
    videos_under,
)
from prism.ingestion.options import LAYOUTS, IngestConfig
from prism.machine.text_io import as_text, delimiter_of

SPLIT_NAMES = {"train": "train", "val": "val", "validation": "val", "test": "test"}
CSV_NEEDED, CSV_OPTIONAL = ("path", "label"), ("split", "group")
"""Columns that a list has, and that it may have."""
EXPECTED = (
    f"Expected <class>/<video> with {', '.join(VIDEO_SUFFIXES)}, or <class>/<video>/ with .jpg or .png frames."
)

LINKED = "it is a folder that is a link, which is not searched."
NESTED = "it lies in a folder within a class folder, which is not searched."
LOOSE = "it lies beside the class folders, so its class is not known."


def list_videos(source: Path, config: IngestConfig | None = None) -> Listing:
    """Find the videos of a source with the layout that the options name.

    Args:
        source: a folder, or a CSV file whose paths are relative to its own folder.
        config: options of `prism ingest`; the defaults for None.

    Returns:
        The listing, its videos sorted by their relative path.

    Raises:
        SourceError: the source is missing, has no videos, an annotation file is missing or wrong, or the list or
            the layout names an unknown split, no class, or a path that is there twice or outside of the source.
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
    listing = LAYOUTS.make(config.layout, config).videos_of(source, config)
    check_listing(listing, LAYOUTS.name_of(config.layout))
    if not listing.videos:
        raise SourceError(_said_of_none(source, listing, config))
    listing.videos.sort(key=lambda video: video.relative)
    listing.notes.extend(said_of_capitals({video.label for video in listing.videos}))
    listing.notes.extend(_said_of_left_out(listing))
    return listing


def _said_of_left_out(listing: Listing) -> Iterator[str]:
    """What a layout did not take, a sentence for each reason that is no single video's fault."""
    if linked := _paths(listing, LINKED):
        yield (
            f"Caution: folders that are links are not searched: {len(linked):,}, such as '{linked[0]}'. Put the "
            "folders themselves there if they belong to the data set."
        )
    for reason, where in (
        (NESTED, "in folders within class folders, which are not searched,"),
        (LOOSE, "beside the class folders, so that no class is known,"),
    ):
        if paths := _paths(listing, reason):
            what = "1 video lies" if len(paths) == 1 else f"{len(paths):,} videos lie"
            yield (
                f"Caution: {what} {where} such as '{paths[0]}'. Move them into the folder of their class, or name "
                "them in a .csv list."
            )
    if empty := sorted(listing.empty):
        what = "1 class folder" if len(empty) == 1 else f"{len(empty):,} class folders"
        names = ", ".join(map(repr, empty[:3])) + ", …" * (len(empty) > 3)
        yield f"Caution: no video comes from {what} ({names}). Without any, a class is no part of the task."
    if passed := listing.passed_over:
        what = "file or folder" if len(passed) == 1 else "files and folders"
        yield (
            f"Passed over {len(passed):,} {what} of classes that are no video ({', '.join(VIDEO_SUFFIXES)}) "
            f"and hold no frames, such as '{min(passed)}'."
        )


def hint_of(listing: Listing) -> str:
    """Where videos were not looked for, as a sentence to put behind an error; empty where everywhere."""
    said = {LINKED: "Linked folders", NESTED: "Folders within class folders"}
    firsts = {what: paths[0] for reason, what in said.items() if (paths := _paths(listing, reason))}
    return "".join(f" {what} are not searched ('{path}')." for what, path in firsts.items())


def _paths(listing: Listing, reason: str) -> list[str]:
    """What was skipped for a reason, sorted."""
    return sorted(path for path, given in listing.skipped.items() if given == reason)


def _said_of_deeper_classes(source: Path, nested: Sequence[str]) -> str:
    """That all videos lie deeper than in class folders, and the folder to name where that is one."""
    above = {(source / path).parents[1] for path in nested}
    others = "ove them into the folders of their classes, or name them in a .csv list."
    hint = f"Name '{above.pop()}', the folder above the classes; or m{others}" if len(above) == 1 else f"M{others}"
    return (
        f"source '{source}' has no videos in class folders, but {len(nested):,} in folders within these, such as "
        f"'{nested[0]}'. {hint}"
    )


def _said_of_none(source: Path, listing: Listing, config: IngestConfig) -> str:
    """What to do about a source in which a layout finds no video."""
    if nested := _paths(listing, NESTED):
        return _said_of_deeper_classes(source, nested)
    instead = ""
    # Those that lie in the source itself have a sentence of their own.
    unusable = {path: why for path, why in listing.skipped.items() if why != LOOSE or "/" in path}
    if unusable:
        path, reason = min(unusable.items())
        instead = f" that can be used ('{path}': {reason.rstrip('.')})"
    if not LAYOUTS.is_builtin(config.layout):
        # What the source should look like is for that layout to say.
        return f"layout {LAYOUTS.name_of(config.layout)} finds no videos{instead} in source '{source}'."
    if source.is_dir() and not instead:
        if beside := [path for path in _entries(source) if is_video(path.name)]:
            return (
                f"source '{source}' has no class folders, but {len(beside):,} videos beside each other. Move "
                "each into a folder named after its class, or name a .csv list of them with path,label."
            )
        found = sum(len(files) for _, _, files in os.walk(source))
        instead = f", but {found} other file{'s' * (found != 1)}" if found else ": the folder is empty"
    return f"source '{source}' has no videos{instead}. {EXPECTED}"


def check_listing(listing: Any, layout: str) -> None:
    """Refuse what only a layout of the user's own gives.

    Args:
        listing: what its `videos_of` returned.
        layout: its name.

    Raises:
        ConfigError: it is no listing of videos.
        SourceError: a video has an unknown split or no class, or is listed twice.
    """
    if not isinstance(listing, Listing):
        problem = f"gives a {type(listing).__name__}, not a Listing"
        raise ConfigError(f"layout {layout} {problem}. docs/extending.md shows one.")
    seen: set[str] = set()
    for video in listing.videos:
        if not isinstance(video, VideoSource):
            problem = f"lists a {type(video).__name__}; Listing.add makes the entries"
            raise ConfigError(f"layout {layout} {problem}. docs/extending.md shows one.")
        problem = ""
        if video.split not in ("", *SPLIT_NAMES.values()):
            problem = f"the split {video.split!r}, but it must be one of train, val, test, or empty"
        elif not isinstance(video.label, str) or not video.label:
            problem = f"the class {video.label!r}, but it must be a text"
        elif video.relative in seen:
            problem = "more than one place, but a video is listed once"
        if problem:
            raise SourceError(f"layout {layout} gives '{video.relative}' {problem}.")
        seen.add(video.relative)


def said_of_capitals(labels: set[str]) -> Iterator[str]:
    """That classes have names which only capitals or Unicode forms tell apart, once for each name."""
    spellings: dict[str, list[str]] = {}
    for label in sorted(labels):
        spellings.setdefault(normalize("NFC", label).casefold(), []).append(label)
    for names in spellings.values():
        if len(names) > 1:
            yield (
                f"Caution: {' and '.join(map(repr, names))} differ only in capitals or in the Unicode form of "
                "their letters, but each is a class of its own. Rename one if they are the same."
            )


class ClassFolders(Layout):
    """`root/<class>/<video>`: no splits."""

    def videos_of(self, source: Path, config: IngestConfig) -> Listing:
        """Take every folder for a class."""
        require_folder(source)
        listing = Listing(source)
        _add_classes(listing, source, "")
        return listing


class SplitFolders(Layout):
    """`root/{train,val,test}/<class>/<video>`."""

    def videos_of(self, source: Path, config: IngestConfig) -> Listing:
        """Take the folders with names of splits; videos in others are an error."""
        require_folder(source)
        listing, others = Listing(source), Listing(source)
        for folder in _folders(listing, source):
            if folder.name in SPLIT_NAMES:
                _add_classes(listing, folder, SPLIT_NAMES[folder.name])
            else:
                _add_classes(others, folder, "")
                _add_class(others, folder, "")
        if others.videos:
            raise SourceError(
                f"source '{source}' has split folders, but also '{others.videos[0].relative}', which is in none. "
                "Move it, or choose --layout classes."
            )
        return listing


class CsvList(Layout):
    """A list with the columns path, label, and perhaps split and group, the recording; others are passed over."""

    def videos_of(self, source: Path, config: IngestConfig) -> Listing:
        """Read the list; its paths are absolute or seen from its folder, and stay in it.

        A list names the split of every video, or of none.
        """
        if source.is_dir():
            raise SourceError(f"source '{source}' is a folder, but the csv layout needs the .csv file itself.")
        listing, lines, has_split = Listing(source.parent), dict[str, int](), dict[bool, int]()
        homes = [Path(os.path.abspath(source.parent)), source.parent.resolve()]
        for line, row in csv_rows(source, CSV_NEEDED, CSV_OPTIONAL):
            where, split = f"line {line} of '{source}'", row["split"]
            relative = _seen_from(homes, row["path"])
            if relative is None:
                raise SourceError(f"{where} has path '{row['path']}', which lies outside the list's folder.")
            if relative in lines:
                raise SourceError(f"{where} lists '{relative}' again, after line {lines[relative]}.")
            if split and split not in SPLIT_NAMES:
                raise SourceError(f"{where} has split '{split}', but it must be one of {', '.join(SPLIT_NAMES)}.")
            has_split.setdefault(bool(split), line)
            if len(has_split) > 1:
                raise SourceError(
                    f"line {has_split[False]} of '{source}' has no split, but line {has_split[True]} has one. "
                    "Fill all cells, or leave out the column."
                )
            lines[relative] = line
            listing.add(source.parent / relative, row["label"], SPLIT_NAMES.get(split, ""), row["group"])
        return listing


def _seen_from(homes: Sequence[Path], name: str) -> str | None:
    """A path of a list as it is seen from the list's folder; None where it leaves that.

    Args:
        homes: the names of the folder, absolute: where it is reached by a link, it has two.
        name: the path, absolute or seen from the folder.
    """
    path = os.path.normpath(name)
    if not os.path.isabs(path):
        return None if path.split(os.sep, 1)[0] == os.pardir else Path(path).as_posix()
    return next(
        (Path(path).relative_to(home).as_posix() for home in homes if Path(path).is_relative_to(home)), None
    )


class Auto(Layout):
    """The CSV list if there is one that names splits, else split folders, else class folders."""

    def videos_of(self, source: Path, config: IngestConfig) -> Listing:
        """Look at the names in the source, and let the layout that they fit find the videos."""
        if source.is_file():
            return CsvList().videos_of(source, config)
        entries = _entries(source)
        lists = [path for path in entries if path.suffix.lower() == ".csv" and _is_list(path)]
        if len(lists) > 1:
            names = ", ".join(path.name for path in lists)
            raise SourceError(f"source '{source}' has several lists of videos ({names}). Name the one to use.")
        if lists:
            return CsvList().videos_of(lists[0], config)
        folders = {path.name for path in entries if path.is_dir()}
        # One split folder may be a class of that name; beside class folders it is.
        has_splits = "train" in folders and (len(folders & SPLIT_NAMES.keys()) > 1 or len(folders) == 1)
        return (SplitFolders() if has_splits else ClassFolders()).videos_of(source, config)


def _is_list(path: Path) -> bool:
    """Whether a file is taken for the list of its folder: it has the columns of a list that names splits."""
    # A pipe of that name would wait for ever.
    if not path.is_file():
        return False
    with path.open("rb") as file:
        header = file.readline(10_000).decode("utf-8-sig", "replace")
    try:
        cells = next(csv.reader([header], delimiter=delimiter_of(header), skipinitialspace=True), ())
        return {*CSV_NEEDED, "split"} <= set(column_names(cells))
    except csv.Error:
        return False


def _entries(folder: Path) -> list[Path]:
    """The visible entries of a folder, sorted."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise SourceError(f"folder '{folder}' cannot be read: {error.strerror}.") from None


def _add_classes(listing: Listing, folder: Path, split: str) -> None:
    for entry in _folders(listing, folder):
        _add_class(listing, entry, split)


def _folders(listing: Listing, folder: Path) -> Iterator[Path]:
    """The folders in a folder; one that is a link is skipped with its reason, and so are videos beside them."""
    for entry in _entries(folder):
        relative = as_text(entry.relative_to(listing.root).as_posix())
        if entry.is_dir() and entry.is_symlink():
            listing.skipped[relative] = LINKED
        elif entry.is_dir():
            yield entry
        elif is_video(entry.name):
            listing.skipped[relative] = LOOSE


def _add_class(listing: Listing, folder: Path, split: str) -> None:
    before = len(listing.videos)
    for entry in _entries(folder):
        relative = as_text(entry.relative_to(listing.root).as_posix())
        try:
            if entry.is_symlink() and entry.is_dir():
                listing.skipped[relative] = LINKED
            elif is_video(entry.name) or (entry.is_dir() and are_frames(os.listdir(entry))):
                listing.add(entry, folder.name, split)
            elif entry.is_dir() and (nested := list(videos_under(entry, []))):
                paths = (as_text(video.relative_to(listing.root).as_posix()) for video in nested)
                listing.skipped.update(dict.fromkeys(paths, NESTED))
            else:
                listing.passed_over.append(relative)
        except OSError as error:
            listing.skipped[relative] = f"it cannot be read: {error.strerror}."
    if len(listing.videos) == before:
        listing.empty.append(as_text(folder.relative_to(listing.root).as_posix()))
