"""The built-in pairs: a frame says nothing about the class, the order of frames says everything."""

import numpy as np
import pytest

from prism.artifacts.store import ClipStore
from prism.ingestion.build import ingest
from prism.ingestion.motion import write_motion
from prism.ingestion.options import IngestConfig, MotionConfig
from prism.ingestion.pairs import MOTIONS, course, draw

OPPOSITES = [
    ("left", "right"),
    ("parting", "meeting"),
    ("growing", "shrinking"),
    ("clockwise", "counterclockwise"),
]


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def videos(label: str, count: int, config: MotionConfig | None = None) -> np.ndarray:
    """(N, T, H, W, 3) in 0..1."""
    drawn = [draw(label, config or MotionConfig(num_frames=16, size=32), random(seed)) for seed in range(count)]
    return np.stack(drawn).astype(np.float32) / 255


def test_there_are_ten_classes_with_four_pairs_of_opposites():
    assert len(MOTIONS) == 10
    assert {label for pair in OPPOSITES for label in pair} | {"bounce", "shake"} == set(MOTIONS)


@pytest.mark.parametrize("label", MOTIONS)
def test_every_coordinate_is_uniform_at_every_time(label):
    courses = [course(label, 24, random(seed)) for seed in range(1000)]
    for name in ("x", "y", "turn", "spread", "growth"):
        for time in (0, 9, 23):
            values = np.sort([moves[name][time] for moves in courses])
            assert values[0] >= 0
            assert values[-1] <= 1
            # Kolmogorov and Smirnov's distance; above 1.95 / sqrt(n) by chance once in a thousand.
            assert np.abs(values - (np.arange(1000) + 0.5) / 1000).max() < 1.95 / np.sqrt(1000)


@pytest.mark.parametrize("label", MOTIONS)
def test_coordinates_are_independent_of_each_other_at_every_time(label):
    courses = [course(label, 24, random(seed)) for seed in range(1000)]
    angles = 2 * np.pi * np.array([[moves[name][11] for name in moves] for moves in courses])
    waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    correlation = np.corrcoef(waves.T) - np.eye(10)
    assert np.abs(correlation).max() < 4 / np.sqrt(1000)


@pytest.mark.parametrize(("label", "opposite"), OPPOSITES)
def test_a_class_is_its_opposite_played_backwards(label, opposite):
    (moved, wave, speed), (other_moved, other_wave, other_speed) = MOTIONS[label], MOTIONS[opposite]
    assert (moved, speed) == (other_moved, other_speed)
    # The phase is random, so time runs backwards where the cycles count down.
    cycles = np.linspace(-2, 2, 1001)
    np.testing.assert_allclose(wave(-cycles), other_wave(cycles), atol=1e-9)


def test_every_class_draws_its_appearance_from_the_same_numbers():
    states = set()
    for label in MOTIONS:
        source = random(7)
        draw(label, MotionConfig(num_frames=8, size=32), source)
        states.add(str(source.bit_generator.state))
    assert len(states) == 1


def test_single_frames_have_the_same_statistics_in_every_class():
    means, deviations = [], []
    for label in MOTIONS:
        frames = videos(label, 60)[:, 7]
        means.append(frames.mean((1, 2, 3)).mean())
        deviations.append(frames.std((1, 2, 3)).mean())
    assert np.ptp(means) < 0.02
    assert np.ptp(deviations) < 0.02


@pytest.fixture(scope="module")
def motion_store(tmp_path_factory) -> ClipStore:
    folder = tmp_path_factory.mktemp("motion")
    write_motion(folder / "videos", MotionConfig(train_per_class=30, test_per_class=20, size=32), progress=False)
    config = IngestConfig(num_frames=8, stride=2, size=32, val_fraction=0)
    return ingest(folder / "videos", folder / "store", config, progress=False)


def ridge_accuracy(train: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray) -> float:
    """Share of test rows that a linear classifier gets right."""
    mean, std = train.mean(0), train.std(0) + 1e-6
    train, test = ((np.c_[(x - mean) / std, np.ones(len(x))]) for x in (train, test))
    targets = np.eye(labels.max() + 1)[labels]
    weights = np.linalg.solve(train.T @ train + 100 * np.eye(train.shape[1]), train.T @ targets)
    return float(((test @ weights).argmax(1) == truth).mean())


def frame_features(frames: np.ndarray) -> np.ndarray:
    """(N, D) of (N, 3, H, W): coarse pixels, histograms of colours, and of slopes."""
    scaled = frames / 255
    coarse = scaled.reshape(len(frames), 3, 8, 4, 8, 4).mean((3, 5)).reshape(len(frames), -1)
    bins = np.linspace(0, 1, 9)
    colours = [[np.histogram(channel, bins)[0] for channel in frame] for frame in scaled]
    slopes = [np.histogram(np.diff(frame, axis=axis), 16, (-1, 1))[0] for frame in scaled for axis in (1, 2)]
    return np.concatenate(
        [coarse, np.reshape(colours, (len(frames), -1)) / 1024, np.reshape(slopes, (len(frames), -1)) / 1024],
        axis=1,
    )


def test_a_single_frame_does_not_tell_the_class(motion_store):
    train, test = motion_store.clips("train"), motion_store.clips("test")
    accuracies = [
        ridge_accuracy(
            frame_features(train.frames.numpy()[:, time]),
            train.labels.numpy(),
            frame_features(test.frames.numpy()[:, time]),
            test.labels.numpy(),
        )
        for time in (0, 3, 7)
    ]
    # Chance is 10 %; one accuracy of 200 clips deviates by 2.1 %.
    assert np.mean(accuracies) < 0.16


def flow(clip: np.ndarray) -> float:
    """The horizontal velocity that explains the changes of (T, H, W, 3) best, by least squares on brightness."""
    slope = (np.roll(clip, -1, axis=2) - np.roll(clip, 1, axis=2))[:-1] / 2
    change = np.diff(clip, axis=0)
    # The median passes over the jump back.
    return float(np.median(-(slope * change).sum((1, 2, 3)) / (slope * slope).sum((1, 2, 3))))


def test_the_order_of_frames_tells_left_from_right():
    assert np.mean([flow(clip) < 0 for clip in videos("left", 20)]) > 0.9
    assert np.mean([flow(clip) > 0 for clip in videos("right", 20)]) > 0.9


def test_the_order_of_frames_tells_growing_from_shrinking():
    for label, sign in (("growing", 1), ("shrinking", -1)):
        # Objects are brighter than the background; the median passes over the jump back.
        changes = [np.median(np.diff(clip.mean((1, 2, 3)))) for clip in videos(label, 20)]
        assert np.mean(sign * np.array(changes) > 0) > 0.9


def test_it_is_ingested_whole_and_without_flips(motion_store):
    assert motion_store.header.splits == {"train": 300, "val": 0, "test": 200}
    assert motion_store.header.num_skipped == 0
    assert motion_store.flip is False
    assert motion_store.classes == tuple(sorted(MOTIONS))
