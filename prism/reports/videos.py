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
QUALITIES = ((224, None), (112, 75), (48, 35))
"""Largest side of a frame, and WebP quality in 0..100 (None: lossless), from the best to the last that is tried. A
WebP picture may be 16383 pixels wide: 64 frames of 224 fit."""

Quality = tuple[int, int | None]
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Tile:
    """A playing clip.

    Attributes:
        rank: low ones are shown first where not all fit.
        load: its clip (T, C, H, W), uint8 or float in units of [0, 1].
        marks: for each shown frame whether it is a key-frame; empty for a real clip.
        source: data URI of its strip.
    """

    class_name: str
    is_real: bool
    rank: int
    load: Callable[[], Tensor]
    caption: str
    note: str
    alt: str
    size: tuple[int, int]
    num_shown: int
    marks: tuple[bool, ...] = ()
    source: str = ""


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
        for found in sets:
            if found.condensed is not None:
                tiles[-1] += _set_tiles(found.name, found.condensed)
    encoded, quality = encode_all([tile for some in tiles for tile in some])
    shown = []
    for some in tiles:
        kept = [encoded[id(tile)] for tile in some if id(tile) in encoded]
        names = sorted({tile.class_name for tile in kept})
        classes = {name: [tile for tile in kept if tile.class_name == name] for name in names}
        shown.append(Gallery(classes, tuple(_notes(len(some), kept, quality))))
    return shown


def encode_all(tiles: Sequence[Tile], budget: int = BUDGET_BYTES) -> tuple[dict[int, Tile], Quality]:
    """The tiles by `id`, with strips in the best quality in which all fit, or as many as fit in the last."""
    ordered, filled = sorted(tiles, key=lambda tile: tile.rank), dict[int, Tile]()
    for quality in QUALITIES:
        left, filled = budget, {}
        for tile in ordered:
            strip = encode(shown_frames(tile.load()), quality)
            left -= len(strip)
            if left < 0:
                break
            source = f"data:image/webp;base64,{base64.b64encode(strip).decode()}"
            filled[id(tile)] = replace(tile, source=source)
        if left >= 0:
            return filled, quality
    return filled, QUALITIES[-1]


def shown_times(num_frames: int) -> list[int]:
    """The frames of a clip that its strip holds: all, or 64 spread evenly over a longer one."""
    places = np.linspace(0, num_frames - 1, min(num_frames, MAX_SHOWN_FRAMES))
    return [round(place) for place in places]


def shown_frames(clip: Tensor) -> Pixels:
    """A clip's shown frames as pixels (T, H, W, C); values outside [0, 1] are clipped."""
    return as_levels(clip[shown_times(len(clip))])


def encode(frames: Pixels, quality: Quality) -> bytes:
    """A strip of frames side by side, as WebP."""
    (side, level), (height, width) = quality, frames.shape[1:3]
    factor = side / max(height, width)
    if factor < 1:
        size = (max(1, round(width * factor)), max(1, round(height * factor)))
        pictures = (Image.fromarray(frame).resize(size, Image.Resampling.BOX) for frame in frames)
        frames = np.stack([np.asarray(picture) for picture in pictures])
    data = io.BytesIO()
    # For lossless pictures, `quality` is effort: more than this costs ten times as long for the same size.
    options = {"lossless": True, "quality": 20} if level is None else {"quality": level}
    Image.fromarray(np.concatenate(frames, axis=1)).save(data, "WEBP", method=1, **options)
    return data.getvalue()


def _real_tiles(store: ClipStore) -> Iterator[Tile]:
    if not store.positions("train"):
        return
    clips, shown = store.clips("train"), len(shown_times(store.num_frames))
    for label, name in enumerate(store.classes):
        for place in (clips.labels == label).nonzero().flatten().tolist()[:1]:
            alt = f"First real training clip of class {name}, playing"
            about = "real clip", "first of the class", alt, store.size, shown
            yield Tile(name, True, 0, lambda place=place: clips.frames[place], *about)


def _set_tiles(name: str, condensed: CondensedSet) -> Iterator[Tile]:
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
        about = name, note, alt, condensed.size, len(shown), marks
        yield Tile(
            condensed.classes[label],
            False,
            ranks[label],
            lambda video=video: condensed.render(torch.tensor([video]))[0],
            *about,
        )
        ranks[label] += 1


def _notes(num_tiles: int, kept: Sequence[Tile], quality: Quality) -> Iterator[str]:
    if left_out := num_tiles - len(kept):
        yield f"{left_out:,} of {counted(num_tiles, 'video')} are left out to keep this page small."
    side, level = quality
    lossy = f"are compressed (WebP, quality {level}, at most {side} pixels a side; networks see the originals)"
    yield f"The pictures {'hold the frames without loss' if level is None else lossy}."
    if max((tile.num_shown for tile in kept), default=0) == MAX_SHOWN_FRAMES:
        yield f"Of longer clips, {MAX_SHOWN_FRAMES} evenly spread frames are shown."
