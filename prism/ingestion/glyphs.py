"""Glyphs: videos of one sign whose classes are five signs times two motions.

The sign swings across or up and down, around the centre. Its other coordinate stands still at a random place. A
swing with a random phase is uniform at every time, as that place is: so a single frame has exactly the same
distribution in both classes of a sign. That is also true of a class's mean of each frame, so class means tell the
sign and never the motion.

One clip shows its sign badly, among more that is random: the colour of the background, its texture, a stray
stroke, the colour of the sign and the light. In the mean of many clips all that fades and the sign stands out.
"""

from itertools import pairwise

import numpy as np

from prism.ingestion.options import MotionConfig
from prism.ingestion.painting import Array, as_pixels, own_frame, paint, swinging, texture

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
MOTIONS = {"across": "x", "updown": "y"}
"""For each motion the coordinate that swings."""
CLASSES = tuple(f"{glyph}-{motion}" for glyph in GLYPHS for motion in MOTIONS)

PERIODS = (12.0, 20.0)
"""Shortest and longest period of a swing, in video frames."""
PLACES = (0.41, 0.59)
"""Smallest and largest place of a sign, in picture sizes."""
RADII = (0.28, 0.34)
"""Smallest and largest radius of a sign, in picture sizes."""
TILT = 0.1
"""Largest angle of a sign, in radians."""
WIDTHS = (0.07, 0.11)
"""Thinnest and thickest stroke of a sign, in picture sizes."""
SHADES = (0.0, 0.6)
"""Darkest and brightest of each channel of the background, before its texture."""
TEXTURE = 0.14
"""Largest amplitude of a wave of the texture."""
LIGHTS = (0.8, 1.0)
"""Darkest and brightest light on a whole video."""
STRAYS = 1
"""Stray strokes in a video."""
STRAY_LENGTH = 0.24
"""Length of a stray stroke, in picture sizes."""
STRAY_WIDTHS = (0.02, 0.06)
"""Thinnest and thickest stray stroke, in picture sizes."""
STRAY_SPEED = 0.02
"""Fastest stray stroke in each direction, in picture sizes per video frame."""


def course(label: str, num_frames: int, random: np.random.Generator) -> dict[str, Array]:
    """Draw how the sign of one video moves.

    Args:
        label: one of `CLASSES`.
        num_frames: T.
        random: source of the start, the phase and the speed; every class draws the same numbers.

    Returns:
        The coordinates `x` and `y` over time, each (T,) in [0, 1].
    """
    _, _, motion = label.partition("-")
    coordinates = {name: np.full(num_frames, at) for name, at in zip("xy", random.random(2), strict=True)}
    phase, period = random.random(), random.uniform(*PERIODS)
    coordinates[MOTIONS[motion]] = swinging(phase + np.arange(num_frames) / period)
    return coordinates


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
    x, y = (size * (PLACES[0] + (PLACES[1] - PLACES[0]) * moves[name]) for name in "xy")
    radius, tilt, width = (random.uniform(*limits) for limits in (RADII, (-TILT, TILT), WIDTHS))
    _paint_strokes(picture, GLYPHS[glyph], x, y, size * radius, tilt, size * width, _pastel(random))
    return as_pixels(np.float32(random.uniform(*LIGHTS)) * picture)


def _pastel(random: np.random.Generator) -> Array:
    """A colour whose channels are at least 0.6."""
    return 1 - random.uniform(0, 0.4, 3)


def _paint_stray(picture: Array, random: np.random.Generator) -> None:
    """Paint a short stroke that drifts over (T, H, W, 3)."""
    num_frames, size = picture.shape[:2]
    start, speed = random.random((2, 1)), random.uniform(-STRAY_SPEED, STRAY_SPEED, (2, 1))
    x, y = size * (start + speed * np.arange(num_frames))
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
