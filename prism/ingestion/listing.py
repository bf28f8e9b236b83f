"""What a source holds: the videos that a layout found, and what it left out and why."""

from dataclasses import dataclass, field
from pathlib import Path

from prism.errors import SourceError

VIDEO_SUFFIXES = (".mp4", ".avi", ".webm", ".mkv", ".mov")


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
    """What a source holds: the root that paths are relative to, its videos, what was left out and why, and what
    the user should know of it."""

    root: Path
    videos: list[VideoSource] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, path: Path, label: str, split: str) -> None:
        """Take a video in, or note why it cannot be."""
        relative = path.relative_to(self.root).as_posix()
        if not is_text(relative):
            self.skipped[as_text(relative)] = "its name is not valid UTF-8."
        elif not path.resolve().is_relative_to(self.root.resolve()):
            self.skipped[relative] = "it is a link that leaves the source."
        else:
            self.videos.append(VideoSource(path, relative, label, split))


def require_folder(source: Path) -> None:
    """Refuse a source that is a file.

    Raises:
        SourceError: it is one.
    """
    if not source.is_dir():
        raise SourceError(f"source '{source}' is a file, but this layout needs a folder.")


def is_text(name: str) -> bool:
    """Whether a file name can be written as UTF-8."""
    return name == as_text(name)


def as_text(name: str) -> str:
    """A file name with the bytes that are not UTF-8 spelled out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
