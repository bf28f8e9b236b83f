"""Videos: a clip as one picture with its frames side by side, which the style sheet of the page plays."""

import base64
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from prism.artifacts.clips import as_levels

MAX_SHOWN_FRAMES = 64
BUDGET_BYTES = 15_000_000
"""For all strips of a page; base64 makes four bytes of three."""

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Quality:
    """How strips are compressed.

    Attributes:
        side: largest height and width of a frame; larger ones are scaled down.
        level: WebP quality in 0..100, None for lossless.
    """

    side: int
    level: int | None


# A WebP picture may be 16383 pixels wide: 64 frames of 224 fit.
QUALITIES = (Quality(224, None), Quality(224, 90), Quality(112, 75), Quality(64, 60), Quality(48, 35))


@dataclass(frozen=True)
class Shot:
    """A clip to be shown.

    Attributes:
        load: gives its frames (T, C, H, W), uint8 or float in units of [0, 1].
        rank: shots of low rank are shown first where not all fit.
    """

    load: Callable[[], Tensor]
    rank: int


def encode_all(shots: Sequence[Shot], budget: int = BUDGET_BYTES) -> tuple[list[str | None], Quality]:
    """Data URIs of the shots, in the best quality in which all of them fit.

    Returns:
        A data URI for each shot, or None where not even the lowest quality leaves room, and the quality.
    """
    quality = _choose(shots, budget)
    sources: list[str | None] = [None] * len(shots)
    for place in sorted(range(len(shots)), key=lambda i: shots[i].rank):
        strip = encode(shown_frames(shots[place].load()), quality)
        budget -= len(strip)
        if budget < 0:
            break
        sources[place] = f"data:image/webp;base64,{base64.b64encode(strip).decode()}"
    return sources, quality


def _choose(shots: Sequence[Shot], budget: int) -> Quality:
    samples = [shown_frames(shots[i].load()) for i in _spread(len(shots), 12)]
    for quality in QUALITIES[:-1]:
        mean = sum(len(encode(sample, quality)) for sample in samples) / max(1, len(samples))
        if 1.1 * mean * len(shots) <= budget:
            return quality
    return QUALITIES[-1]


def _spread(length: int, num: int) -> Iterable[int]:
    return sorted({round(place) for place in np.linspace(0, length - 1, min(num, length))})


def shown_times(num_frames: int) -> list[int]:
    """The frames of a clip that its strip holds: all, or 64 spread evenly over a longer one."""
    return list(_spread(num_frames, MAX_SHOWN_FRAMES))


def shown_frames(clip: Tensor) -> Pixels:
    """A clip's shown frames as pixels (T, H, W, C); values outside [0, 1] are clipped."""
    return as_levels(clip[shown_times(len(clip))])


def encode(frames: Pixels, quality: Quality) -> bytes:
    """A strip of frames side by side, as WebP."""
    height, width = frames.shape[1:3]
    factor = quality.side / max(height, width)
    if factor < 1:
        size = (max(1, round(width * factor)), max(1, round(height * factor)))
        pictures = (Image.fromarray(frame).resize(size, Image.Resampling.BOX) for frame in frames)
        frames = np.stack([np.asarray(picture) for picture in pictures])
    num_frames, height, width, channels = frames.shape
    strip = np.ascontiguousarray(frames.transpose(1, 0, 2, 3)).reshape(height, num_frames * width, channels)
    data = io.BytesIO()
    # For lossless pictures, `quality` is effort: more than this costs ten times as long for the same size.
    options = {"lossless": True, "quality": 20} if quality.level is None else {"quality": quality.level}
    Image.fromarray(strip).save(data, "WEBP", method=1, **options)
    return data.getvalue()
