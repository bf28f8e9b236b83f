"""What the built-in videos are painted with: a texture, and shapes with smooth edges."""

import numpy as np

Array = np.ndarray


def texture(size: int, random: np.random.Generator, *, cycles: int, strength: float) -> Array:
    """(H, W, 3) sum of six plane waves that fit the picture's edges.

    Args:
        size: H and W.
        random: draws directions, phases and colours.
        cycles: most of a wave, across and down the picture.
        strength: largest amplitude of a wave in a colour.
    """
    waves = 6
    across, down = random.integers(-cycles, cycles + 1, (2, waves, 1, 1))
    phase = random.random((waves, 1, 1))
    colours = random.uniform(-strength, strength, (waves, 3))
    at = np.arange(size) / size
    heights = np.sin(2 * np.pi * (across * at[None, None, :] + down * at[None, :, None] + phase))
    return np.einsum("khw,kc->hwc", heights, colours)


def own_frame(size: int, x: Array, y: Array, radius: Array, angle: Array) -> tuple[Array, Array]:
    """Every pixel's two coordinates in an object's own frame, in radii, each (T, H, W) float32.

    Args:
        size: H and W.
        x: (T,) the object's place, in pixels from the left.
        y: (T,) the same from the top.
        radius: (T,) in pixels.
        angle: (T,) in radians, clockwise.
    """
    pixels = np.arange(size) + 0.5
    right = ((pixels - x[:, None]) / radius[:, None]).astype(np.float32)[:, None, :]
    down = ((pixels - y[:, None]) / radius[:, None]).astype(np.float32)[:, :, None]
    cosine, sine = (f(angle).astype(np.float32)[:, None, None] for f in (np.cos, np.sin))
    return cosine * right + sine * down, cosine * down - sine * right


def paint(picture: Array, distance: Array, colour: Array) -> None:
    """Paint a shape over (T, H, W, 3) in place.

    Args:
        picture: in units of [0, 1].
        distance: (T, H, W) to its outline in pixels, negative inside.
        colour: (3,), or of every pixel.
    """
    # One pixel of slope at the outline is the antialiasing.
    cover = (0.5 - distance).clip(0, 1)[..., None]
    picture += cover * (colour - picture)


def as_pixels(picture: Array) -> Array:
    """A picture in units of [0, 1] as uint8; what is darker or brighter is clipped."""
    return (255 * picture.clip(0, 1) + 0.5).astype(np.uint8)
