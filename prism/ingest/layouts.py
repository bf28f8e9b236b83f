"""Which videos a source holds, and the class and split of each.

A layout is a function from a folder or list to a `Listing`, registered in `LAYOUTS`. It reads names, never
videos. Hidden files and files of other types are passed over; a link that leaves the source is listed as
skipped, because what it points to is not part of the data set that was named.
"""

import csv
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prism.errors import SourceError
from prism.ingest.frames import frame_files

VIDEO_SUFFIXES = (".mp4", ".avi", ".webm", ".mkv", ".mov")
SPLIT_NAMES = {"train": "train", "val": "val", "validation": "val", "test": "test"}
CSV_COLUMNS = ("path", "label", "split")


@dataclass(frozen=True)
class VideoSource:
    """One video to ingest: a file, or a folder with an image per frame.

    `relative` is its path under the source with `/` between the parts; `split` is empty where the
    source names none.
    """

    path: Path
    relative: str
    label: str
    split: str


@dataclass
class Listing:
    """What a source holds: the root that paths are relative to, its videos, and what was left out and why."""

    root: Path
    videos: list[VideoSource] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def add(self, path: Path, label: str, split: str) -> None:
        """Take a video in, or note why it cannot be."""
        relative = path.relative_to(self.root).as_posix()
        if not is_text(relative):
            self.skipped[as_text(relative)] = "its name is not valid UTF-8."
        elif not path.resolve().is_relative_to(self.root.resolve()):
            self.skipped[relative] = "it is a link that leaves the source."
        else:
            self.videos.append(VideoSource(path, relative, label, split))


def list_videos(source: Path, layout: str = "auto") -> Listing:
    """Find the videos of a source.

    Args:
        source: a folder, or a CSV file whose paths are relative to its own folder.
        layout: a key of `LAYOUTS`; `auto` takes the CSV if there is one, else split folders, else class folders.

    Returns:
        The listing, its videos sorted by their relative path.

    Raises:
        SourceError: the source is missing, has no videos, names a split that is unknown, or lists a path that
            is twice in it or outside of it.
    """
    if not source.exists():
        raise SourceError(f"source '{source}' does not exist.")
    if source.is_file() and source.suffix.lower() != ".csv":
        raise SourceError(
            f"source '{source}' is a file, but it must be a folder of videos or a .csv list of them."
        )
    listing = LAYOUTS[layout](source)
    if not listing.videos:
        raise SourceError(f"source '{source}' has no videos{_instead(source, listing)}. {EXPECTED}")
    listing.videos.sort(key=lambda video: video.relative)
    return listing


EXPECTED = (
    f"Expected <class>/<video> with {', '.join(VIDEO_SUFFIXES)}, or <class>/<video>/ with .jpg or .png frames."
)


def _instead(source: Path, listing: Listing) -> str:
    if listing.skipped:
        path, reason = min(listing.skipped.items())
        return f" that can be used ('{path}': {reason.rstrip('.')})"
    if source.is_file():
        return ""
    found = sum(len(files) for _, _, files in os.walk(source))
    return f", but {found} other file{'s' * (found != 1)}" if found else ": the folder is empty"


def _auto(source: Path) -> Listing:
    if source.is_file():
        return _csv(source)
    lists = [path for path in _entries(source) if path.suffix.lower() == ".csv" and _is_list(path)]
    if len(lists) > 1:
        names = ", ".join(path.name for path in lists)
        raise SourceError(f"source '{source}' has several lists of videos ({names}). Name the one to use.")
    if lists:
        return _csv(lists[0])
    names = {path.name for path in _entries(source) if path.is_dir()}
    # One split folder may be a class of that name; beside class folders it is.
    has_splits = "train" in names and (len(names & set(SPLIT_NAMES)) > 1 or len(names) == 1)
    return _splits(source) if has_splits else _classes(source)


def _classes(source: Path) -> Listing:
    """`root/<class>/<video>`: no splits."""
    _require_folder(source)
    listing = Listing(source)
    _add_classes(listing, source, "")
    return listing


