"""Lists of clips that another tool has chosen: paths in a text file, or in a column of a CSV file."""

import csv
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from unicodedata import normalize

from prism.artifacts.store import ClipStore
from prism.errors import SourceError
from prism.machine.texts import delimiter_of, read_text

PATH_COLUMNS = ("path", "filepath", "file_name", "filename", "filenames", "file", "video")
"""What CSV files call the column of paths, PRISM's own first."""
LABEL = re.compile(r"[\s,;]+\d+$")
"""A label behind a path, as lists of data sets have it."""
Parts = tuple[str, ...]


def listed_positions(store: ClipStore, path: Path) -> list[int]:
    """The training clips that a list names: all windows of each of its videos, by class and then in its order.

    A path is that of a video if one of the two ends with the other, folder by folder: lists are written where the
    videos lay, and a store knows its paths from the source.

    Args:
        store: the clips.
        path: a text file with a path on each line, behind which a label may stand, or a CSV file with a header
            and one of `PATH_COLUMNS`, its cells separated by commas or semicolons.

    Returns:
        Positions in the training split, grouped by class.

    Raises:
        SourceError: the list cannot be read, is empty, or a line of it names no training video, several, or one
            that it has named before.
    """
    training, others = _Videos(store, ("train",)), _Videos(store, ("val", "test"))
    lines: dict[Parts, int] = {}
    for number, text in _listed(path):
        where = f"line {number} of '{path}'"
        found, elsewhere = training.named(text), others.named(text)
        if not found and not elsewhere:
            # Only now, as the name of a video may end like a label, too.
            unlabelled = LABEL.sub("", text)
            found, elsewhere = training.named(unlabelled), others.named(unlabelled)
        if not found:
            if elsewhere:
                raise SourceError(f"{where} has '{text}', which is no training video of the store. Take it out.")
            raise SourceError(
                f"{where} has '{text}', which the store does not know. Its clips.csv has the paths that it knows."
            )
        if len(found) > 1:
            first, second, *_ = ("/".join(parts) for parts in sorted(found))
            raise SourceError(
                f"{where} has '{text}', which may be '{first}' or '{second}'. Write more of the path."
            )
        if found[0] in lines:
            raise SourceError(f"{where} has '{text}' again, after line {lines[found[0]]}. Take one of them out.")
        lines[found[0]] = number
    if not lines:
        raise SourceError(f"list '{path}' names no video. Write a path on each line.")
    labels = store.labels.tolist()
    return sorted((place for video in lines for place in training.places[video]), key=labels.__getitem__)


class _Videos:
    """The videos of some splits by the ends of their paths.

    Attributes:
        places: positions of the clips of each video in the store.
    """

    def __init__(self, store: ClipStore, splits: tuple[str, ...]) -> None:
        self.places: dict[Parts, list[int]] = defaultdict(list)
        self._of_name: dict[str, set[Parts]] = defaultdict(set)
        for split in splits:
            for place in store.positions(split):
                parts = _parts(store.sources[place].path)
                self.places[parts].append(place)
                self._of_name[_composed(parts)[-1]].add(parts)

    def named(self, path: str) -> list[Parts]:
        """The videos that a path may mean."""
        if not (parts := _parts(path)):
            return []
        if parts in self.places:
            return [parts]
        said = _composed(parts)
        found = [
            video
            for video in self._of_name.get(said[-1], ())
            if _composed(video)[-len(said) :] == said or said[-len(video) :] == _composed(video)
        ]
        # Of videos that the path ends with, the longest is meant: it lies nearest to it.
        longest = max((min(len(video), len(parts)) for video in found), default=0)
        return [video for video in found if min(len(video), len(parts)) == longest]


def _parts(path: str) -> Parts:
    """The folders of a path and its name, whichever system wrote it."""
    return tuple(part for part in PureWindowsPath(path).as_posix().split("/") if part not in ("", "."))


def _composed(parts: Parts) -> Parts:
    """The same in one Unicode form: a copy by way of macOS may have another."""
    return tuple(normalize("NFC", part) for part in parts)


def _listed(path: Path) -> Iterator[tuple[int, str]]:
    """The paths of a list with their line numbers.

    Raises:
        SourceError: the file cannot be read.
    """
    try:
        text = read_text(path)
        lines = text.splitlines()
        how = {"delimiter": delimiter_of(text), "skipinitialspace": True}
        header = [name.strip().lower() for name in next(csv.reader(lines[:1], **how), [])]
        column = next((header.index(name) for name in PATH_COLUMNS if name in header), None)
        if column is None:
            rows = ((number, line) for number, line in enumerate(lines, 1))
        else:
            table = csv.reader(lines[1:], **how)
            rows = ((table.line_num + 1, row[column] if len(row) > column else "") for row in table if any(row))
        for number, text in rows:
            if text.strip():
                yield number, text.strip()
            elif column is not None:
                raise SourceError(f"line {number} of '{path}' names no video. Write its path.")
    except (OSError, ValueError, csv.Error) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"list '{path}' cannot be read: {problem}. Give a text or CSV file of paths.") from None
