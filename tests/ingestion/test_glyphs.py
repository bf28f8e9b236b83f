"""The built-in glyphs: a frame says which sign it shows, and only the order of frames says how the sign moves."""

from itertools import product

import numpy as np
import pytest

from prism.ingestion.glyphs import CLASSES, GLYPHS, MOTIONS, course, draw
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


@pytest.mark.parametrize("motion", MOTIONS)
def test_both_coordinates_are_uniform_and_independent_at_every_time(motion):
    courses = [course(f"ring-{motion}", 24, random(seed)) for seed in range(1000)]
    for time in (0, 9, 23):
        values = np.array([[moves[name][time] for name in "xy"] for moves in courses])
        ordered = np.sort(values, axis=0)
        assert ordered[0].min() >= 0
        assert ordered[-1].max() <= 1
        # Kolmogorov and Smirnov's distance; above 1.95 / sqrt(n) by chance once in a thousand.
        assert np.abs(ordered - (np.arange(1000)[:, None] + 0.5) / 1000).max() < 1.95 / np.sqrt(1000)
        angles = 2 * np.pi * values
        waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        assert np.abs(np.corrcoef(waves.T) - np.eye(4)).max() < 4 / np.sqrt(1000)


def test_a_motion_swings_one_coordinate_and_leaves_the_other():
    for motion, name in MOTIONS.items():
        for seed in range(20):
            moves = course(f"ring-{motion}", 24, random(seed))
            assert np.ptp(moves[name]) > 0.8
            assert all(np.ptp(moves[other]) == 0 for other in set("xy") - {name})


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
def test_the_mean_frame_of_a_sign_does_not_tell_how_it_moves(glyph):
    # Other seeds for either motion: these are independent videos, as those of a data set are.
    across, updown = (
        blocks(frames(f"{glyph}-{motion}", range(300 * k, 300 * k + 300))) for k, motion in enumerate(MOTIONS)
    )
    # Above 4.5 by chance once in two thousand, with 64 blocks.
    assert largest_difference(across, updown) < 4.5
    assert largest_difference(across**2, updown**2) < 4.5


def test_the_mean_frame_tells_the_signs_apart():
    means = {glyph: blocks(frames(f"{glyph}-across", range(100))) for glyph in GLYPHS}
    for first in GLYPHS:
        for second in set(GLYPHS) - {first}:
            assert largest_difference(means[first], means[second]) > 8


def test_a_frame_differs_more_within_a_class_than_classes_do():
    pictures = {label: blocks(frames(label, range(60))) for label in CLASSES}
    within = np.mean([values.var(0).sum() for values in pictures.values()])
    between = np.var([values.mean(0) for values in pictures.values()], axis=0).sum()
    assert within > 3 * between


@pytest.mark.parametrize("label", CLASSES)
def test_a_sign_lies_inside_the_picture_and_is_brighter_than_its_surroundings(label, monkeypatch):
    monkeypatch.setattr("prism.ingestion.glyphs.STRAYS", 0)
    config = MotionConfig(kind="glyphs", num_frames=8, size=64)
    bright = np.mean([draw(label, config, random(seed)).mean((0, 3)) for seed in range(40)], axis=0)
    edge = np.pad(np.zeros((60, 60), bool), 2, constant_values=True)
    border = bright[edge]
    assert bright.max() > 1.5 * border.mean()
    assert border.max() < border.mean() + 0.5 * (bright.max() - border.mean())
