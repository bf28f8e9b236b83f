"""Videos of a source with their classes and splits, listed from folders of classes or from a CSV list.

A layout reads names, never videos, and ignores hidden files. The layouts of published data sets are in `official`.
"""

import csv
import io
import os
import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import normalize

from prism.errors import SourceError
from prism.machine.text_io import as_text, read_text, reason

DataSet = Iterable[Any] | Mapping[str, Iterable[Any]]
"""A source that is an object: items with frames and a label, or a dictionary of such items by split name."""
VIDEO_SUFFIXES = (
    *(".mp4", ".avi", ".webm", ".mkv", ".mov", ".m4v", ".mpg", ".mpeg", ".wmv", ".flv", ".3gp", ".ts", ".gif"),
)
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
MOST_KINDS = 5  # Reasons in a message.

LINKED_OUT = "it is a link that leaves the source: --follow-links reads it, or copy what is behind it (cp -rL)."
LINKED_FOLDER = "it is a folder that is a link: --follow-links searches it, or copy what is behind it (cp -rL)."
LINKED_AGAIN = "it is a link to a folder that is searched already."
POINTER = "it is the text of a link, or a Git LFS pointer: copy the video there, or fetch it with git lfs pull."
NESTED = "it lies in a folder within a class folder: move it into that of its class, or ingest a .csv list."
LOOSE = "it lies beside the class folders: move it into that of its class, or ingest a .csv list."
TWINS = "videos of one name, most likely one clip twice (remove one of each, or name both in a .csv list)"
PICTURES = "pictures lie in the class folder itself: each video needs a folder of its own in that of its class."
OUTSIDE = "it lies in none of the split folders."
UNLISTED = "videos that no list names are left out"
MISSING = "it is missing: a list names it, but the source does not hold it."


@dataclass(frozen=True)
class VideoSource:
    """One video to ingest: a file, or a folder with an image per frame.

    `relative` is the path under the source with `/` between its parts. `split` and `recording` (the recording
    from which the video was cut) are empty if the source names none.
    """

    path: Path
    relative: str
    label: str
    split: str
    recording: str = ""


