"""The plan of a store: what is to be decoded into which bytes, settled before the first frame is."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

from prism.config import as_dict
from prism.errors import SourceError
from prism.ingestion.listing import Listing, VideoSource, frame_files
from prism.ingestion.options import IngestConfig
from prism.ingestion.pool import Task
from prism.ingestion.splits import list_videos, split_videos
from prism.ingestion.working import slot_offsets
from prism.machine.text_io import canonical_json, parse_json, read_text

PLAN_VERSION = 4


@dataclass(frozen=True)
class Plan:
    """The store that is to be made, settled before the first frame is decoded.

    Attributes:
        config: the options.
        listing: the videos that the layout found.
        videos: the same with their splits, in the order of the store.
        flip: whether a horizontal flip keeps the labels.
    """

    config: IngestConfig
    listing: Listing
    videos: Sequence[VideoSource]
    flip: bool

    @cached_property
    def stamps(self) -> list[str]:
        """For every video a digest of its files' names, sizes and times when the run began."""
        return [_stamp(video.path) for video in self.videos]

    def check_unchanged(self) -> None:
        """Refuse to make a store of videos that changed while they were decoded.

        Raises:
            SourceError: the first of them is named.
        """
        for video, stamp in zip(self.videos, self.stamps, strict=True):
            if _stamp(video.path) != stamp:
                change = f"video '{video.relative}' was changed or moved since the run began."
                raise SourceError(f"{change} Run the same command again; it starts again.")

    @cached_property
    def offsets(self) -> list[int]:
        """For every video the byte where its slots start, and at the end their whole size."""
        return slot_offsets(self.videos, self.config)

    def to_json(self) -> str:
        """The settings, the decoders, and a digest of the name, class, split, size and time of every video."""
        digest = hashlib.sha256()
        for video, stamp in zip(self.videos, self.stamps, strict=True):
            digest.update(canonical_json([video.relative, video.label, video.split, stamp]).encode())
        content = {
            "version": PLAN_VERSION,
            "settings": as_dict(self.config),
            "flip": self.flip,
            "versions": decoders(),
            "videos": digest.hexdigest(),
        }
        return canonical_json(content, indent=1)

    def task(self, number: int, slots: Path) -> Task:
        """The order to decode a video into its slots in a file."""
        return Task.of(self.videos[number], self.config, slots, self.offsets[number])


def make_plan(source: Path, config: IngestConfig) -> Plan:
    """Find the videos, give each its split, and put them in the order of the store.

    Raises:
        SourceError: the source is missing or wrong.
    """
    listing = list_videos(source, config)
    videos = split_videos(listing, config)
    flip = read_flip(listing.root) if config.flip == "auto" else config.flip == "on"
    return Plan(config, listing, videos, flip)


def read_flip(root: Path) -> bool:
    """Whether a horizontal flip keeps the labels, as the `prism.json` of a source says; true without one.

    Raises:
        SourceError: the file is not `{"flip": true}` or `{"flip": false}`; it may also say what it was `made_by`,
            and its `entries`.
    """
    file = root / "prism.json"
    if not file.exists():
        return True
    try:
        content = parse_json(read_text(file))
    except (OSError, ValueError) as error:
        raise SourceError(f"'{file}' cannot be read: {error}.") from None
    keys = set(content) - {"entries", "made_by"} if isinstance(content, dict) else set()
    if keys != {"flip"} or type(content["flip"]) is not bool:
        raise SourceError(f'\'{file}\' must be {{"flip": true}} or {{"flip": false}}, got {str(content)[:80]}.')
    return content["flip"]


def decoders() -> dict[str, str]:
    """The versions that decide the pixels of a clip: a store that was begun with others is started again."""
    return {name: metadata.version(name) for name in ("prism-condense", "av", "pillow")}


def _stamp(path: Path) -> str:
    """A digest of name, size and time of change of a video's files."""
    digest = hashlib.sha256()
    for file in frame_files(path) if path.is_dir() else [path]:
        try:
            found = file.stat()
            size, time = found.st_size, found.st_mtime_ns
        except OSError:
            size, time = -1, 0
        digest.update(canonical_json([file.name, size, time]).encode())
    return digest.hexdigest()
