"""What a layout is and what it gives: the videos of a source, and what it left out and why."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from prism.errors import SourceError
from prism.ingestion.options import LAYOUTS, IngestConfig
from prism.machine.text_io import as_text

DataSet = Iterable[Any] | Mapping[str, Iterable[Any]]
"""A source that is no folder: items with frames and a label, or those of each split by its name."""
VIDEO_SUFFIXES = (".mp4", ".avi", ".webm", ".mkv", ".mov")
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class VideoSource:
    """One video to ingest: a file, or a folder with an image per frame.

    `relative` is its path under the source with `/` between the parts; `split`, and the `recording` that it is
    from, are empty where the source names none.
    """

    path: Path
    relative: str
    label: str
    split: str
    recording: str = ""


@dataclass
class Listing:
    """What a source holds.

    Attributes:
        root: the folder that paths are relative to.
        videos: those that were found.
        skipped: paths that were left out, with the reasons.
        passed_over: paths in class folders that are neither videos nor folders of frames.
        empty: class folders from which no video came.
        notes: sentences that the user should read.
    """

    root: Path
    videos: list[VideoSource] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    passed_over: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, path: Path, label: str, split: str, recording: str = "") -> None:
        """Take a video in, or note why it cannot be.

        Raises:
            SourceError: the path does not begin with that of the source.
        """
        if not path.is_relative_to(self.root):
            raise SourceError(f"'{path}' is listed, but lies outside the source '{self.root}'.")
        relative = path.relative_to(self.root).as_posix()
        # Before Python 3.13 Path.resolve raises at a link to itself.
        if relative != as_text(relative):
            self.skipped[as_text(relative)] = "its name is not valid UTF-8."
        elif not Path(os.path.realpath(path)).is_relative_to(self.root.resolve()):
            self.skipped[relative] = "it is a link that leaves the source."
        else:
            self.videos.append(VideoSource(path, relative, label, split, recording))


def frame_files(folder: Path) -> list[Path]:
    """The images of a video that is a folder of frames, in natural order: frame 2 before frame 10."""

    def place(image: Path) -> tuple[list[str | int], str]:
        parts = re.split(r"(\d+)", image.name)
        return [int(part) if part.isdecimal() else part for part in parts], image.name

    return sorted((path for path in folder.iterdir() if is_image(path.name)), key=place)


def is_image(name: str) -> bool:
    """Whether a file name is that of a frame, and not hidden."""
    return name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith(".")


def is_video(name: str) -> bool:
    """Whether a file name is that of a video, and not hidden."""
    return name.lower().endswith(VIDEO_SUFFIXES) and not name.startswith(".")


def are_frames(names: Collection[str]) -> bool:
    """Whether files of these names make their folder a video: pictures beside videos are thumbnails of these."""
    return any(map(is_image, names)) and not any(map(is_video, names))


def videos_under(root: Path, linked: list[str]) -> Iterator[Path]:
    """Every visible video under a folder, at any depth: a file, or a folder of frames.

    Args:
        root: the folder.
        linked: gets the folders that are links, which are not searched, as they are seen from the root.

    Raises:
        OSError: a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise error

    for name, folders, files in os.walk(root, onerror=refuse):
        folder = Path(name)
        folders[:] = sorted(entry for entry in folders if not entry.startswith("."))
        links = (folder / entry for entry in folders if (folder / entry).is_symlink())
        linked += [link.relative_to(root).as_posix() for link in links]
        if folder != root and are_frames(files):
            yield folder
        yield from (folder / file for file in sorted(files) if is_video(file))


class Layout(ABC):
    """Base of all layouts: which videos a source holds, and the class and split of each.

    Write one for a source that names classes in its own way. This one takes the class from the start of a name:

        class Prefixes(Layout):
            def videos_of(self, source, config):
                listing = Listing(source)
                for path in sorted(source.glob("*.mp4")):
                    listing.add(path, label=path.name.split("_")[0], split="")
                return listing

    `prism.ingest("videos", "store", layout=Prefixes())` uses it in Python, `--layout mymodule:Prefixes` on the
    command line. A layout reads names, never videos. A field of the class is an option of the layout:
    `--layout "mymodule:Prefixes(separator='-')"`.

    Attributes:
        num_splits: official splits that the data set has; `official_split` chooses one.
        has_spare_videos: some videos are in neither official list; `train_list` can add them to the training list.
        reads_annotations: it reads annotation files; `annotations` names their folder.
    """

    num_splits: ClassVar[int] = 1
    has_spare_videos: ClassVar[bool] = False
    reads_annotations: ClassVar[bool] = False

    @abstractmethod
    def videos_of(self, source: Path, config: IngestConfig) -> Listing:
        """Find the videos of a source.

        Args:
            source: a folder, or a CSV file.
            config: options of `prism ingest`.

        Returns:
            A listing whose `add` was called with the path, class and split of each video. A split is `train`,
            `val` or `test`, or empty where the source names none: then splits are cut.

        Raises:
            SourceError: the source does not fit the layout.
        """

    def relations(self, config: IngestConfig) -> Iterator[tuple[str, bool, str]]:
        """For an option that depends on the layout its name, whether it fits, and what it must be.

        By default an option of official lists is refused where it would do nothing.
        """
        name = LAYOUTS.name_of(config.layout)
        splits = range(1, self.num_splits + 1)
        promise = f"one of {', '.join(map(str, splits))} with layout {name}"
        yield "official_split", config.official_split in splits, promise
        fits = self.has_spare_videos or config.train_list == "official"
        yield "train_list", fits, f"official with layout {name}; only hmdb51 has videos in neither list"
        official = [name for name, at in LAYOUTS.registry.items() if at.startswith("prism.ingestion.official:")]
        fits = self.reads_annotations or not config.annotations
        yield "annotations", fits, f"empty unless the layout is one of {', '.join(official)}"


def require_folder(source: Path) -> None:
    """Refuse a source that is a file.

    Raises:
        SourceError: it is one.
    """
    if not source.is_dir():
        raise SourceError(f"source '{source}' is a file, but this layout needs a folder.")