@dataclass
class Listing:
    """The videos of a source.

    Attributes:
        root: the folder to which paths are relative.
        videos, skipped: the videos found; and by path the reason why a video was left out.
        labels: for each class in the source, the path of one video.
        unread: names of files in the source's folders that are not videos.
        notes: sentences that the user should read.
        faults: faulty lines of lists, by file and kind; `check` raises one error for all.
    """

    root: Path
    videos: list[VideoSource] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: dict[tuple[Path, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, path: Path, label: str, split: str, recording: str = "") -> None:
        """Add a video of the source; it is skipped if its name is not UTF-8.

        SourceError if the class is not a text, or the split none of `train`, `val`, `test` and empty.
        """
        relative = self.relative(path)
        if split not in ("", *SPLIT_NAMES.values()) or not isinstance(label, str) or not label:
            problem = f"the class {label!r} and the split {split!r}"
            allowed = "a text, and one of train, val, test, or empty"
            raise SourceError(f"the layout gives '{relative}' {problem}, but they must be {allowed}.")
        if relative != as_text(relative):
            self.skipped[as_text(relative)] = "its name is not valid UTF-8."
        else:
            # One name may have two forms, as on a Mac and on Linux.
            label, recording = normalize("NFC", label), normalize("NFC", recording)
            self.videos.append(VideoSource(path, relative, label, split, recording))
            self.labels.setdefault(label, relative)

    def skip(self, path: Path, reason: str) -> None:
        """Leave a video out; `skipped.csv` gives the reason."""
        self.skipped[as_text(self.relative(path))] = reason

    def caution(self, what: str, names: Iterable[str]) -> None:
        """Add a note that shows some paths or names; no note if there are none."""
        if names := sorted(names):
            self.notes.append(f"Caution: {what}: {named(names)}.")

    def relative(self, path: Path) -> str:
        try:
            return path.relative_to(self.root).as_posix()
        except ValueError:
            raise SourceError(f"'{path}' is listed, but lies outside the source '{self.root}'.") from None

    def fault(self, path: Path, kind: str, line: int, shown: str = "") -> None:
        unit = "entry" if path.suffix == ".json" else "line"
        self.faults[path, kind].append(f"{unit} {line}" + f" {shown[:100]!r}" * bool(shown))

    def check(self) -> None:
        if said := [f"'{path}' has {kind}: {with_number(lines)}" for (path, kind), lines in self.faults.items()]:
            raise SourceError(f"{'; '.join(said)}.")

    def keep_files(self, follow_links: bool) -> None:
        """Skip videos that are missing, mere pointers, links out of the source, or second names of one file."""
        root, first = os.path.join(os.path.realpath(self.root), ""), dict[object, VideoSource]()
        of_folder = cache(os.path.realpath)  # Resolving each folder once halves the time of a listing.
        # Files come before links, so that of two names the link is skipped.
        for video in sorted(self.videos, key=lambda video: video.path.is_symlink()):
            real, problem = os.path.join(of_folder(video.path.parent), video.path.name), ""
            if is_link := os.path.islink(real):
                real = os.path.realpath(real)
            if not follow_links and not real.startswith(root):
                problem = LINKED_OUT
            elif not os.path.exists(real):
                problem = "it is a link that leads nowhere." if is_link else MISSING
            elif _is_pointer(real):
                problem = POINTER
            elif first.setdefault(file := _identity(real), video) is not video:
                problem = f"it is the file of '{first[file].relative}' by another name."
            if problem:
                self.skipped[video.relative] = problem
        self.videos = list(first.values())

    def none_found(self, source: Path) -> str:
        """Advice for a source in which a layout finds no video."""
        if self.skipped:
            loose = (path for path, reason in self.skipped.items() if reason == LOOSE)
            is_ucf = any(re.match(r"v_\w+_g\d+_c\d+\.", path) for path in loose)
            hint = " --layout ucf101 reads names like these with its lists." * is_ucf
            nested = (path for path, reason in self.skipped.items() if reason == NESTED)
            if any(re.match("train|test|val|dev|eval", path, re.IGNORECASE) for path in nested):
                hint += " If the upper folders are splits, name them train, val and test."
            return f"source '{source}' has no videos that can be used: {why_skipped(self.skipped)}{hint}"
        others = [name for _, _, files in os.walk(source) for name in files] if source.is_dir() else []
        instead = f", but other files ({suffixes(others)})" if others else ""
        wanted = f"<class>/<video> with {', '.join(VIDEO_SUFFIXES)}, or <class>/<video>/ with frames as"
        return f"source '{source}' has no videos{instead}. Expected {wanted} {', '.join(IMAGE_SUFFIXES)}."


def _identity(path: str) -> object:
    """Key that all names of a file share: its path unless it has hard links, as some systems renumber files."""
    found = os.stat(path)
    return (found.st_dev, found.st_ino) if found.st_nlink > 1 and os.path.isfile(path) else path


def _is_pointer(path: str) -> bool:
    """Whether a file is the text of a link or a Git LFS pointer, which some checkouts have in place of a video."""
    if not os.path.isfile(path) or os.path.getsize(path) > 1000:
        return False
    with suppress(OSError, ValueError):
        text = Path(path).read_text(encoding="utf-8").strip()
        is_place = "/" in text and os.path.exists(os.path.join(os.path.dirname(path), text))
        return is_place or text.startswith("version https://git-lfs.github.com/")
    return False


def few(items: Sequence[str]) -> str:
    return ", ".join(items[:3]) + ", …" * (len(items) > 3)


def with_number(items: Sequence[str]) -> str:
    """Number of things, and the first few."""
    return f"{len(items):,} ({few(items)})"


def named(names: Iterable[str]) -> str:
    """Number of names, and the first few in order."""
    return with_number([repr(as_text(name)) for name in sorted(names)])


def suffixes(names: Iterable[str]) -> str:
    """Number of names of each suffix, the most frequent first."""
    counts = Counter(os.path.splitext(name)[1].lower() or "without a suffix" for name in names)
    return few([f"{count:,} {suffix}" for suffix, count in counts.most_common()])


def why_skipped(skipped: Mapping[str, str]) -> str:
    """Number of paths skipped for each kind of reason, the most frequent first."""
    kinds = defaultdict[str, list[str]](list)
    for path in sorted(skipped):
        # Reasons that differ only in numbers and names are one kind; the message shows the first of them.
        kinds[re.sub(r"'.*'|\d[\d.,]*", "", skipped[path])].append(path)
    ordered = sorted(kinds.values(), key=len, reverse=True)
    said = [f"{named(paths)} because {skipped[paths[0]]}" for paths in ordered[:MOST_KINDS]]
    return " ".join(said + ["Others for other reasons."] * (len(ordered) > MOST_KINDS))


def visible(names: Iterable[str], suffixes: str | tuple[str, ...] = "") -> list[str]:
    """Names that end in one of the suffixes, in any case, and are not hidden; sorted."""
    return sorted(name for name in names if name.lower().endswith(suffixes) and not name.startswith("."))


def without_suffixes(name: str) -> str:
    """The name of a video without its suffixes: `id.mp4.mkv` is `id`."""
    stem, suffix = os.path.splitext(name)
    return without_suffixes(stem) if suffix.lower() in VIDEO_SUFFIXES else name


def frame_files(folder: Path) -> list[Path]:
    """The images of a video that is a folder of frames, in natural order: frame 2 before frame 10."""
    images = visible(os.listdir(folder), IMAGE_SUFFIXES)
    parts = {name: [int(p) if p.isdecimal() else p for p in re.split(r"(\d+)", name)] for name in images}
    return [folder / name for name in sorted(images, key=parts.__getitem__)]


def files_of(video: Path) -> list[Path]:
    """The file of a video, or the files of its frames if it is a folder."""
    return frame_files(video) if video.is_dir() else [video]


def videos_under(listing: Listing, folder: Path, follow_links: bool) -> Iterator[Path]:
    """Every visible video at any depth under a folder of a source: a file, or a folder of frames."""
    searched = {os.path.realpath(folder)}
    for name, folders, files in os.walk(folder, onerror=_refuse, followlinks=follow_links):
        above, folders[:], videos = Path(name), visible(folders), visible(files, VIDEO_SUFFIXES)
        for link in [above / entry for entry in folders if os.path.islink(above / entry)]:
            # Following a link to a parent folder would never end.
            if not follow_links or (target := os.path.realpath(link)) in searched:
                listing.skip(link, LINKED_AGAIN if follow_links else LINKED_FOLDER)
                folders.remove(link.name)
            else:
                searched.add(target)
        # Pictures beside videos are thumbnails, not frames.
        if above != folder and not videos and visible(files, IMAGE_SUFFIXES):
            yield above
        elif above != folder:
            listing.unread += set(visible(files)).difference(videos)
        yield from (above / video for video in videos)


def _refuse(error: OSError) -> None:
    raise SourceError(f"folder '{error.filename}' cannot be read: {error.strerror}.")


def read_list(path: Path) -> str:
    try:
        return read_text(path)
    except (ValueError, OSError) as error:
        raise SourceError(f"'{path}' cannot be read: {reason(error)}.") from None


def csv_rows(path: Path, needed: Sequence[str], listing: Listing) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells by column of each row of a CSV file; a row that lacks a needed cell is a fault."""
    text = read_list(path)
    header = text.partition("\n")[0]
    # Spreadsheets write semicolons in some languages.
    delimiter = ";" if header.count(";") > header.count(",") else ","
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        names = rows.fieldnames = [name.strip().lower() for name in rows.fieldnames or ()]
        if lacking := [column for column in needed if column not in names]:
            only = ", ".join(names)[:200] or "nothing"
            raise SourceError(f"list '{path}' has no column '{lacking[0]}', only {only}.")
        used = [*needed, "split", "group"]
        if twice := [column for column in used if names.count(column) > 1]:
            raise SourceError(f"list '{path}' has the column '{twice[0]}' twice.")
        for row in rows:
            cells, more = {name: (row[name] or "").strip() for name in names}, "".join(row.get(None, ())).strip()
            if not more and not any(cells.values()):
                continue  # Spreadsheets save empty rows.
            if empty := [name for name in needed if not cells[name] or "\0" in cells[name]]:
                listing.fault(path, f"no {empty[0]}", rows.line_num)
            elif torn := [cells[name] for name in used if re.search(r"[\r\n]", cells.get(name, ""))]:
                # A stray quote joins all lines up to the next quote into one cell.
                listing.fault(path, "a quote that is not closed", rows.line_num - torn[0].count("\n"), torn[0])
            elif more:
                listing.fault(path, "more cells than columns", rows.line_num, more)
            else:
                yield rows.line_num, cells
    except csv.Error as error:
        raise SourceError(f"list '{path}' is not a CSV file: {error}.") from None


class Layout(ABC):
    """Base of all layouts, which list the videos of a source with their classes and splits.

    Write one for a source that names classes in its own way, such as by the start of a file's name:

        class Prefixes(Layout):
            def videos_of(self, source):
                listing = Listing(source)
                for path in sorted(source.glob("*.mp4")):
                    listing.add(path, label=path.name.split("_")[0], split="")
                return listing

    `prism.ingest("videos", "store", layout=Prefixes())` uses it in Python, `--layout mymodule:Prefixes` on the
    command line. A layout reads names, never videos. A field of the class is an option of the layout:
    `--layout "mymodule:Prefixes(separator='-')"`. A field `annotations`, `official_split`, `train_list` or
    `follow_links` gets the value of that option of `prism ingest`.
    """

    @abstractmethod
    def videos_of(self, source: Path) -> Listing:
        """The videos of a source, each added with `Listing.add`.

        Splits are cut later if the source names none. SourceError if the source does not fit the layout.
        """


@dataclass(frozen=True)
class Auto(Layout):
    """The default layout: a CSV list that is the source, or lies in it and has a column `split`; else folders.

    Folders are `root/<class>/<video>`, or `root/{train,val,test}/<class>/<video>` if `root` has the folder
    `train` beside another split, or alone.
    """

    follow_links: bool = False

    def videos_of(self, source: Path) -> Listing:
        if source.is_file():
            return self._listed(source)
        _, entries, files = next(os.walk(source, onerror=_refuse))
        columns = {source / name: _column_names(source / name) for name in visible(files, ".csv")}
        lists = [path for path, names in columns.items() if {"path", "label", "split"} <= names]
        if len(lists) > 1:
            names = ", ".join(path.name for path in lists)
            raise SourceError(f"source '{source}' has several lists of videos ({names}). Name the one to use.")
        if lists:
            return self._listed(lists[0])
        folders = visible(entries)
        splits = SPLIT_NAMES.keys() & {name.lower() for name in folders}
        has_splits = "train" in splits and (len(splits) > 1 or len(folders) == 1)
        listing = Listing(source)
        said = "the folders are read, and no list without a column split; to ingest a list, pass its path"
        listing.caution(said, [path.name for path, names in columns.items() if {"path", "label"} <= names])
        for path in videos_under(listing, source, self.follow_links):
            *above, _ = path.relative_to(source).parts
            split = SPLIT_NAMES.get(above.pop(0).lower()) if has_splits and above else ""
            if split is not None and len(above) == 1:
                listing.add(path, above[0], split)
            else:
                loose = PICTURES if path.is_dir() else LOOSE
                listing.skip(path, OUTSIDE if split is None else NESTED if above else loose)
        of_files = {video.label for video in listing.videos if not video.path.is_dir()}
        pictures = (one.relative for one in listing.videos if one.label in of_files and one.path.is_dir())
        listing.caution("folders of pictures beside video files are read as videos", pictures)
        first = dict[str, VideoSource]()
        for video in listing.videos:
            other = first.setdefault(without_suffixes(normalize("NFC", video.relative)), video)
            # One may be a link to the other.
            if video is not other and os.path.realpath(video.path) != os.path.realpath(other.path):
                listing.faults[source, TWINS].append(f"'{other.relative}' and '{video.relative}'")
        found = source.glob("[!.]*/[!.]*/" if has_splits else "[!.]*/")
        classes = {path for path in found if not has_splits or path.parent.name.lower() in SPLIT_NAMES}
        unused = {listing.relative(path) for path in classes - {video.path.parent for video in listing.videos}}
        listing.caution("folders of classes without a video", unused - listing.skipped.keys())
        if listing.unread:
            listing.notes.append(f"Passed over in folders, as no videos: {suffixes(listing.unread)}.")
        return listing

    def _listed(self, source: Path) -> Listing:
        """The videos of a CSV list; its paths must stay in its folder, and its rows name all splits or none."""
        root, listing, first = source.parent, Listing(source.parent), dict[str, int]()
        rows = list(csv_rows(source, ("path", "label"), listing))
        if not (rows or listing.faults):
            raise SourceError(f"list '{source}' has no rows below its header, so that it has no videos.")
        splits = SPLIT_NAMES if any(row.get("split") for _, row in rows) else {"": ""}
        # A folder that is reached by a link has two names.
        homes = [os.path.join(home, "") for home in (os.path.abspath(root), root.resolve())]
        for line, row in rows:
            # Paths may be written on Windows, and with letters in another form than the folder's.
            plain = row["path"].replace("\\", "/")
            forms = row["path"], plain, *(normalize(form, plain) for form in ("NFC", "NFD"))
            name = next((form for form in forms if os.path.lexists(root / form)), row["path"])
            split = row.get("split", "").lower()
            paths = ((home, os.path.normpath(os.path.join(home, name))) for home in homes)
            relative = next((path[len(home) :] for home, path in paths if path.startswith(home)), "")
            if not relative:
                listing.fault(source, "a path outside the list's folder", line, name)
            elif split not in splits:
                listing.fault(source, f"a split that is none of {', '.join(SPLIT_NAMES)}", line, split)
            elif first.setdefault(relative, line) != line:
                listing.fault(source, "a video that it has before", line, relative)
            else:
                listing.add(root / relative, row["label"], splits[split], row.get("group", ""))
        if first:
            # Search only the folder that holds all listed videos: the list may lie far above it.
            above = root / os.path.commonpath([os.path.dirname(relative) for relative in first])
            found = videos_under(listing, above, self.follow_links) if above.is_dir() else ()
            listing.caution(UNLISTED, {listing.relative(path) for path in found} - first.keys())
        return listing


def _column_names(path: Path) -> set[str]:
    # Reading a pipe would wait for ever.
    if not path.is_file():
        return set()
    with path.open("rb") as file:
        header = file.readline(10_000).decode("utf-8-sig", "replace")
    return {cell.strip(' "\r\n').lower() for cell in re.split("[,;]", header)}
