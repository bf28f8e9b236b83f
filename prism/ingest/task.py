"""What is asked of a decoding process, and what it answers: plain values that travel as lines of JSON."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from prism.ingest.sampling import Window, centre_window, random_windows

READY = "ready"
"""The first line of a decoding process."""


@dataclass(frozen=True)
class Task:
    """One video to decode, and where its clips go: the file of slots, and the byte in it."""

    path: str
    relative: str
    is_train: bool
    slots: str
    offset: int
    num_frames: int
    stride: int
    size: int
    clips_per_video: int
    seed: int

    def to_json(self) -> str:
        """One line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Task":
        """Read `to_json`'s text."""
        return cls(**json.loads(text))

    def windows(self, video_frames: int) -> list[Window]:
        """Random windows for training, else the one in the centre."""
        if not self.is_train:
            return [centre_window(video_frames, self.num_frames, self.stride)]
        return random_windows(
            video_frames,
            self.num_frames,
            self.stride,
            count=self.clips_per_video,
            seed=self.seed,
            path=self.relative,
        )


@dataclass(frozen=True)
class Outcome:
    """What became of one video: the windows that were read, or why it was skipped."""

    windows: tuple[Window, ...] = ()
    video_frames: int = 0
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Outcome":
        """Read `to_dict`'s values."""
        windows = tuple(Window(**window) for window in values["windows"])
        return cls(windows, int(values["video_frames"]), str(values["reason"]))
