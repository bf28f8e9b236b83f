"""Sheets: one animated picture on which all videos of a set play, each under the name of its class."""

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from prism.artifacts.clips import as_levels
from prism.artifacts.condensed import CondensedSet
from prism.errors import ConfigError
from prism.exports.format import Format, Shown
from prism.machine.files import write_synced
from prism.reports.text import printable

SMALLEST_TILE = 96
"""Smaller videos are enlarged by a whole factor, so that their pixels can be seen."""
CAPTION, GAP = 14, 4
"""Height of a caption, and distance between tiles, in pixels."""
MAX_SIDE = 16383
"""Pixels of a WebP picture; longer sides are no sheet to look at."""
MAX_GIF_FPS = 50
"""Frames per second of a GIF: browsers show a frame of less than 2/100 s for 10/100 s."""
MAX_BYTES = 2**31
"""All frames of a sheet, which the encoder wants in memory."""


@dataclass(frozen=True)
class PictureSheet(Format):
    """Base of the sheets.

    Attributes:
        fps: frames per second, in 0.1..240.
    """

    is_folder: ClassVar[bool] = False
    options: ClassVar[dict[str, Any]]
    """What Pillow is told."""
    tick: ClassVar[int] = 1
    """Milliseconds of which the format stores whole numbers."""

    fps: float = 8.0

    def check(self, condensed: CondensedSet) -> None:
        """Refuse a sheet that is too large."""
        height, width = _Grid.of(condensed).size
        if max(height, width) > MAX_SIDE or condensed.num_frames * height * width * 3 > MAX_BYTES:
            raise ConfigError(
                f"a sheet of {len(condensed)} videos would have {condensed.num_frames} frames of {height}×{width} "
                "pixels, which is too large. Choose --to videofolder."
            )

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        """Draw all videos and write the picture; nothing of it is compared."""
        first, *others = self.pictures(_Grid.of(condensed).drawn(condensed))
        data = io.BytesIO()
        how = {
            "save_all": True,
            "append_images": others,
            "duration": self.durations(condensed.num_frames),
            "loop": 0,
        }
        first.save(data, **how, **self.options)
        write_synced(path, data.getvalue())
        yield from ()

    def durations(self, num_frames: int) -> list[int]:
        """Milliseconds of each frame, whole ticks whose sum up to any frame is off by half a tick at most."""
        ends = [round(1000 * frame / self.fps / self.tick) for frame in range(num_frames + 1)]
        return [self.tick * (end - start) for start, end in pairwise(ends)]

    def pictures(self, frames: np.ndarray) -> list[Image.Image]:
        """The frames (T, H, W, 3) uint8 in the colours of the format; all of them by default."""
        return [Image.fromarray(frame) for frame in frames]


@dataclass(frozen=True)
class Gif(PictureSheet):
    """A GIF of 256 colours, which plays everywhere."""

    options: ClassVar[dict[str, Any]] = {"format": "GIF"}
    tick: ClassVar[int] = 10

    def check(self, condensed: CondensedSet) -> None:
        """Refuse frames too short for players, which show those of less than two ticks much longer."""
        super().check(condensed)
        if self.fps > MAX_GIF_FPS:
            raise ConfigError(
                f"export.fps = {self.fps}, but it must be at most {MAX_GIF_FPS} with the format gif. "
                "Choose a smaller number or --to webp."
            )

    def pictures(self, frames: np.ndarray) -> list[Image.Image]:
        """One palette for all frames, so that nothing flickers that stands still."""
        # Median cut, Pillow's own choice, leaves single pixels of a noisy set 100 levels off; this one 27 at most.
        colours = Image.fromarray(frames.reshape(-1, *frames.shape[2:])).quantize(
            256, method=Image.Quantize.MAXCOVERAGE
        )
        return [frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in super().pictures(frames)]


@dataclass(frozen=True)
class WebP(PictureSheet):
    """A WebP picture without loss."""

    options: ClassVar[dict[str, Any]] = {"format": "WEBP", "lossless": True, "quality": 20, "method": 1}


@dataclass(frozen=True)
class _Grid:
    """Rows and columns of tiles, in the order of the videos.

    Attributes:
        tile: height and width of a video on the sheet.
    """

    rows: int
    columns: int
    tile: tuple[int, int]

    @classmethod
    def of(cls, condensed: CondensedSet) -> "_Grid":
        """The grid for a set, about as wide as high."""
        height, width = condensed.size
        factor = math.ceil(SMALLEST_TILE / max(height, width))
        least = math.ceil(math.sqrt(len(condensed)))
        # Rows without a gap at the end, where one or two more columns do that.
        columns = next((num for num in range(least, least + 3) if len(condensed) % num == 0), least)
        return cls(math.ceil(len(condensed) / columns), columns, (factor * height, factor * width))

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the sheet in pixels."""
        height, width = self.tile
        return self.rows * (height + CAPTION + GAP) + GAP, self.columns * (width + GAP) + GAP

    def drawn(self, condensed: CondensedSet) -> np.ndarray:
        """The frames of the sheet, (T, H, W, 3) uint8."""
        (height, width), (below, across) = self.tile, self.size
        paper = Image.new("RGB", (across, below), "white")
        writing, font, places = ImageDraw.Draw(paper), ImageFont.load_default(), []
        for video, label in enumerate(condensed.labels.tolist()):
            row, column = divmod(video, self.columns)
            top, left = GAP + row * (height + CAPTION + GAP), GAP + column * (width + GAP)
            places.append((top + CAPTION, left))
            # The font has the letters of Western Europe only.
            name = printable(condensed.classes[label]).encode("latin-1", "replace").decode("latin-1")
            while name and font.getlength(name) > width:
                name = name[:-1]
            writing.text((left, top), name, "black", font)
        frames = np.repeat(np.asarray(paper)[None], condensed.num_frames, axis=0)
        for video, (top, left) in enumerate(places):
            levels = as_levels(condensed.render(torch.tensor([video]))[0])
            factor = height // levels.shape[1]
            enlarged = levels.repeat(factor, axis=1).repeat(factor, axis=2)
            frames[:, top : top + height, left : left + width] = enlarged
        return frames
