"""The tasks of a decoding process and its answers: plain values that travel as lines of JSON."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any

from prism.ingestion.listing import VideoSource
from prism.ingestion.options import IngestConfig
from prism.ingestion.sampling import Window, centre_window, random_windows, stride_at
from prism.machine.texts import count

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
    is_random: bool
    slots: str
    offset: int
    num_frames: int
    stride: int
    sampling: str
    fps: float
    size: int
    clips_per_video: int
    seed: int
    limits: Limits
    random_test_windows: int = 0

    @classmethod
    def of(cls, video: VideoSource, config: IngestConfig, slots: Path, offset: int) -> "Task":
        """The order to decode a video into its slots in a file, from a byte on."""
        return cls(
            path=str(video.path.absolute()),
            relative=video.relative,
            is_random=video.split == "train" and config.window == "random" and config.sampling != "even",
            slots=str(slots),
            offset=offset,
            num_frames=config.num_frames,
            stride=config.stride,
            sampling=config.sampling,
            fps=config.fps,
            size=config.size,
            clips_per_video=config.clips_per_video,
            seed=config.seed,
            random_test_windows=config.random_test_windows if video.split == "test" else 0,
            limits=Limits.of(config),
        )

    @property
    def root(self) -> Path:
        """The source that the video is in."""
        return Path(self.path).parents[len(PurePosixPath(self.relative).parts) - 1]

    def to_json(self) -> str:
        """One line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Task":
        """Read `to_json`'s text."""
        values = json.loads(text)
        return cls(**{**values, "limits": Limits(**values["limits"])})

    def windows(self, video_frames: int, rate: Callable[[], Fraction]) -> list[Window]:
        """The windows to read: random ones, or the one in the centre and for a test video random ones after it.

        Every test video gives the same number of windows: a short video, which has fewer different windows, gives
        some of them again.

        Args:
            video_frames: frames of the video.
            rate: finds its frames per second; called only where the sampling needs it.
        """
        stride = self.stride
        if self.sampling == "fps":
            stride = stride_at(rate(), self.fps)
        elif self.sampling == "even":
            stride = video_frames
        drawn = random_windows(
            video_frames,
            self.num_frames,
            stride,
            count=self.clips_per_video if self.is_random else self.random_test_windows,
            seed=self.seed,
            path=self.relative,
        )
        if self.is_random:
            return drawn
        centre = centre_window(video_frames, self.num_frames, stride)
        return [centre, *(drawn[k % len(drawn)] for k in range(self.random_test_windows))]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one video: the windows that were read, or why it was skipped."""

    windows: tuple[Window, ...] = ()
    video_frames: int = 0
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        windows = [{"start": window.start, "stride": window.stride} for window in self.windows]
        return {"windows": windows, "video_frames": self.video_frames, "reason": self.reason}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Outcome":
        """Read `to_dict`'s values.

        Raises:
            KeyError, TypeError, ValueError: they are not such values.
        """
        windows = tuple(Window(count(window["start"]), count(window["stride"])) for window in values["windows"])
        return cls(windows, count(values["video_frames"]), str(values["reason"]))
