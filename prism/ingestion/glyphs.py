"""Glyphs: videos of one sign whose classes are five signs times two motions.

The sign passes from right to left or from left to right, near the centre. A video of one motion played backwards
is one of the other, exactly: nothing else in it has a direction in time. So frames without their order tell the
sign and never the motion. The mean of each frame over a class tells both, more dimly.

One clip shows its sign badly, among more that is random: the colour of the background, its texture, two stray
strokes, the colour of the sign and the light. In the mean of many clips all that fades and the sign stands out.
"""

from itertools import pairwise

import numpy as np

from prism.ingestion.options import MotionConfig
from prism.ingestion.painting import Array, as_pixels, own_frame, paint, texture

Stroke = tuple[tuple[float, float], ...]
"""The points of a line, (x, y) in radii from the centre, x to the right and y down."""

RING = tuple((np.cos(turn), np.sin(turn)) for turn in np.linspace(0, 2 * np.pi, 13))
GLYPHS: dict[str, tuple[Stroke, ...]] = {
    "ell": (((-1, -1), (-1, 1), (1, 1)),),
    "plus": (((-1, 0), (1, 0)), ((0, -1), (0, 1))),
    "ring": (RING,),
    "seven": (((-1, -1), (1, -1), (1, 1)),),
    "times": (((-1, -1), (1, 1)), ((-1, 1), (1, -1))),
}
"""The strokes of every sign."""
MOTIONS = {"left": -1, "right": 1}
"""For each motion its direction."""
CLASSES = tuple(f"{glyph}-{motion}" for glyph in GLYPHS for motion in MOTIONS)

PLACES = (0.44, 0.56)
"""Smallest and largest place of a sign in the middle of its video, in picture sizes."""
TRAVELS = (0.18, 0.36)
"""Shortest and longest way of a sign through its video, in picture sizes."""
RADII = (0.28, 0.34)
"""Smallest and largest radius of a sign, in picture sizes."""
TILT = 0.15
"""Largest angle of a sign, in radians."""
WIDTHS = (0.06, 0.1)
"""Thinnest and thickest stroke of a sign, in picture sizes."""
SHADES = (0.0, 0.6)
"""Darkest and brightest of each channel of the background, before its texture."""
TEXTURE = 0.14
"""Largest amplitude of a wave of the texture."""
LIGHTS = (0.7, 1.0)
"""Darkest and brightest light on a whole video."""
STRAYS = 2
"""Stray strokes in a video."""
STRAY_LENGTH = 0.24
"""Length of a stray stroke, in picture sizes."""
STRAY_WIDTHS = (0.02, 0.06)
"""Thinnest and thickest stray stroke, in picture sizes."""
STRAY_SPEED = 0.02
"""Fastest stray stroke in each direction, in picture sizes per video frame."""


def course(label: str, num_frames: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Draw how the sign of one video moves.

    Args:
        label: one of `CLASSES`.
        num_frames: T.
        random: source of the way and its length; every class draws the same numbers.

    Returns:
        The places x and y over time, each (T,) in picture sizes.
    """
    _, _, motion = label.partition("-")
    (x, y), travel = random.uniform(*PLACES, 2), random.uniform(*TRAVELS)
    way = MOTIONS[motion] * travel * np.linspace(-0.5, 0.5, num_frames)
    return x + way, np.full(num_frames, y)


def draw(label: str, config: MotionConfig, random: np.random.Generator) -> Array:
    """Draw one video.

    Returns:
        (T, H, W, 3) uint8, T = `config.num_frames`, H = W = `config.size`.
    """
    glyph, _, _ = label.partition("-")
    num_frames, size = config.num_frames, config.size
    moves = course(label, num_frames, random)
    background = random.uniform(*SHADES, 3) + texture(size, random, cycles=2, strength=TEXTURE)
    picture = np.broadcast_to(background.astype(np.float32), (num_frames, size, size, 3)).copy()
    for _ in range(STRAYS):
        _paint_stray(picture, random)
    x, y = (size * place for place in moves)
    radius, tilt, width = (random.uniform(*limits) for limits in (RADII, (-TILT, TILT), WIDTHS))
    _paint_strokes(picture, GLYPHS[glyph], x, y, size * radius, tilt, size * width, _pastel(random))
    return as_pixels(np.float32(random.uniform(*LIGHTS)) * picture)


def _pastel(random: np.random.Generator) -> Array:
    """A colour whose channels are at least 0.6."""
    return 1 - random.uniform(0, 0.4, 3)


def _paint_stray(picture: Array, random: np.random.Generator) -> None:
    """Paint a short stroke that drifts over (T, H, W, 3)."""
    num_frames, size = picture.shape[:2]
    middle, speed = random.random((2, 1)), random.uniform(-STRAY_SPEED, STRAY_SPEED, (2, 1))
    x, y = size * (middle + speed * (np.arange(num_frames) - (num_frames - 1) / 2))
    angle, width = random.uniform(0, np.pi), size * random.uniform(*STRAY_WIDTHS)
    _paint_strokes(picture, (((-1, 0), (1, 0)),), x, y, size * STRAY_LENGTH / 2, angle, width, _pastel(random))


def _paint_strokes(
    picture: Array,
    strokes: tuple[Stroke, ...],
    x: Array,
    y: Array,
    radius: float,
    angle: float,
    width: float,
    colour: Array,
) -> None:
    """Paint strokes with round ends over (T, H, W, 3) at (T,) places; radius and width are in pixels."""
    still = np.ones(len(picture))
    u, v = own_frame(picture.shape[1], x, y, radius * still, angle * still)
    nearest = np.full_like(u, np.inf)
    for stroke in strokes:
        for start, end in pairwise(stroke):
            np.minimum(nearest, _squared_distance(u, v, start, end), out=nearest)
    paint(picture, np.float32(radius) * np.sqrt(nearest) - np.float32(width / 2), colour.astype(np.float32))


def _squared_distance(u: Array, v: Array, start: tuple[float, float], end: tuple[float, float]) -> Array:
    """Squared distance of the points (u, v) from a line between two points."""
    along = np.subtract(end, start)
    right, down = (np.float32(part) for part in along)
    u, v = u - np.float32(start[0]), v - np.float32(start[1])
    share = ((right * u + down * v) / np.float32(along @ along)).clip(0, 1)
    return (u - share * right) ** 2 + (v - share * down) ** 2
