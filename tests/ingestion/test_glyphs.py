"""The built-in glyphs: a frame says which sign it shows, and only their order says how the sign moves."""

from itertools import product

import numpy as np
import pytest

from prism.ingestion.glyphs import CLASSES, GLYPHS, MOTIONS, PLACES, course, draw
from prism.ingestion.options import MotionConfig

CONFIG = MotionConfig(kind="glyphs", num_frames=8, size=32)


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def frames(label: str, seeds: range, time: int = 5) -> np.ndarray:
    """(N, H, W, 3) in 0..1, one frame of each video."""
    return np.stack([draw(label, CONFIG, random(seed))[time] for seed in seeds]).astype(np.float32) / 255


def test_there_are_five_signs_of_two_motions():
    assert len(CLASSES) == len(set(CLASSES)) == 10
    assert [tuple(label.split("-")) for label in CLASSES] == list(product(GLYPHS, MOTIONS))


def test_a_motion_is_the_other_one_played_backwards():
    for seed in range(20):
        (left, height), (right, same_height) = (course(f"ring-{motion}", 24, random(seed)) for motion in MOTIONS)
        np.testing.assert_allclose(left[::-1], right)
        np.testing.assert_array_equal(height, same_height)
        assert np.ptp(height) == 0
        assert (np.diff(left) < 0).all()


def test_the_places_of_a_sign_have_no_direction_but_that_of_its_motion():
    middles = np.sort([course("ring-left", 25, random(seed))[0][12] for seed in range(1000)])
    # Kolmogorov and Smirnov's distance; above 1.95 / sqrt(n) by chance once in a thousand.
    uniform = PLACES[0] + (PLACES[1] - PLACES[0]) * (np.arange(1000) + 0.5) / 1000
    assert np.abs(middles - uniform).max() < 1.95 / np.sqrt(1000) * (PLACES[1] - PLACES[0])


def test_every_class_draws_its_appearance_from_the_same_numbers():
    states = set()
    for label in CLASSES:
        source = random(7)
        draw(label, CONFIG, source)
        states.add(str(source.bit_generator.state))
    assert len(states) == 1


def blocks(pictures: np.ndarray) -> np.ndarray:
    """(N, 64) brightness of 8 × 8 blocks."""
    return pictures.reshape(len(pictures), 8, 4, 8, 4, 3).mean((2, 4, 5)).reshape(len(pictures), -1)


def largest_difference(first: np.ndarray, second: np.ndarray) -> float:
    """Of the means of (N, D) and (M, D), over the D, in standard errors."""
    error = np.sqrt(first.var(0) / len(first) + second.var(0) / len(second))
    return float((np.abs(first.mean(0) - second.mean(0)) / error).max())


@pytest.mark.parametrize("glyph", GLYPHS)
def test_frames_without_their_order_do_not_tell_how_a_sign_moves(glyph):
    # Other seeds for either motion: these are independent videos, as those of a data set are.
    left, right = (
        blocks(np.concatenate([frames(f"{glyph}-{motion}", range(200 * k, 200 * k + 200), t) for t in (1, 6)]))
        for k, motion in enumerate(MOTIONS)
    )
    # Two frames of one video are alike, so errors are up to 1.4 times as large as those of as many videos; above
    # 6 of such errors by chance less than once in a thousand, with 64 blocks.
    assert largest_difference(left, right) < 6
    assert largest_difference(left**2, right**2) < 6


def test_the_mean_of_a_frame_tells_how_a_sign_moves():
    left, right = (blocks(frames(f"plus-{motion}", range(100), 0)) for motion in MOTIONS)
    assert largest_difference(left, right) > 8


def test_the_mean_frame_tells_the_signs_apart():
    means = {glyph: blocks(frames(f"{glyph}-left", range(100))) for glyph in GLYPHS}
    for first in GLYPHS:
        for second in set(GLYPHS) - {first}:
            assert largest_difference(means[first], means[second]) > 8


def test_a_frame_differs_more_within_a_class_than_classes_do():
    pictures = {label: blocks(frames(label, range(60))) for label in CLASSES}
    within = np.mean([values.var(0).sum() for values in pictures.values()])
    between = np.var([values.mean(0) for values in pictures.values()], axis=0).sum()
    assert within > 2.5 * between


@pytest.mark.parametrize("label", CLASSES)
def test_a_sign_lies_inside_the_picture_and_is_brighter_than_its_surroundings(label, monkeypatch):
    monkeypatch.setattr("prism.ingestion.glyphs.STRAYS", 0)
    config = MotionConfig(kind="glyphs", num_frames=8, size=64)
    bright = np.mean([draw(label, config, random(seed)).mean((0, 3)) for seed in range(40)], axis=0)
    edge = np.pad(np.zeros((60, 60), bool), 2, constant_values=True)
    border = bright[edge]
    assert bright.max() > 1.5 * border.mean()
    assert border.max() < border.mean() + 0.5 * (bright.max() - border.mean())
