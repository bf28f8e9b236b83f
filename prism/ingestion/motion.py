"""`prism motion`: the built-in data sets as real video files, in the layout of any user's data.

Pairs are ten classes that differ only in how two objects move. A video has five coordinates over time, each in
[0, 1]: place (x, y), turn, spread (the objects' distance) and growth (their size). The class moves one of them in
a wave: rising like a saw (and jumping back), falling like a saw, or swinging to and fro. The others keep a random
value. A wave with a random phase is uniform in [0, 1] at every time, like a random value. So a single frame has
the same distribution in every class, and only the order of frames separates a rising from a falling saw.

Glyphs are ten classes: five signs times two motions, from right to left or from left to right near the centre. A
video of one motion played backwards is a video of the other, so frames without their order show the sign and never
the motion. The mean of each frame over a class shows both: background, texture, stray strokes, colour and light
are random and fade in the mean of many clips.
"""

import io
import os
import re
from collections.abc import Callable, Collection
from functools import reduce
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

import av
import numpy as np

from prism.config import as_path
from prism.ingestion.options import MotionConfig
from prism.machine.files import check_output_folder, lock, new_folder, replace_folder, write_synced, writing
from prism.machine.progress import progress_bar
from prism.machine.randomness import derive_seed
from prism.machine.run import Run, split_options
from prism.machine.text_io import canonical_json

Array = np.ndarray
Random = np.random.Generator
Strokes = tuple[tuple[tuple[float, float], ...], ...]
"""The points of lines, (x, y) in radii from the centre, x to the right and y down."""

# Smallest and largest values of pairs; lengths are in picture sizes, the time of one cycle in frames.
PERIODS, PLACES, SPREADS, RADII = (20.0, 28.0), (0.375, 0.625), (0.13, 0.3), (0.09, 0.2)
SHAPES = (4, 6, 64)
"""Corners of an object; one with 64 is a disc."""
COORDINATES = ("x", "y", "turn", "spread", "growth")
WAVES: dict[str, Callable[[Array], Array]] = {
    "rising": lambda cycles: cycles % 1,
    "falling": lambda cycles: -cycles % 1,
    "swinging": lambda cycles: 1 - np.abs(2 * (cycles % 1) - 1),
}
MOTIONS: dict[str, tuple[str, str, float]] = {
    "bounce": ("y", "swinging", 1),
    "clockwise": ("turn", "rising", 1),
    "counterclockwise": ("turn", "falling", 1),
    "growing": ("growth", "rising", 1),
    "left": ("x", "falling", 1),
    "meeting": ("spread", "falling", 1),
    "parting": ("spread", "rising", 1),
    "right": ("x", "rising", 1),
    "shake": ("x", "swinging", 3),
    "shrinking": ("growth", "falling", 1),
}
"""By class of pairs: the coordinate that moves, its wave, and the wave's cycles in one period."""

# Glyphs; lengths are in picture sizes.
GLYPHS: dict[str, Strokes] = {
    "ell": (((-1, -1), (-1, 1), (1, 1)),),
    "plus": (((-1, 0), (1, 0)), ((0, -1), (0, 1))),
    "ring": (tuple((np.cos(turn), np.sin(turn)) for turn in np.linspace(0, 2 * np.pi, 13)),),
    "seven": (((-1, -1), (1, -1), (1, 1)),),
    "times": (((-1, -1), (1, 1)), ((-1, 1), (1, -1))),
}
DIRECTIONS = {"left": -1, "right": 1}
GLYPH_CLASSES = tuple(f"{glyph}-{motion}" for glyph in GLYPHS for motion in DIRECTIONS)
# Smallest and largest values of glyphs: the place in the middle of a video, the way through it, size, angle in
# radians, width of a stroke, each channel of the background, and the light on a whole video.
GLYPH_PLACES, TRAVELS, GLYPH_RADII, TILT = (0.44, 0.56), (0.18, 0.36), (0.28, 0.34), 0.15
WIDTHS, SHADES, LIGHTS = (0.06, 0.1), (0.0, 0.6), (0.7, 1.0)
TEXTURE = 0.14
"""Largest amplitude of a wave of the texture."""
STRAYS, STRAY_LENGTH, STRAY_WIDTHS, STRAY_SPEED = 2, 0.24, (0.02, 0.06), 0.02
"""Stray strokes: number, length, widths, and largest speed in each direction, per video frame."""


def pairs_course(label: str, num_frames: int, random: Random) -> dict[str, Array]:
    """The five `COORDINATES` of a pair over time, each (T,) in [0, 1]; every class draws the same numbers."""
    coordinates = {name: np.full(num_frames, at) for name, at in zip(COORDINATES, random.random(5), strict=True)}
    phase, period = random.random(), random.uniform(*PERIODS)
    moved, wave, speed = MOTIONS[label]
    coordinates[moved] = WAVES[wave](phase + speed * np.arange(num_frames) / period)
    return coordinates


