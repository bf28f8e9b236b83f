"""Which videos a source holds, and the class and split of each.

A layout is a function from a folder or list to a `Listing`, registered in `LAYOUTS`. It reads names, never
videos. Hidden files and files of other types are passed over; a link that leaves the source is listed as
skipped, because what it points to is not part of the data set that was named.
"""

import csv
import os
from collections.abc import Callable
from pathlib import Path

from prism.errors import SourceError
from prism.ingestion import official
from prism.ingestion.annotations import csv_rows
from prism.ingestion.frames import frame_files
from prism.ingestion.listing import VIDEO_SUFFIXES, Listing, as_text, require_folder
from prism.ingestion.options import IngestConfig

SPLIT_NAMES = {"train": "train", "val": "val", "validation": "val", "test": "test"}
CSV_COLUMNS = ("path", "label", "split")


def list_videos(source: Path, config: IngestConfig = IngestConfig()) -> Listing:  # noqa: B008
    """Find the videos of a source.

    Args:
        source: a folder, or a CSV file whose paths are relative to its own folder.
        config: its `layout` is a key of `LAYOUTS`; `auto` takes the CSV if there is one, else split folders,
            else class folders. An official layout also reads `official_split` and `annotations`.

    Returns:
        The listing, its videos sorted by their relative path.

    Raises:
        SourceError: the source is missing, has no videos, names a split that is unknown, or lists a path that
            is twice in it or outside of it, or an annotation file is missing or wrong.
    """
    if not source.exists():
        raise SourceError(f"source '{source}' does not exist.")
    if source.is_file() and source.suffix.lower() != ".csv":
        raise SourceError(
            f"source '{source}' is a file, but it must be a folder of videos or a .csv list of them."
        )
    listing = LAYOUTS[config.layout](source, config)
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
    require_folder(source)
    listing = Listing(source)
    _add_classes(listing, source, "")
    return listing


def _splits(source: Path) -> Listing:
    """`root/{train,val,test}/<class>/<video>`."""
    require_folder(source)
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
    # A pipe of that name would wait for ever.
    if not path.is_file():
        return False
    with path.open("rb") as file:
        header = file.readline(10_000).decode("utf-8-sig", "replace")
    try:
        return set(CSV_COLUMNS) <= set(next(csv.reader([header], skipinitialspace=True), ()))
    except csv.Error:
        return False


def _csv(source: Path) -> Listing:
    """A list with the columns path, label and split; others are passed over."""
    if source.is_dir():
        raise SourceError(f"source '{source}' is a folder, but the csv layout needs the .csv file itself.")
    listing, lines = Listing(source.parent), dict[str, int]()
    for line, row in csv_rows(source, CSV_COLUMNS):
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


def _inner_path(text: str, where: str) -> str:
    path = os.path.normpath(text)
    if os.path.isabs(path) or path == os.pardir or path.startswith(os.pardir + os.sep):
        raise SourceError(f"{where} has path '{text}', which lies outside the list's folder.")
    return Path(path).as_posix()


LAYOUTS: dict[str, Callable[[Path, IngestConfig], Listing]] = {
    "auto": lambda source, _: _auto(source),
    "classes": lambda source, _: _classes(source),
    "splits": lambda source, _: _splits(source),
    "csv": lambda source, _: _csv(source),
    "ucf101": official.ucf101,
    "miniucf": official.miniucf,
    "hmdb51": official.hmdb51,
    "kinetics400": official.kinetics400,
    "ssv2": official.ssv2,
}
