"""Pairs: videos of two objects whose classes differ only in how the objects move.

A video is five coordinates over time, each in [0, 1]: the pair's place (x, y), its turn, its spread (the
objects' distance) and its growth (their size). They start at random and stand still, but for one, which
the class moves in a wave: rising like a saw (and jumping back), falling like a saw, or swinging to and
fro. A wave with a random phase is uniform at every time, as a coordinate that stands still at a random
place is: so a single frame has exactly the same distribution in every class. A rising saw played backwards
is a falling one: that makes the time-reversed pairs, which only the order of frames tells apart. The
unordered frames of one clip do tell which coordinate it moves, and so a class from all but its opposite.
"""

from collections.abc import Callable

import numpy as np

from prism.ingestion.options import MotionConfig
from prism.ingestion.painting import Array, as_pixels, own_frame, paint, texture

PERIODS = (20.0, 28.0)
"""Shortest and longest time of one cycle, in frames."""
PLACES = (0.375, 0.625)
"""Smallest and largest coordinate of the pair's centre, in picture sizes."""
SPREADS = (0.13, 0.3)
"""Smallest and largest distance of an object from the pair's centre, in picture sizes."""
RADII = (0.09, 0.2)
"""Smallest and largest radius of an object, in picture sizes."""
SHAPES = (4, 6, 64)
"""Corners of an object; one with 64 is a disc."""

Wave = Callable[[Array], Array]


def rising(cycles: Array) -> Array:
    """From 0 up to 1 in every cycle, then back at once."""
    return cycles % 1


def falling(cycles: Array) -> Array:
    """From 1 down to 0 in every cycle, then back at once: `rising`, played backwards."""
    return -cycles % 1


def swinging(cycles: Array) -> Array:
    """From 0 up to 1 and down again in every cycle, turning abruptly."""
    return 1 - np.abs(2 * (cycles % 1) - 1)


COORDINATES = ("x", "y", "turn", "spread", "growth")
MOTIONS: dict[str, tuple[str, Wave, float]] = {
    "bounce": ("y", swinging, 1),
    "clockwise": ("turn", rising, 1),
    "counterclockwise": ("turn", falling, 1),
    "growing": ("growth", rising, 1),
    "left": ("x", falling, 1),
    "meeting": ("spread", falling, 1),
    "parting": ("spread", rising, 1),
    "right": ("x", rising, 1),
    "shake": ("x", swinging, 3),
    "shrinking": ("growth", falling, 1),
}
"""For each class the coordinate that it moves, the wave, and its cycles in one period."""


def course(label: str, num_frames: int, random: np.random.Generator) -> dict[str, Array]:
    """Draw how one video of a class moves.

    Args:
        label: a key of `MOTIONS`.
        num_frames: T.
        random: source of the start, the speed and the phase; every class draws the same numbers.

    Returns:
        The five `COORDINATES` over time, each (T,) in [0, 1].
    """
    coordinates = {name: np.full(num_frames, at) for name, at in zip(COORDINATES, random.random(5), strict=True)}
    phase, period = random.random(), random.uniform(*PERIODS)
    moved, wave, speed = MOTIONS[label]
    coordinates[moved] = wave(phase + speed * np.arange(num_frames) / period)
    return coordinates


def draw(label: str, config: MotionConfig, random: np.random.Generator) -> Array:
    """Draw one video.

    Returns:
        (T, H, W, 3) uint8, T = `config.num_frames`, H = W = `config.size`.
    """
    size = config.size
    moves = course(label, config.num_frames, random)
    picture = np.broadcast_to(_background(size, random), (config.num_frames, size, size, 3)).copy()
    centre_x, centre_y, distance = (
        (low + (high - low) * coordinate) * size
        for (low, high), coordinate in ((PLACES, moves["x"]), (PLACES, moves["y"]), (SPREADS, moves["spread"]))
    )
    radius = RADII[0] * (RADII[1] / RADII[0]) ** moves["growth"] * size
    angle = 2 * np.pi * moves["turn"]
    for side in (-1, 1):
        x = centre_x + side * distance * np.cos(angle)
        y = centre_y + side * distance * np.sin(angle)
        _paint_object(picture, x, y, radius, angle, random)
    return as_pixels(picture)


def _background(size: int, random: np.random.Generator) -> Array:
    """(H, W, 3) dim texture on a dim colour."""
    waves = texture(size, random, cycles=4, strength=0.01)
    base = random.uniform(0.1, 0.2) + random.uniform(-0.03, 0.03, 3)
    return (base + waves).astype(np.float32)


def _paint_object(
    picture: Array, x: Array, y: Array, radius: Array, angle: Array, random: np.random.Generator
) -> None:
    """Paint an object of random shape, colours, stripes and tilt over (T, H, W, 3) at (T,) places in pixels."""
    corners = int(random.choice(SHAPES))
    # Two pastels, every channel at least 0.7; the second is dimmed.
    colours = 1 - random.uniform(0, 0.3, 3), (1 - random.uniform(0, 0.3, 3)) * random.uniform(0.4, 1)
    stripes = random.uniform(0.8, 2)
    angle = angle + random.uniform(0, 2 * np.pi)
    u, v = own_frame(picture.shape[1], x, y, radius, angle)
    scale = radius.astype(np.float32)[:, None, None]
    mix = (0.5 + 0.5 * np.sin(np.float32(np.pi * stripes) * u))[..., None]
    first, second = (colour.astype(np.float32) for colour in colours)
    paint(picture, _outline(u, v, corners) * scale, first + mix * (second - first))


def _outline(u: Array, v: Array, corners: int) -> Array:
    """Signed distance to the outline of a regular polygon with corners at 1, negative inside."""
    if corners == max(SHAPES):
        return np.hypot(u, v) - 1
    sides = 2 * np.pi * np.arange(corners) / corners
    distance = np.full_like(u, -np.inf)
    for cosine, sine in zip(np.cos(sides), np.sin(sides), strict=True):
        np.maximum(distance, np.float32(cosine) * u + np.float32(sine) * v, out=distance)
    return distance - np.float32(np.cos(np.pi / corners))
