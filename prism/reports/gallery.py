"""The gallery: for each class a real clip, and beside it the videos that every set has of that class."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from prism.artifacts.clips import num_clipped
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.store import ClipStore
from prism.reports.sources import SetFile
from prism.reports.text import counted
from prism.reports.videos import MAX_SHOWN_FRAMES, Quality, Shot, encode_all, shown_times


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
    for (_, sets), some in zip(wanted, tiles, strict=True):
        filled = [replace(tile, source=next(encoded)) for tile in some]
        kept = [tile for tile in filled if tile.source is not None]
        names = sorted({tile.class_name for tile in kept})
        classes = {name: [tile for tile in kept if tile.class_name == name] for name in names}
        shown.append(Gallery(classes, tuple(_notes(filled, quality, sets))))
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


def _notes(tiles: Sequence[Tile], quality: Quality, sets: Sequence[SetFile]) -> Iterator[str]:
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
    for found in sets:
        if found.condensed is None or (share := _share_outside(found.condensed)) == 0:
            continue
        shown = f"{100 * share:.1f} %" if share >= 0.001 else "Less than 0.1 %"
        yield f"{found.name}: {shown} of its values lie outside [0, 1] and are clipped for display."


def _share_outside(condensed: CondensedSet) -> float:
    outside = total = 0
    for video in range(len(condensed)):
        values = condensed.render(torch.tensor([video]))
        outside += num_clipped(values)
        total += values.numel()
    return outside / total