def _splits(source: Path) -> Listing:
    """`root/{train,val,test}/<class>/<video>`."""
    _require_folder(source)
    listing = Listing(source)
    others = Listing(source)
    for folder in _entries(source):
        if folder.is_dir() and folder.name in SPLIT_NAMES:
            _add_classes(listing, folder, SPLIT_NAMES[folder.name])
        elif folder.is_dir():
            _add_classes(others, folder, "")
            _add_class(others, folder, "")
    if others.videos:
        raise SourceError(
            f"source '{source}' has split folders, but also '{others.videos[0].relative}', which is in none. "
            "Move it, or choose --layout classes."
        )
    return listing


def _require_folder(source: Path) -> None:
    if not source.is_dir():
        raise SourceError(f"source '{source}' is a file, but this layout needs a folder.")


def _entries(folder: Path) -> list[Path]:
    """The visible entries of a folder, sorted."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise SourceError(f"folder '{folder}' cannot be read: {error.strerror}.") from None


def _add_classes(listing: Listing, folder: Path, split: str) -> None:
    for entry in _entries(folder):
        if entry.is_dir():
            _add_class(listing, entry, split)


def _add_class(listing: Listing, folder: Path, split: str) -> None:
    for entry in _entries(folder):
        try:
            if entry.suffix.lower() in VIDEO_SUFFIXES or (entry.is_dir() and frame_files(entry)):
                listing.add(entry, folder.name, split)
        except OSError as error:
            listing.skipped[as_text(entry.relative_to(listing.root).as_posix())] = (
                f"it cannot be read: {error.strerror}."
            )


def _is_list(path: Path) -> bool:
    with path.open("rb") as file:
        header = file.readline(10_000).decode("utf-8-sig", "replace")
    return set(CSV_COLUMNS) <= set(next(csv.reader([header], skipinitialspace=True), ()))


def _csv(source: Path) -> Listing:
    """A list with the columns path, label and split; others are passed over."""
    if source.is_dir():
        raise SourceError(f"source '{source}' is a folder, but the csv layout needs the .csv file itself.")
    listing, lines = Listing(source.parent), dict[str, int]()
    for line, row in _rows(source):
        where = f"line {line} of '{source}'"
        relative = _inner_path(row["path"], where)
        if relative in lines:
            raise SourceError(f"{where} lists '{relative}' again, after line {lines[relative]}.")
        if row["split"] not in SPLIT_NAMES:
            raise SourceError(
                f"{where} has split '{row['split']}', but it must be one of {', '.join(SPLIT_NAMES)}."
            )
        lines[relative] = line
        listing.add(source.parent / relative, row["label"], SPLIT_NAMES[row["split"]])
    return listing


def _rows(source: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The lines of a list with their numbers, every column present and filled."""
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            for column in CSV_COLUMNS:
                if column not in (rows.fieldnames or ()):
                    found = ", ".join(rows.fieldnames or ()) or "nothing"
                    raise SourceError(f"list '{source}' has no column '{column}', only {found}.")
            for row in rows:
                yield (
                    rows.line_num,
                    {column: _cell(row[column], column, rows.line_num, source) for column in CSV_COLUMNS},
                )
    except UnicodeDecodeError:
        raise SourceError(f"list '{source}' is not UTF-8 text.") from None
    except csv.Error as error:
        raise SourceError(f"list '{source}' is not a CSV file: {error}.") from None
    except OSError as error:
        raise SourceError(f"list '{source}' cannot be read: {error.strerror}.") from None


def _cell(value: str | None, column: str, line: int, source: Path) -> str:
    if not value or not value.strip() or "\0" in value:
        raise SourceError(f"line {line} of '{source}' has no {column}.")
    return value.strip()


def _inner_path(text: str, where: str) -> str:
    path = os.path.normpath(text)
    if os.path.isabs(path) or path == os.pardir or path.startswith(os.pardir + os.sep):
        raise SourceError(f"{where} has path '{text}', which lies outside the list's folder.")
    return Path(path).as_posix()


def is_text(name: str) -> bool:
    """Whether a file name can be written as UTF-8."""
    return name == as_text(name)


def as_text(name: str) -> str:
    """A file name with the bytes that are not UTF-8 spelled out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


LAYOUTS: dict[str, Callable[[Path], Listing]] = {
    "auto": _auto,
    "classes": _classes,
    "splits": _splits,
    "csv": _csv,
}