def draw_pairs(label: str, num_frames: int, size: int, random: Random) -> Array:
    """One video of a class of pairs, (T, H, W, 3) uint8, H = W = `size`."""
    moves = pairs_course(label, num_frames, random)
    waves = _texture(size, random, cycles=4, strength=0.01)
    base = random.uniform(0.1, 0.2) + random.uniform(-0.03, 0.03, 3)
    picture = np.broadcast_to((base + waves).astype(np.float32), (num_frames, size, size, 3)).copy()
    centre_x, centre_y, distance = (
        (low + (high - low) * coordinate) * size
        for (low, high), coordinate in ((PLACES, moves["x"]), (PLACES, moves["y"]), (SPREADS, moves["spread"]))
    )
    radius = RADII[0] * (RADII[1] / RADII[0]) ** moves["growth"] * size
    angle = 2 * np.pi * moves["turn"]
    for arm in (-distance, distance):
        x, y = centre_x + arm * np.cos(angle), centre_y + arm * np.sin(angle)
        _paint_object(picture, x, y, radius, angle, random)
    return _as_pixels(picture)


def _paint_object(picture: Array, x: Array, y: Array, radius: Array, angle: Array, random: Random) -> None:
    """Paint an object of random shape, colours, stripes and tilt over (T, H, W, 3) at (T,) places in pixels."""
    corners = int(random.choice(SHAPES))
    # Two pastels, every channel at least 0.7; the second is dimmed.
    colours = 1 - random.uniform(0, 0.3, 3), (1 - random.uniform(0, 0.3, 3)) * random.uniform(0.4, 1)
    stripes = random.uniform(0.8, 2)
    u, v = _own_frame(picture.shape[1], x, y, radius, angle + random.uniform(0, 2 * np.pi))
    # The distance to the outline of a disc, or of a regular polygon, in radii.
    distance = np.hypot(u, v) - 1
    if corners != max(SHAPES):
        turns = 2 * np.pi * np.arange(corners) / corners
        sides = (np.float32(np.cos(turn)) * u + np.float32(np.sin(turn)) * v for turn in turns)
        distance = reduce(np.maximum, sides) - np.float32(np.cos(np.pi / corners))
    mix = (0.5 + 0.5 * np.sin(np.float32(np.pi * stripes) * u))[..., None]
    first, second = (colour.astype(np.float32) for colour in colours)
    _paint(picture, distance * radius.astype(np.float32)[:, None, None], first + mix * (second - first))


def glyph_course(label: str, num_frames: int, random: Random) -> tuple[Array, Array]:
    """The places x and y of a sign over time, each (T,) in picture sizes; every class draws the same numbers."""
    _, _, motion = label.partition("-")
    (x, y), travel = random.uniform(*GLYPH_PLACES, 2), random.uniform(*TRAVELS)
    return x + DIRECTIONS[motion] * travel * np.linspace(-0.5, 0.5, num_frames), np.full(num_frames, y)


def draw_glyphs(label: str, num_frames: int, size: int, random: Random) -> Array:
    """One video of a class of glyphs, (T, H, W, 3) uint8, H = W = `size`."""
    moves = glyph_course(label, num_frames, random)
    background = random.uniform(*SHADES, 3) + _texture(size, random, cycles=2, strength=TEXTURE)
    picture = np.broadcast_to(background.astype(np.float32), (num_frames, size, size, 3)).copy()
    for _ in range(STRAYS):
        middle, speed = random.random((2, 1)), random.uniform(-STRAY_SPEED, STRAY_SPEED, (2, 1))
        x, y = size * (middle + speed * (np.arange(num_frames) - (num_frames - 1) / 2))
        angle, width = random.uniform(0, np.pi), size * random.uniform(*STRAY_WIDTHS)
        _paint_strokes(picture, (((-1, 0), (1, 0)),), x, y, size * STRAY_LENGTH / 2, angle, width, random)
    x, y = (size * place for place in moves)
    radius, tilt, width = (random.uniform(*limits) for limits in (GLYPH_RADII, (-TILT, TILT), WIDTHS))
    _paint_strokes(picture, GLYPHS[label.partition("-")[0]], x, y, size * radius, tilt, size * width, random)
    return _as_pixels(np.float32(random.uniform(*LIGHTS)) * picture)


def _paint_strokes(
    picture: Array, strokes: Strokes, x: Array, y: Array, radius: float, angle: float, width: float, random: Random
) -> None:
    """Paint strokes of a random pastel with round ends over (T, H, W, 3); x, y, radius and width in pixels."""
    colour, still = 1 - random.uniform(0, 0.4, 3), np.ones(len(picture))
    u, v = _own_frame(picture.shape[1], x, y, radius * still, angle * still)
    nearest = np.full_like(u, np.inf)
    for start, end in chain.from_iterable(map(pairwise, strokes)):
        # The squared distance of all pixels from the line between two points.
        along = np.subtract(end, start)
        right, down = (np.float32(part) for part in along)
        x, y = u - np.float32(start[0]), v - np.float32(start[1])
        share = ((right * x + down * y) / np.float32(along @ along)).clip(0, 1)
        np.minimum(nearest, (x - share * right) ** 2 + (y - share * down) ** 2, out=nearest)
    _paint(picture, np.float32(radius) * np.sqrt(nearest) - np.float32(width / 2), colour.astype(np.float32))


