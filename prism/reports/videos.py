"""Videos: for each class a real clip, and beside it those of every set, as strips that the style sheet plays.

The sets and stores that results name are found again, or a sentence says why not.

A strip is one picture with the frames of a clip side by side.
"""

import base64
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from prism.reports.text import counted, grouped

MAX_SHOWN_FRAMES = 64
BUDGET_BYTES = 15_000_000
"""For all strips of a page; base64 makes four bytes of three."""
QUALITY, MAX_SIDE = 75, 112
"""WebP quality in 0..100, and the largest side of a frame. A picture may be 16383 pixels wide: 64 frames fit."""


@dataclass(frozen=True)
class SetFile:
    """A condensed set that one or more results were made of, as far as it can be shown.

    Attributes:
        name: the labels of those results, sorted, with the file's name where another set has the same.
        problem: a sentence on why the set is not there.
    """

    path: Path
    name: str
    condensed: CondensedSet | None = None
    problem: str = ""


def find_sets(results: Sequence[Result]) -> list[SetFile]:
    """The sets of results, each once, by label and path."""
    users: dict[Path, list[Result]] = {}
    for one in results:
        if one.subject.kind == "condensed" and one.subject.path:
            users.setdefault(one.locate(one.subject.path), []).append(one)
    labels = {path: sorted({one.label for one in some}) for path, some in users.items()}
    shared = Counter(map(tuple, labels.values()))
    found = []
    for path in sorted(users, key=lambda path: (labels[path], str(path))):
        name = " / ".join(labels[path])
        name += f" ({path.stem})" if shared[tuple(labels[path])] > 1 else ""
        try:
            condensed, problem = CondensedSet.load(path), ""
        except (PrismError, OSError) as error:
            condensed, problem = None, f"Set {name} cannot be shown: {error}"
        if condensed and any(one.subject.fingerprint != condensed.fingerprint for one in users[path]):
            problem = f"Set '{path}' has changed since it was evaluated. Its videos are not shown."
        found.append(SetFile(path, name, None if problem else condensed, problem))
    return found


def find_store(results: Sequence[Result]) -> tuple[ClipStore | None, str]:
    """The store that results with one fingerprint were scored on, or a sentence that says why it is missing."""
    problem = ""
    for path in sorted({one.locate(one.data.path) for one in results}):
        try:
            store = ClipStore.open(path, verify=False)
        except (PrismError, OSError) as error:
            problem = problem or f"No real clips are shown beside the videos: {error}"
            continue
        if store.fingerprint == results[0].data.fingerprint:
            return store, ""
        problem = f"Store '{path}' holds other clips than the results were scored on. They are not shown."
    return None, problem


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
    encoded, shown = encode_all([tile for some in tiles for tile in some]), []
    for some in tiles:
        kept = [encoded[id(tile)] for tile in some if id(tile) in encoded]
        of_class = grouped(sorted(kept, key=lambda tile: tile.class_name), lambda tile: tile.class_name)
        shown.append(Gallery({of[0].class_name: of for of in of_class}, tuple(_notes(len(some), kept))))
    return shown


def encode_all(tiles: Sequence[Tile], budget: int = BUDGET_BYTES) -> dict[int, Tile]:
    """The tiles by `id`, with strips, or as many of them as fit into a number of bytes."""
    filled = dict[int, Tile]()
    for tile in sorted(tiles, key=lambda tile: tile.rank):
        strip = encode(tile.load())
        budget -= len(strip)
        if budget < 0:
            break
        filled[id(tile)] = replace(tile, source=f"data:image/webp;base64,{base64.b64encode(strip).decode()}")
    return filled


def shown_times(num_frames: int) -> list[int]:
    """The frames of a clip that its strip holds: all, or 64 spread evenly over a longer one."""
    places = np.linspace(0, num_frames - 1, min(num_frames, MAX_SHOWN_FRAMES))
    return [round(place) for place in places]


def encode(clip: Tensor) -> bytes:
    """A strip of a clip's shown frames side by side, as WebP; values outside [0, 1] are clipped."""
    height, width = clip.shape[2:]
    factor = min(1.0, MAX_SIDE / max(height, width))
    size = max(1, round(width * factor)), max(1, round(height * factor))
    frames = as_levels(clip[shown_times(len(clip))])
    pictures = [np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BOX)) for frame in frames]
    data = io.BytesIO()
    Image.fromarray(np.concatenate(pictures, axis=1)).save(data, "WEBP", method=1, quality=QUALITY)
    return data.getvalue()


def _real_tiles(store: ClipStore) -> Iterator[Tile]:
    if not store.positions("train"):
        return
    clips, shown = store.clips("train"), len(shown_times(store.num_frames))
    for label, name in enumerate(store.classes):
        for place in (clips.labels == label).nonzero().flatten().tolist()[:1]:
            alt = f"First real training clip of class {name}, playing"
            about = "real clip", "first of the class", alt, store.size, shown
            yield Tile(name, True, 0, partial(clips.frames.__getitem__, place), *about)


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
        load, about = partial(_rendered, condensed, video), (name, note, alt, condensed.size, len(shown), marks)
        yield Tile(condensed.classes[label], False, ranks[label], load, *about)
        ranks[label] += 1


def _rendered(condensed: CondensedSet, video: int) -> Tensor:
    return condensed.render(torch.tensor([video]))[0]


def _notes(num_tiles: int, kept: Sequence[Tile]) -> Iterator[str]:
    if left_out := num_tiles - len(kept):
        yield f"{left_out:,} of {counted(num_tiles, 'video')} are left out to keep this page small."
    yield f"The pictures are compressed (WebP, at most {MAX_SIDE} pixels a side); networks see the originals."
    if max((tile.num_shown for tile in kept), default=0) == MAX_SHOWN_FRAMES:
        yield f"Of longer clips, {MAX_SHOWN_FRAMES} evenly spread frames are shown."
