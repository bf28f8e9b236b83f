"""The built-in data sets: the layout of any user's data, the same bytes, and classes that only motion tells."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from settings import contents, refusal_of

from prism.errors import OutputError
from prism.ingestion import motion
from prism.ingestion.build import make_plan
from prism.ingestion.motion import DIRECTIONS, KINDS, MOTIONS, glyph_course, pairs_course, write_motion
from prism.ingestion.options import IngestConfig, MotionConfig
from prism.ingestion.splits import list_videos

SMALL = MotionConfig(train_per_class=2, test_per_class=1, num_frames=8, size=32)
REVERSED = [("left", "right"), ("parting", "meeting"), ("growing", "shrinking"), ("clockwise", "counterclockwise")]
UNIFORM = 1.95 / np.sqrt(1000)
"""Kolmogorov and Smirnov's distance of 1,000 uniform numbers; above it by chance once in a thousand."""


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_data_set_has_the_layout_of_any_users_data_and_the_bytes_of_its_seed(tmp_path, kind):
    small = replace(SMALL, kind=kind)
    first = contents(write_motion(tmp_path / "a", small, progress=False))
    listing = list_videos(tmp_path / "a")
    counts = Counter((video.label, video.split) for video in listing.videos)
    assert counts == {(label, split): n for label in KINDS[kind][0] for split, n in (("train", 2), ("test", 1))}
    assert (listing.skipped, listing.notes) == ({}, [])
    assert not make_plan(tmp_path / "a", IngestConfig()).flip
    assert first.items() <= contents(write_motion(tmp_path / "b", replace(small, train_per_class=3))).items()
    other = contents(write_motion(tmp_path / "c", replace(small, seed=1), progress=False))
    assert first.keys() == other.keys()
    assert all(first[name] != other[name] for name in first if name.endswith(".mp4"))
    assert len(set(first.values())) == len(first)


def test_the_bytes_do_not_depend_on_what_was_in_memory(tmp_path):
    options = "train_per_class=1, test_per_class=1, num_frames=12, size=32"
    code = f"import prism, sys; prism.write_motion(sys.argv[1], {options})"
    written = []
    for filling in ("0", "77"):
        # glibc fills fresh memory with this byte; elsewhere the variable does nothing.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MALLOC_PERTURB_": filling}
        subprocess.run([sys.executable, "-c", code, tmp_path / filling], env=environment, check=True)
        written.append(contents(tmp_path / filling))
    assert written[0] == written[1]


def test_a_data_set_is_written_over_only_where_it_is_one_of_ours(tmp_path):
    output = write_motion(tmp_path / "motion", SMALL, progress=False)
    (output / "train/left/0000.mp4").unlink()
    assert "exists already" in refusal_of(OutputError, write_motion, output, SMALL, progress=False)
    write_motion(output, SMALL, overwrite=True, progress=False)
    assert (output / "train/left/0000.mp4").exists()
    for name in ("thesis.tex", "train/left/mine.mp4", "train/jump/0000.mp4"):
        (output / name).parent.mkdir(exist_ok=True)
        (output / name).write_text("years of work")
        with pytest.raises(OutputError, match="' is no part of a data set of prism motion"):
            write_motion(output, SMALL, overwrite=True, progress=False)
        (output / name).unlink()
    (output / "prism.json").unlink()
    with pytest.raises(OutputError, match="is not a data set of prism motion"):
        write_motion(output, SMALL, overwrite=True, progress=False)


GOLDEN = {
    "pairs": [66.2, 66.2, 66.2, 60.8, 66.2, 66.2, 66.2, 66.2, 66.2, 63.1],
    "glyphs": [96.7, 96.7, 96.3, 96.3, 100.9, 101.0, 96.8, 96.8, 100.0, 99.9],
}
"""Mean pixel of a video of each class, as drawn on 20 November 2026."""


@pytest.mark.parametrize("kind", KINDS)
def test_the_drawings_are_the_golden_ones_and_every_class_draws_the_same_numbers(kind):
    labels, draw = KINDS[kind]
    sources = [random(0) for _ in labels]
    found = [float(draw(label, 8, 32, source).mean()) for label, source in zip(labels, sources, strict=True)]
    np.testing.assert_allclose(found, GOLDEN[kind], atol=0.06)
    assert len({str(source.bit_generator.state) for source in sources}) == 1


@pytest.mark.parametrize("label", MOTIONS)
def test_the_coordinates_of_a_pair_are_uniform_and_independent_at_every_time(label):
    courses = [pairs_course(label, 24, random(seed)) for seed in range(1000)]
    for name in motion.COORDINATES:
        for time in (0, 9, 23):
            values = np.sort([moves[name][time] for moves in courses])
            assert 0 <= values[0] <= values[-1] <= 1
            assert np.abs(values - (np.arange(1000) + 0.5) / 1000).max() < UNIFORM
    angles = 2 * np.pi * np.array([[moves[name][11] for name in moves] for moves in courses])
    waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    assert np.abs(np.corrcoef(waves.T) - np.eye(10)).max() < 4 / np.sqrt(1000)


@pytest.mark.parametrize(("label", "opposite"), REVERSED)
def test_a_pair_is_its_opposite_played_backwards(label, opposite):
    (moved, wave, speed), (other_moved, other_wave, other_speed) = MOTIONS[label], MOTIONS[opposite]
    assert (moved, speed) == (other_moved, other_speed)
    # The phase is random, so time runs backwards where the cycles count down.
    cycles = np.linspace(-2, 2, 1001)
    np.testing.assert_allclose(motion.WAVES[wave](-cycles), motion.WAVES[other_wave](cycles), atol=1e-9)
    assert np.median(np.diff(pairs_course("left", 24, random(0))["x"])) < 0


def test_a_glyph_is_its_opposite_played_backwards_and_its_place_tells_nothing():
    for seed in range(20):
        (left, height), (right, same) = (glyph_course(f"ring-{way}", 24, random(seed)) for way in DIRECTIONS)
        np.testing.assert_allclose(left[::-1], right)
        np.testing.assert_array_equal(height, same)
        assert np.ptp(height) == 0
        assert (np.diff(left) < 0).all()
    middles = np.sort([glyph_course("ring-left", 25, random(seed))[0][12] for seed in range(1000)])
    width = motion.GLYPH_PLACES[1] - motion.GLYPH_PLACES[0]
    uniform = motion.GLYPH_PLACES[0] + width * (np.arange(1000) + 0.5) / 1000
    assert np.abs(middles - uniform).max() < UNIFORM * width
