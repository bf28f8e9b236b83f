"""The tasks of a decoding process and its answers: plain values that travel as lines of JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any

from prism.ingestion.listing import VideoSource
from prism.ingestion.options import IngestConfig
from prism.ingestion.sampling import Sampling, Window
from prism.machine.text_io import count

READY = "ready"
"""The first line of a decoding process."""


@dataclass(frozen=True)
class Limits:
    """Limits of one video's size, length, time and memory; the fields are options of `IngestConfig`."""

    min_side: int
    max_pixels: int
    max_seconds: float
    max_decode_seconds: float
    max_decode_bytes: int

    @classmethod
    def of(cls, config: IngestConfig) -> "Limits":
        """The limits that a config sets."""
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class Task:
    """One video to decode, and where its clips go: the file of slots, and the byte in it."""

    path: str
    relative: str
    split: str
    slots: str
    offset: int
    size: int
    follow_links: bool
    damaged: str
    sampling: Sampling
    limits: Limits

    @classmethod
    def of(cls, video: VideoSource, config: IngestConfig, slots: Path, offset: int) -> "Task":
        """The order to decode a video into its slots in a file, from a byte on."""
        return cls(
            path=str(video.path.absolute()),
            relative=video.relative,
            split=video.split,
            slots=str(slots),
            offset=offset,
            size=config.size,
            follow_links=config.follow_links,
            damaged=config.damaged,
            sampling=Sampling.of(config),
            limits=Limits.of(config),
        )

    @property
    def root(self) -> Path:
        """The folder that frames may not lead out of by a link: the source."""
        if self.follow_links:
            return Path(Path(self.path).anchor)
        return Path(self.path).parents[len(PurePosixPath(self.relative).parts) - 1]

    def to_json(self) -> str:
        """One line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Task":
        """Read `to_json`'s text."""
        values = json.loads(text)
        parts = {"sampling": Sampling(**values["sampling"]), "limits": Limits(**values["limits"])}
        return cls(**(values | parts))

    def windows(self, video_frames: int, runs: Sequence[range], rate: Fraction | None) -> list[Window]:
        """The windows to read; see `Sampling.windows`."""
        return self.sampling.windows(video_frames, self.relative, self.split, rate, runs)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one video: the windows that were read and the damage outside, or why it was skipped."""

    windows: tuple[Window, ...] = ()
    video_frames: int = 0
    reason: str = ""
    damage: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        windows = [{"start": window.start, "stride": window.stride} for window in self.windows]
        return {
            "windows": windows,
            "video_frames": self.video_frames,
            "reason": self.reason,
            "damage": self.damage,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Outcome":
        """Read `to_dict`'s values.

        Raises:
            KeyError, TypeError, ValueError: they are not such values.
        """
        windows = tuple(Window(count(window["start"]), count(window["stride"])) for window in values["windows"])
        return cls(windows, count(values["video_frames"]), str(values["reason"]), str(values["damage"]))
