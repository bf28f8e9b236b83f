"""Which frames form a clip: promises that hold for every length, stride and seed."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from videos import write_classes, write_images, write_numbered

from prism.errors import SourceError
from prism.ingestion.build import ingest
from prism.ingestion.options import IngestConfig
from prism.ingestion.sampling import Window, choose_windows

VIDEO_FRAMES = st.integers(1, 400)
NUM_FRAMES = st.integers(2, 40)
STRIDE = st.integers(1, 20)
SEED = st.integers(0, 2**32)


def draw(
    video_frames: int, num_frames: int, stride: int, seed: int, count: int = 5, path: str = "jump/a.mp4"
) -> list[Window]:
    config = IngestConfig(num_frames=num_frames, stride=stride, clips_per_video=count, seed=seed)
    return choose_windows(config, path, "train", video_frames, [range(video_frames)], None)


def centre_window(video_frames: int, num_frames: int, stride: int) -> Window:
    config = IngestConfig(num_frames=num_frames, stride=stride)
    return choose_windows(config, "a.mp4", "val", video_frames, [range(video_frames)], None)[0]


@given(VIDEO_FRAMES, NUM_FRAMES, STRIDE, SEED)
def test_every_window_has_t_frames_inside_the_video(video_frames, num_frames, stride, seed):
    for window in [centre_window(video_frames, num_frames, stride), *draw(video_frames, num_frames, stride, seed)]:
        indices = window.indices(num_frames, video_frames)
        assert len(indices) == num_frames
        assert 0 <= min(indices) <= max(indices) < video_frames
        assert indices == sorted(indices)


@given(VIDEO_FRAMES, NUM_FRAMES, STRIDE)
def test_the_stride_is_the_largest_up_to_the_wanted_one_that_fits(video_frames, num_frames, stride):
    fits = [s for s in range(1, stride + 1) if s * (num_frames - 1) < video_frames]
    assert centre_window(video_frames, num_frames, stride).stride == max(fits, default=1)


@given(NUM_FRAMES, STRIDE, SEED, st.data())
def test_a_video_shorter_than_the_clip_gives_every_frame_and_repeats_the_last(num_frames, stride, seed, data):
    video_frames = data.draw(st.integers(1, num_frames))
    expected = [min(t, video_frames - 1) for t in range(num_frames)]
    for window in [centre_window(video_frames, num_frames, stride), *draw(video_frames, num_frames, stride, seed)]:
        assert window.indices(num_frames, video_frames) == expected


@given(VIDEO_FRAMES, NUM_FRAMES, STRIDE)
def test_the_centre_window_leaves_the_same_on_both_sides(video_frames, num_frames, stride):
    indices = centre_window(video_frames, num_frames, stride).indices(num_frames, video_frames)
    if video_frames >= num_frames:
        before, after = indices[0], video_frames - 1 - indices[-1]
        assert before in (after, after - 1)


@given(VIDEO_FRAMES, NUM_FRAMES, STRIDE, SEED, st.integers(1, 30))
def test_windows_of_a_video_differ_and_there_are_as_many_as_possible(video_frames, num_frames, stride, seed, num):
    windows = draw(video_frames, num_frames, stride, seed, num)
    span = windows[0].stride * (num_frames - 1) + 1
    assert len(set(windows)) == len(windows) == min(num, max(1, video_frames - span + 1))


@given(VIDEO_FRAMES, NUM_FRAMES, STRIDE, SEED, st.integers(1, 10))
def test_asking_for_more_windows_keeps_the_first(video_frames, num_frames, stride, seed, count):
    how = video_frames, num_frames, stride, seed
    assert draw(*how, count) == draw(*how, 20)[:count]


def test_every_video_and_every_seed_draws_another_window_and_these_are_spread_over_the_whole_video():
    assert len({draw(10_000, 8, 2, seed, 1, path)[0] for seed in range(3) for path in "abc"}) == 9
    drawn = [[window.start for window in draw(109, 5, 2, 0, 2, f"{k}.mp4")] for k in range(2000)]
    starts = [start for start, _ in drawn]
    assert len({second - start for start, second in drawn}) > 100
    assert (min(starts), max(starts)) == (0, 100)
    assert abs(sum(starts) / len(starts) - 50) < 3


def test_the_stride_of_a_rate_is_the_nearest_whole_one():
    for rate, fps, stride in ((30, 2.0, 15), (25, 2.0, 12), (1, 2.0, 1), (Fraction(30_000, 1001), 7.5, 4)):
        config = IngestConfig(num_frames=2, sampling="fps", fps=fps)
        assert choose_windows(config, "a.mp4", "test", 100, [range(100)], Fraction(rate))[0].stride == stride


@given(st.integers(2, 400), st.integers(2, 40))
def test_even_sampling_leaves_less_than_one_stride_of_frames_on_both_sides_alike(video_frames, num_frames):
    window = centre_window(video_frames, num_frames, video_frames)
    indices = window.indices(num_frames, video_frames)
    if video_frames >= num_frames:
        left_over = video_frames - 1 - window.stride * (num_frames - 1)
        assert 0 <= left_over < num_frames - 1
        assert window.start == left_over // 2
        assert 2 * (indices[-1] - indices[0] + 1) > video_frames
    else:
        assert indices[:video_frames] == list(range(video_frames))


def windows(store_source: Path, output: Path, **options: object) -> dict[str, Window]:
    store = ingest(store_source, output, progress=False, num_frames=4, size=32, **options)
    return {source.path: Window(source.start, source.stride) for source in store.sources}


def test_a_store_takes_frames_by_rate_or_spread_and_says_which(tmp_path):
    root = write_classes(tmp_path / "root", videos=2, num_frames=60)
    write_numbered(root / "jump/short.mp4", 9)
    # 25 frames a second at 5: every fifth, around the middle.
    by_rate = windows(root, tmp_path / "rate", sampling="fps", fps=5.0, window="centre")
    assert set(by_rate.values()) == {Window(22, 5), Window(1, 2)}
    spread = windows(root, tmp_path / "even", sampling="even")
    assert set(spread.values()) == {Window(1, 19), Window(1, 2)}
    assert spread["jump/short.mp4"] == Window(1, 2)
    drawn = windows(root, tmp_path / "drawn", sampling="fps", fps=5.0)
    assert {window.stride for window in drawn.values()} == {5, 2}


def test_a_folder_of_frames_has_no_rate_but_can_be_spread(tmp_path):
    write_images(tmp_path / "root/walk/one", 10)
    write_images(tmp_path / "root/jump/two", 10)
    assert set(windows(tmp_path / "root", tmp_path / "even", sampling="even").values()) == {Window(0, 3)}
    with pytest.raises(SourceError, match="which sampling fps needs"):
        windows(tmp_path / "root", tmp_path / "rate", sampling="fps")
