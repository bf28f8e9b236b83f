"""Videos: for each class a real clip, and beside it those of every set, as strips that the style sheet plays.

A strip is one picture with the frames of a clip side by side.
"""

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from prism.artifacts.clips import as_levels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.store import ClipStore
from prism.reports.sources import SetFile
from prism.reports.text import counted

MAX_SHOWN_FRAMES = 64
BUDGET_BYTES = 15_000_000
"""For all strips of a page; base64 makes four bytes of three."""

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Quality:
    """The largest side of a frame in a strip, and its WebP quality in 0..100, None for lossless."""

    side: int
    level: int | None


# A WebP picture may be 16383 pixels wide: 64 frames of 224 fit.
QUALITIES = (Quality(224, None), Quality(224, 90), Quality(112, 75), Quality(64, 60), Quality(48, 35))


@dataclass(frozen=True)
class Shot:
    """A clip (T, C, H, W), uint8 or float in units of [0, 1]; low ranks are shown first where not all fit."""

    load: Callable[[], Tensor]
    rank: int


def encode_all(shots: Sequence[Shot], budget: int = BUDGET_BYTES) -> tuple[list[str | None], Quality]:
    """Data URIs in the best quality in which all shots fit, None where the lowest leaves no room; that quality."""
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


def _spread(length: int, num: int) -> list[int]:
    return sorted({round(place) for place in np.linspace(0, length - 1, min(num, length))})


def shown_times(num_frames: int) -> list[int]:
    """The frames of a clip that its strip holds: all, or 64 spread evenly over a longer one."""
    return _spread(num_frames, MAX_SHOWN_FRAMES)


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


@dataclass(frozen=True)
class Tile:
    """A playing clip.

    Attributes:
        set_index: position of its set, −1 for a real clip.
        marks: for each shown frame whether it is a key-frame; empty for a real clip.
        source: data URI of its strip.
    """

    class_name: str
    set_index: int
    caption: str
    note: str
    alt: str
    size: tuple[int, int]
    num_shown: int
    marks: tuple[bool, ...]
    shot: Shot
    source: str | None = None


@dataclass(frozen=True)
class Gallery:
    """The tiles of a data set by class, which play in step, and what to know about them."""

    classes: dict[str, list[Tile]]
    notes: tuple[str, ...]


def galleries(wanted: Sequence[tuple[ClipStore | None, Sequence[SetFile]]]) -> list[Gallery]:
    """One gallery for each store and its sets; together they keep within the page's size."""
    tiles = []
    for store, sets in wanted:
        tiles.append([] if store is None else list(_real_tiles(store)))
        for index, found in enumerate(sets):
            if found.condensed is not None:
                tiles[-1] += _set_tiles(index, found.name, found.condensed)
    sources, quality = encode_all([tile.shot for some in tiles for tile in some])
    encoded = iter(sources)
    shown = []
    for some in tiles:
        filled = [replace(tile, source=next(encoded)) for tile in some]
        kept = [tile for tile in filled if tile.source is not None]
        names = sorted({tile.class_name for tile in kept})
        classes = {name: [tile for tile in kept if tile.class_name == name] for name in names}
        shown.append(Gallery(classes, tuple(_notes(filled, quality))))
    return shown


def _real_tiles(store: ClipStore) -> Iterator[Tile]:
    if not store.positions("train"):
        return
    clips = store.clips("train")
    for label, name in enumerate(store.classes):
        mine = (clips.labels == label).nonzero().flatten()
        if not len(mine):
            continue
        shot = Shot(lambda place=int(mine[0]): clips.frames[place], rank=0)
        shown = len(shown_times(store.num_frames))
        alt = f"First real training clip of class {name}, playing"
        yield Tile(name, -1, "real clip", "first of the class", alt, store.size, shown, (), shot)


def _set_tiles(index: int, name: str, condensed: CondensedSet) -> Iterator[Tile]:
    num_frames, ranks = condensed.num_frames, [0] * len(condensed.classes)
    shown = shown_times(num_frames)
    for video, label in enumerate(condensed.labels.tolist()):
        times = condensed.mask[video].nonzero().flatten().tolist()
        # A long clip shows some of its frames: each of them stands for those up to the next.
        marks = tuple(any(a <= t < b for t in times) for a, b in zip(shown, [*shown[1:], num_frames], strict=True))
        note = f"{len(times)} of {num_frames} stored" if times else f"rendered by {condensed.encoding.NAME}"
        if condensed.takes > 1:
            note = f"take 1 of {condensed.takes}"
        alt = f"Video of class {condensed.classes[label]} in set {name}, playing; "
        alt += f"key-frames {', '.join(map(str, times))}" if times else "no frame is stored as it is"
        shot = Shot(lambda video=video: condensed.render(torch.tensor([video]))[0], ranks[label])
        ranks[label] += 1
        yield Tile(condensed.classes[label], index, name, note, alt, condensed.size, len(shown), marks, shot)


def _notes(tiles: Sequence[Tile], quality: Quality) -> Iterator[str]:
    left_out = sum(tile.source is None for tile in tiles)
    if left_out:
        yield f"{left_out:,} of {counted(len(tiles), 'video')} are left out to keep this page small."
    if quality.level is None:
        yield "The pictures hold the frames without loss."
    else:
        yield (
            f"The pictures are compressed (WebP, quality {quality.level}, at most {quality.side} pixels a side) "
            "to keep this page small; networks are trained on the originals."
        )
    longest = max((tile.num_shown for tile in tiles), default=0)
    if longest == MAX_SHOWN_FRAMES:
        yield f"Of clips with more than {longest} frames, {longest} evenly spread ones are shown."
