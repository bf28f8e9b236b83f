"""Videos of the page: for each class a real clip beside the videos of every set, as strips.

A strip is a picture with a clip's frames side by side, which the style sheet animates.
"""

import base64
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from prism.artifacts.clips import as_levels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.errors import PrismError
from prism.reports.rows import Row, names_of
from prism.reports.text import counted, grouped

MAX_SHOWN_FRAMES = 64
BUDGET_BYTES = 15_000_000
"""Largest total size of a data set's strips, before base64 makes four bytes of three."""
QUALITY, MAX_SIDE = 75, 112
"""WebP quality in 0..100, and the largest side of a frame. A picture may be 16383 pixels wide: 64 frames fit."""


def find_sets(rows: Sequence[Row]) -> tuple[list["Tile"], list[str]]:
    """The videos of each row's first set that can be shown, and sentences on the sets that cannot."""
    found, problems = dict[Path, list[Tile]](), dict[Path, str]()
    every = [one for row in rows for one in row.results]
    labels, names = Counter(one.label for one in every), names_of(one.subject_path for one in every)
    load = lru_cache(1)(CondensedSet.load)  # All sets of a page together may not fit into memory.
    for row in rows:
        for one in (one for one in row.results if one.subject.kind == "condensed"):
            path = one.subject_path
            name = one.label if labels[one.label] == 1 else f"{one.label} ({names[path]})"
            if not one.subject.path:
                problems[one.file or path] = f"Set {name} was scored in memory. Its videos are not shown."
                continue
            try:
                condensed = load(path)
            except (PrismError, OSError) as error:
                problems[path] = f"Set {name} cannot be shown: {error}"
                continue
            if condensed.fingerprint == one.subject.fingerprint:
                found[path] = found.get(path) or list(_set_tiles(name, condensed, partial(load, path)))
                break
            problems[path] = f"Set '{path}' has changed since it was evaluated. Its videos are not shown."
    return [tile for tiles in found.values() for tile in tiles], list(problems.values())


def find_store(results: Sequence[Result]) -> tuple[ClipStore | None, list[str]]:
    """The store that the results were scored on; or None, with a sentence for each path that does not hold it."""
    problems = list[str]()
    for path in sorted({one.locate(one.data.path) for one in results}):
        try:
            store = ClipStore.open(path, verify=False)
        except (PrismError, OSError) as error:
            problems.append(f"No real clips are shown beside the videos: {error}")
            continue
        if store.fingerprint == results[0].data.fingerprint:
            return store, []
        problems.append(f"Store '{path}' holds other clips than the results were scored on. They are not shown.")
    return None, problems


@dataclass(frozen=True)
class Tile:
    """A clip that plays on the page.

    Attributes:
        rank: if not all tiles fit, those of low rank are shown.
        load: function that gives the clip (1, T, C, H, W), uint8 or float in units of [0, 1].
        marks: for each shown frame, whether it is a key-frame; empty for a real clip.
        source: data URI of the strip.
    """

    class_name: str
    rank: int
    load: Callable[[], Tensor]
    caption: str
    note: str
    alt: str
    size: tuple[int, int]
    num_shown: int
    marks: tuple[bool, ...] = ()
    source: str = ""


Gallery = dict[str, list[Tile]]
"""Tiles by class name."""


def gallery_of(store: ClipStore | None, videos: Sequence[Tile]) -> tuple[Gallery, list[str]]:
    """A real clip of each class (if there is a store) and the videos of sets, by class; and notes on them."""
    tiles = [*(() if store is None else _real_tiles(store)), *videos]
    kept = with_strips(tiles)
    of_class = grouped(sorted(kept, key=lambda tile: tile.class_name), lambda tile: tile.class_name)
    notes = [f"The pictures are compressed (WebP, at most {MAX_SIDE} pixels a side); networks see the originals."]
    if left_out := len(tiles) - len(kept):
        notes.append(f"{left_out:,} of {counted(len(tiles), 'video')} are left out to keep this page small.")
    if any(tile.num_shown == MAX_SHOWN_FRAMES for tile in kept):
        notes.append(f"Of longer clips, the first {MAX_SHOWN_FRAMES} frames are shown.")
    return {of[0].class_name: of for of in of_class}, notes


def with_strips(tiles: Sequence[Tile], budget: int = BUDGET_BYTES) -> list[Tile]:
    """The tiles with their strips, by rank, until `budget` bytes are used."""
    filled = list[Tile]()
    for tile in sorted(tiles, key=lambda tile: tile.rank):
        strip = encode(tile.load()[0])
        budget -= len(strip)
        if budget < 0:
            break
        filled.append(replace(tile, source=f"data:image/webp;base64,{base64.b64encode(strip).decode()}"))
    return filled


def encode(clip: Tensor) -> bytes:
    """A strip of a clip's shown frames side by side, as WebP; values outside [0, 1] are clipped."""
    height, width = clip.shape[2:]
    factor = min(1.0, MAX_SIDE / max(height, width))
    size = max(1, round(width * factor)), max(1, round(height * factor))
    frames = as_levels(clip[:MAX_SHOWN_FRAMES])
    pictures = [np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BOX)) for frame in frames]
    data = io.BytesIO()
    Image.fromarray(np.concatenate(pictures, axis=1)).save(data, "WEBP", method=1, quality=QUALITY)
    return data.getvalue()


def _real_tiles(store: ClipStore) -> Iterator[Tile]:
    clips, shown = store.clips("train"), min(store.num_frames, MAX_SHOWN_FRAMES)
    labels = clips.labels.tolist()
    for label in sorted(set(labels)):
        name, place = store.classes[label], labels.index(label)
        alt = f"First real training clip of class {name}, playing"
        about = "real clip", "first of the class", alt, store.size, shown
        yield Tile(name, 0, clips.frames[place : place + 1].clone, *about)


def _set_tiles(name: str, condensed: CondensedSet, load: Callable[[], CondensedSet]) -> Iterator[Tile]:
    """Tiles of the videos of a set; `load` loads the set again when their pictures are drawn."""
    ranks, shown = Counter[int](), min(condensed.num_frames, MAX_SHOWN_FRAMES)
    for video, (label, marks) in enumerate(zip(condensed.labels.tolist(), condensed.mask.tolist(), strict=True)):
        times = [time for time, is_keyframe in enumerate(marks) if is_keyframe]
        note = f"{len(times)} of {len(marks)} stored" if times else f"rendered by {condensed.encoding.NAME}"
        if condensed.takes > 1:
            note = f"take 1 of {condensed.takes}"
        alt = f"Video of class {condensed.classes[label]} in set {name}, playing; "
        alt += f"key-frames {', '.join(map(str, times))}" if times else "no frame is stored as it is"
        about = name, note, alt, condensed.size, shown, tuple(marks[:shown])
        yield Tile(condensed.classes[label], ranks[label], partial(_render, load, video), *about)
        ranks[label] += 1


def _render(load: Callable[[], CondensedSet], video: int) -> Tensor:
    return load().render(torch.tensor([video]))
