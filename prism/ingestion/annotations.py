"""Reading annotation files, and finding the videos that they list.

A name in an official annotation file is never opened as a path: it is looked up among the videos that are
under the source, so no list can reach beyond it.
"""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import normalize

from prism.errors import SourceError
from prism.ingestion.listing import VIDEO_SUFFIXES, Listing, videos_under
from prism.machine.text_io import delimiter_of, read_text

MISSING = "missing: the annotation files list it, but the source does not hold it."


@dataclass(frozen=True)
class Entry:
    """A video as an annotation file lists it; `where` is the place in the file, for messages."""

    name: str
    label: str
    split: str
    where: str


def annotation_files(folders: Sequence[Path], names: Sequence[Sequence[str]]) -> list[Path]:
    """The files of the first folder that has all of them.

    Args:
        folders: where to look.
        names: for each file the names that it may have, the official one first.

    Raises:
        SourceError: no folder has all files; the sentence names those that the best folder lacks.
    """
    best: list[Path | None] = [None] * len(names)
    for folder in folders:
        found = [next((folder / name for name in some if (folder / name).is_file()), None) for some in names]
        if None not in found:
            return [path for path in found if path]
        best = max(best, found, key=lambda files: len(files) - files.count(None))
    raise not_found([some[0] for some, path in zip(names, best, strict=True) if path is None], folders)


def not_found(names: Sequence[str], folders: Sequence[Path]) -> SourceError:
    """The error for annotation files that are in none of some folders."""
    wanted = " and ".join(f"'{name}'" for name in names)
    looked = ", ".join(f"'{folder}'" for folder in folders)
    verb = "are" if len(names) > 1 else "is"
    return SourceError(f"{wanted} {verb} missing: looked in {looked}. Name the folder with --annotations.")


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a text file that are not empty, each after its place; any line ends, with or without a BOM.

    Raises:
        SourceError: the file cannot be read, is not UTF-8 or has no line.
    """
    lines = [line.strip() for line in io.StringIO(_read_text(path), newline=None)]
    if not any(lines):
        raise SourceError(f"'{path}' is empty.")
    yield from ((f"line {number} of '{path}'", line) for number, line in enumerate(lines, 1) if line)


def _read_text(path: Path) -> str:
    try:
        return read_text(path)
    except UnicodeDecodeError:
        raise SourceError(f"'{path}' is not UTF-8 text.") from None
    except ValueError as error:
        raise SourceError(f"'{path}' cannot be read: {error}.") from None
    except OSError as error:
        raise SourceError(f"'{path}' cannot be read: {error.strerror}.") from None


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        SourceError: the file cannot be read or is not JSON.
    """
    try:
        return json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"'{path}' is not a JSON file: {error}.") from None


def column_names(header: Sequence[str]) -> list[str]:
    """The columns of a CSV file by the names that we know: `Path` is `path`."""
    return [name.strip().lower() for name in header]


def csv_rows(
    path: Path, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """The lines of a CSV file with their numbers, every wanted column present and filled.

    A column that is written in capitals is known by its small letters.

    Args:
        path: the file.
        columns: those that it must have.
        optional: those that it may have; a cell that is not there is an empty text.

    Raises:
        SourceError: the file cannot be read, a column is missing or there twice, or a cell is empty.
    """
    try:
        text = _read_text(path)
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter_of(text), skipinitialspace=True)
        found = list(rows.fieldnames or ())
        rows.fieldnames = names = column_names(found)
        for column in columns:
            if column not in names:
                raise SourceError(
                    f"list '{path}' has no column '{column}', only {(', '.join(found) or 'nothing')[:200]}."
                )
        for column in (*columns, *optional):
            if names.count(column) > 1:
                raise SourceError(f"list '{path}' has {names.count(column)} columns '{column}'.")
        for row in rows:
            cells = {column: (row[column] or "").strip() for column in columns}
            for column, cell in cells.items():
                if not cell or "\0" in cell:
                    raise SourceError(f"line {rows.line_num} of '{path}' has no {column}.")
            yield rows.line_num, cells | {column: (row.get(column) or "").strip() for column in optional}
    except csv.Error as error:
        raise SourceError(f"list '{path}' is not a CSV file: {error}.") from None


def find_listed(
    source: Path, entries: Sequence[Entry], *, parts: int, fold: Callable[[str], str] = str
) -> Listing:
    """Look up listed videos under a source: a file of any video type, or a folder of frames, at any depth.

    Args:
        source: the folder.
        entries: the listed videos; a name has `parts` parts with `/` between them.
        parts: parts at the end of a path that tell videos apart: 1 for the file name, 2 with its folder.
        fold: makes two spellings of a name equal.

    Returns:
        The listing; a video that is not there is among its skipped ones.

    Raises:
        SourceError: a video is listed twice or is there twice, or a class has no training video.
    """
    listing, linked, places = Listing(source), list[str](), dict[str, str]()
    found: dict[str, list[Path]] = defaultdict(list)
    try:
        for path in videos_under(source, linked):
            end = "/".join(path.relative_to(source).parts[-parts:])
            found[fold(_plain(end))].append(path)
    except OSError as error:
        raise SourceError(f"folder '{error.filename}' cannot be read: {error.strerror}.") from None
    for entry in entries:
        name = fold(_plain(entry.name))
        if name in places:
            raise SourceError(f"{entry.where} lists '{entry.name}' again, after {places[name]}.")
        places[name] = entry.where
        if len(found[name]) > 1:
            both = " and ".join(f"'{path.relative_to(source).as_posix()}'" for path in found[name][:2])
            raise SourceError(f"{entry.where} lists '{entry.name}', which is there twice: {both}. Keep one.")
        if found[name]:
            listing.add(found[name][0], entry.label, entry.split)
        else:
            listing.skipped[entry.name] = MISSING
    _require_training_videos(listing, entries, linked)
    return listing


def _plain(name: str) -> str:
    """A name without its suffix, in one Unicode form: a copy by way of macOS may have another than the list."""
    name = normalize("NFC", name)
    return name.rpartition(".")[0] if name.lower().endswith(VIDEO_SUFFIXES) else name


def _require_training_videos(listing: Listing, entries: Sequence[Entry], linked: list[str]) -> None:
    """Refuse a class without training videos: without it the task would be easier, and nobody would know."""
    trained = {video.label for video in listing.videos if video.split == "train"}
    hint = f" Linked folders are not searched ('{linked[0]}')." if linked else ""
    if not entries:
        raise SourceError(f"the annotation files of '{listing.root}' list no videos for train or test.")
    if not listing.videos:
        first = f"the first is '{entries[0].name}'"
        raise SourceError(
            f"source '{listing.root}' holds none of the {len(entries)} listed videos, {first}.{hint}"
        )
    for label in sorted({entry.label for entry in entries} - trained):
        lost = [entry for entry in entries if entry.label == label and entry.split == "train"]
        if not lost:
            raise SourceError(f"class '{label}' has no videos in the training list.")
        raise SourceError(
            f"class '{label}' has no training video: the source holds none of the {len(lost)} listed ones, the "
            f"first is '{lost[0].name}'. Add them, or take the class out of the lists.{hint}"
        )