def _texture(size: int, random: Random, *, cycles: int, strength: float) -> Array:
    """Sum (H, W, 3) of six plane waves, with whole numbers of at most `cycles` cycles across and down."""
    across, down = random.integers(-cycles, cycles + 1, (2, 6, 1, 1))
    phase, colours = random.random((6, 1, 1)), random.uniform(-strength, strength, (6, 3))
    at = np.arange(size) / size
    heights = np.sin(2 * np.pi * (across * at[None, None, :] + down * at[None, :, None] + phase))
    return np.einsum("khw,kc->hwc", heights, colours)


def _own_frame(size: int, x: Array, y: Array, radius: Array, angle: Array) -> tuple[Array, Array]:
    """Coordinates (u, v) of every pixel along an object's own axes, in radii, each (T, H, W) float32.

    The object's place and radius in pixels and its clockwise angle in radians are (T,) each.
    """
    pixels = np.arange(size) + 0.5
    right = ((pixels - x[:, None]) / radius[:, None]).astype(np.float32)[:, None, :]
    down = ((pixels - y[:, None]) / radius[:, None]).astype(np.float32)[:, :, None]
    cosine, sine = (f(angle).astype(np.float32)[:, None, None] for f in (np.cos, np.sin))
    return cosine * right + sine * down, cosine * down - sine * right


def _paint(picture: Array, distance: Array, colour: Array) -> None:
    """Paint a shape over (T, H, W, 3) in place; `distance` (T, H, W) to its outline in pixels, negative inside."""
    # A ramp one pixel wide at the outline antialiases it.
    cover = (0.5 - distance).clip(0, 1)[..., None]
    picture += cover * (colour - picture)


def _as_pixels(picture: Array) -> Array:
    """A picture in units of [0, 1] as uint8; values outside are clipped."""
    return (255 * picture.clip(0, 1) + 0.5).astype(np.uint8)


KINDS: dict[str, tuple[Collection[str], Callable[[str, int, int, Random], Array]]] = {
    "pairs": (MOTIONS, draw_pairs),
    "glyphs": (GLYPH_CLASSES, draw_glyphs),
}
"""By kind: its classes, and the function that draws a video of a class."""


def write_video(path: Path, frames: Array) -> None:
    """Encode (T, H, W, 3) uint8 frames, H and W even, as H.264 in an mp4 file (yuv420p, crf 18)."""
    # Options that give the same bytes every time; `artifacts/encodings/sparse.py` says why.
    options = {"crf": "18", "preset": "veryfast", "threads": "1", "mbtree": "0"}
    data = io.BytesIO()
    with av.open(data, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=12, options=options)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    write_synced(path, data.getvalue())


def write_motion(
    output: str | Path, config: MotionConfig | None = None, run: Run | None = None, **options: Any
) -> Path:
    """Write a built-in data set to a folder, `{train,test}/<class>/<index>.mp4` and `prism.json`; return its path.

    Args:
        output: the folder to make; it appears when it is complete.
        config: kind, counts, length in frames, size in pixels and seed.
        run: overwriting and progress.
        options: fields of `config` and of `prism.machine.run.Run`.

    Raises:
        OutputError: the folder exists and is not overwritten, cannot be written, or the disk is full.
    """
    config, run = split_options(MotionConfig, config, run, options)
    output = Path(os.path.abspath(as_path(output)))
    labels, draw = KINDS[config.kind]
    counts = {"train": config.train_per_class, "test": config.test_per_class}
    with lock(output):
        # Only files with the names of a motion data set, of any kind and size, are overwritten.
        every = "|".join(label for of_kind, _ in KINDS.values() for label in of_kind)
        own = re.compile(rf"prism\.json|(train|test)/({every})/\d{{4,}}\.mp4")
        names = (found.relative_to(output).as_posix() for found in output.rglob("*"))
        owned = [name for name in names if own.fullmatch(name)]
        check_output_folder(output, run.overwrite, "prism.json", "a data set of prism motion", owned)
        bar = progress_bar("Drawing", len(labels) * sum(counts.values()), "videos", enabled=run.progress)
        with new_folder(output) as partial, writing(output), bar as advance:
            # A mirror swaps left and right, and changes the signs. `ingest` reads this entry.
            mark = canonical_json({"flip": False, "made_by": "prism motion"}) + "\n"
            write_synced(partial / "prism.json", mark.encode())
            for (split, count), label in product(counts.items(), labels):
                folder = partial / split / label
                folder.mkdir(parents=True)
                for index in range(count):
                    random = np.random.default_rng(derive_seed(config.seed, "motion", split, label, index))
                    write_video(folder / f"{index:04d}.mp4", draw(label, config.num_frames, config.size, random))
                    advance()
            replace_folder(partial, output)
    return output
