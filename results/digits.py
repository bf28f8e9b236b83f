"""Moving digits: ten handwritten digits that bounce about, on which no option was chosen. It needs scikit-learn.

    python results/digits.py STORE [SIDE]

A clip is one of the 1,797 digits of `sklearn.datasets.load_digits`, of 24 of 48 pixels, which starts anywhere and
moves in a straight line until it bounces off an edge; a larger one has less room. 60 digits of each class are
trained on, and 30 others score.
"""

import sys

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits  # pyright: ignore[reportMissingImports]

import prism

SIDE, FRAMES = 48, 8
TRAIN, TEST = 60, 30


def clip(digit: np.ndarray, side: int, random: np.random.Generator) -> np.ndarray:
    """Frames (T, H, W, 3), uint8, of a digit (8, 8) in 0..16, drawn as large as `side`."""
    drawn = np.asarray(Image.fromarray((255 * digit / 16).astype(np.uint8)).resize((side, side), 2))
    room = SIDE - side
    place, speed = random.uniform(0, room, 2), random.uniform(-4, 4, 2)
    frames = np.zeros((FRAMES, SIDE, SIDE, 3), np.uint8)
    for t, frame in enumerate(frames):
        # A saw that goes up and down is a line that bounces.
        row, column = np.round(room - abs(room - (place + t * speed) % (2 * room))).astype(int)
        frame[row : row + side, column : column + side] = drawn[..., None]
    return frames


def items(side: int) -> dict[str, list[tuple[np.ndarray, str]]]:
    """Clips and labels by split, from a fixed seed."""
    digits, random = load_digits(), np.random.default_rng(0)
    found: dict[str, list[tuple[np.ndarray, str]]] = {"train": [], "test": []}
    for label in range(10):
        order = random.permutation(np.flatnonzero(digits.target == label))
        for split, numbers in (("train", order[:TRAIN]), ("test", order[TRAIN : TRAIN + TEST])):
            found[split] += [(clip(digits.images[number], side, random), str(label)) for number in numbers]
    return found


if __name__ == "__main__":
    options = {"num_frames": FRAMES, "size": SIDE, "stride": 1, "flip": "off", "val_fraction": 0.0}
    side = int((sys.argv[2:] or [24])[0])
    print(prism.ingest(items(side), sys.argv[1], name="Moving digits", **options))
