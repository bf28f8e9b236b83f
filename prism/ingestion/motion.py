"""The built-in data set: videos of two objects whose classes differ only in how the objects move.

A video is five coordinates over time, each in [0, 1]: the pair's place (x, y), its turn, its spread (the
objects' distance) and its growth (their size). They start at random and stand still, but for one, which
the class moves in a wave: rising like a saw (and jumping back), falling like a saw, or swinging to and
fro. A wave with a random phase is uniform at every time, as a coordinate that stands still at a random
place is: so a single frame has exactly the same distribution in every class. A rising saw played backwards
is a falling one: that makes the time-reversed pairs, which only the order of frames tells apart. The
unordered frames of one clip do tell which coordinate it moves, and so a class from all but its opposite.
"""

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np

from prism.errors import OutputError
from prism.ingestion.options import MotionConfig
from prism.machine.files import (
    check_output,
    discard_older,
    partial_path,
    replace_folder,
    sync_folder,
    write_synced,
    writing,
)
from prism.machine.locks import claim
from prism.machine.progress import progress_bar
from prism.machine.randomness import derive_seed
from prism.machine.run import Run, parted
from prism.machine.texts import canonical_json

FRAMES_PER_SECOND = 12
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

Array = np.ndarray
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
    return (255 * picture.clip(0, 1) + 0.5).astype(np.uint8)


def _background(size: int, random: np.random.Generator) -> Array:
    """(H, W, 3) dim texture: a colour and six plane waves that fit the picture's edges."""
    waves = 6
    across, down = random.integers(-4, 5, (2, waves, 1, 1))
    phase = random.random((waves, 1, 1))
    colours = random.uniform(-0.01, 0.01, (waves, 3))
    at = np.arange(size) / size
    texture = np.sin(2 * np.pi * (across * at[None, None, :] + down * at[None, :, None] + phase))
    base = random.uniform(0.1, 0.2) + random.uniform(-0.03, 0.03, 3)
    return (base + np.einsum("khw,kc->hwc", texture, colours)).astype(np.float32)


def _paint_object(
    picture: Array, x: Array, y: Array, radius: Array, angle: Array, random: np.random.Generator
) -> None:
    """Paint an object of random shape, colours, stripes and tilt over (T, H, W, 3) at (T,) places in pixels."""
    corners = int(random.choice(SHAPES))
    # Two pastels, every channel at least 0.7; the second is dimmed.
    colours = 1 - random.uniform(0, 0.3, 3), (1 - random.uniform(0, 0.3, 3)) * random.uniform(0.4, 1)
    stripes = random.uniform(0.8, 2)
    angle = angle + random.uniform(0, 2 * np.pi)
    # Every pixel's two coordinates (T, H, W) in the object's own frame, in radii.
    pixels = np.arange(picture.shape[1]) + 0.5
    right = ((pixels - x[:, None]) / radius[:, None]).astype(np.float32)[:, None, :]
    down = ((pixels - y[:, None]) / radius[:, None]).astype(np.float32)[:, :, None]
    cosine, sine = (f(angle).astype(np.float32)[:, None, None] for f in (np.cos, np.sin))
    u, v = cosine * right + sine * down, cosine * down - sine * right
    # One pixel of slope at the outline is the antialiasing.
    scale = radius.astype(np.float32)[:, None, None]
    cover = (0.5 - _outline(u, v, corners) * scale).clip(0, 1)[..., None]
    mix = (0.5 + 0.5 * np.sin(np.float32(np.pi * stripes) * u))[..., None]
    first, second = (colour.astype(np.float32) for colour in colours)
    picture += cover * (first + mix * (second - first) - picture)


def _outline(u: Array, v: Array, corners: int) -> Array:
    """Signed distance to the outline of a regular polygon with corners at 1, negative inside."""
    if corners == max(SHAPES):
        return np.hypot(u, v) - 1
    sides = 2 * np.pi * np.arange(corners) / corners
    distance = np.full_like(u, -np.inf)
    for cosine, sine in zip(np.cos(sides), np.sin(sides), strict=True):
        np.maximum(distance, np.float32(cosine) * u + np.float32(sine) * v, out=distance)
    return distance - np.float32(np.cos(np.pi / corners))


def write_video(path: Path, frames: Array) -> None:
    """Encode frames as H.264 in an mp4 file (yuv420p, crf 18).

    Args:
        path: the file; its folder exists.
        frames: (T, H, W, 3) uint8, H and W even.

    Raises:
        OutputError: the file cannot be written.
    """
    # The same bytes every time: no threads, and no macroblock tree, whose rate control reads memory that x264
    # never wrote when a picture is this small (seen with MALLOC_PERTURB_).
    options = {"crf": "18", "preset": "veryfast", "threads": "1", "mbtree": "0"}
    data = io.BytesIO()
    with av.open(data, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=FRAMES_PER_SECOND, options=options)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    with writing(path):
        write_synced(path, data.getvalue())


def write_motion(
    output: str | Path,
    config: MotionConfig | None = None,
    run: Run | None = None,
    **options: Any,
) -> Path:
    """Write the built-in data set: `OUTPUT/{train,test}/<class>/<index>.mp4` and its `prism.json`.

    Args:
        output: the folder to make; it appears when it is complete.
        config: counts, length in frames, size in pixels and seed.
        run: how it runs, by default with a progress bar.
        options: fields of `config` and of `prism.machine.run.Run`.

    Returns:
        The folder.

    Raises:
        OutputError: the folder exists, is no motion data set, cannot be written, or the disk is full.
    """
    config, run = parted(config or MotionConfig(), run or Run(progress=True), options)
    output = Path(os.path.abspath(output))
    with claim(output):
        discard_older(output)
        check_output(output, run.overwrite)
        if output.exists() and not (output / "prism.json").is_file():
            raise OutputError(f"output '{output}' is not a data set of prism motion, so it is not overwritten.")
        partial = partial_path(output)
        try:
            with writing(output):
                shutil.rmtree(partial, ignore_errors=True)
                _write_videos(partial, config, run.progress)
                replace_folder(partial, output)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return output


def _write_videos(folder: Path, config: MotionConfig, progress: bool) -> None:
    folder.mkdir()
    # Left and right change places in a mirror; ingest reads this.
    write_synced(folder / "prism.json", (canonical_json({"flip": False}) + "\n").encode())
    counts = {"train": config.train_per_class, "test": config.test_per_class}
    total = len(MOTIONS) * sum(counts.values())
    with progress_bar("Drawing", total, "videos", enabled=progress) as advance:
        for split, count in counts.items():
            for label in MOTIONS:
                (folder / split / label).mkdir(parents=True)
                for index in range(count):
                    random = np.random.default_rng(derive_seed(config.seed, "motion", split, label, index))
                    write_video(folder / split / label / f"{index:04d}.mp4", draw(label, config, random))
                    advance()
                sync_folder(folder / split / label)
            sync_folder(folder / split)
    sync_folder(folder)
