"""Choosing the frames of a video that form a clip: exact arithmetic only.

A clip of T frames at a stride spans `stride * (T - 1) + 1` video frames. A video that is shorter takes
the largest smaller stride that fits; one with fewer than T frames takes every frame and repeats its last.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from prism.errors import VideoError
from prism.ingestion.options import IngestConfig
from prism.machine.randomness import derive_seed


@dataclass(frozen=True)
class Window:
    """The frames `start, start + stride, …` of a video."""

    start: int
    stride: int

    def indices(self, num_frames: int, video_frames: int) -> list[int]:
        """The clip's frame indices, `num_frames` of them, all below `video_frames`."""
        return [min(self.start + t * self.stride, video_frames - 1) for t in range(num_frames)]


def clip_span(num_frames: int, stride: int) -> int:
    """Video frames from a clip's first frame to its last, both included."""
    return stride * (num_frames - 1) + 1


def fitting_stride(video_frames: int, num_frames: int, stride: int) -> int:
    """The largest stride up to `stride` at which a clip fits, and 1 where none does."""
    return max(1, min(stride, (video_frames - 1) // (num_frames - 1)))


def _starts(video_frames: int, num_frames: int, stride: int, runs: Sequence[range] | None) -> list[int]:
    """The frames at which a window that lies inside a run can start, in order."""
    span = min(clip_span(num_frames, stride), video_frames)
    runs = [range(video_frames)] if runs is None else runs
    return [start for run in runs for start in range(run.start, run.stop - span + 1)]


def centre_window(
    video_frames: int, num_frames: int, stride: int, runs: Sequence[range] | None = None
) -> Window | None:
    """The window in the middle of a video, or the nearest one in its runs without damage, if any."""
    stride = fitting_stride(video_frames, num_frames, stride)
    middle = max(0, video_frames - clip_span(num_frames, stride)) // 2
    starts = _starts(video_frames, num_frames, stride, runs)
    return Window(min(starts, key=lambda start: abs(start - middle)), stride) if starts else None


def random_windows(
    video_frames: int,
    num_frames: int,
    stride: int,
    *,
    count: int,
    seed: int,
    path: str,
    runs: Sequence[range] | None = None,
) -> list[Window]:
    """Up to `count` different windows of a video, in the order they are drawn.

    The draw depends on the seed and the video's path, and the first windows stay the same when more are drawn. In
    place of a window that holds damage, or was drawn before, the next one is taken.
    """
    stride = fitting_stride(video_frames, num_frames, stride)
    num_starts = max(1, video_frames - clip_span(num_frames, stride) + 1)
    free, starts = _starts(video_frames, num_frames, stride, runs), []
    for k in range(min(count, len(free))):
        at = bisect_left(free, derive_seed(seed, "window", path, k) % num_starts)
        starts.append(free.pop(at if at < len(free) else 0))
    return [Window(start, stride) for start in starts]


def choose_windows(
    config: IngestConfig,
    video_frames: int,
    path: str,
    split: str,
    rate: Fraction | None,
    runs: Sequence[range] | None = None,
) -> list[Window]:
    """Random windows, or the one in the centre and for a test video random ones after it; none without damage.

    A short test video gives some of its windows again. `rate` is its frames per second, if they are known.

    Raises:
        VideoError: the sampling needs a rate that is not known.
    """
    stride = {"stride": config.stride, "even": video_frames}.get(config.sampling, 0)
    if config.sampling == "fps":
        if rate is None:
            raise VideoError("its frame rate is not known, which sampling fps needs.")
        stride = max(1, round(rate / Fraction(config.fps)))
    is_random = split == "train" and config.window == "random" and config.sampling != "even"
    count = {"train": config.clips_per_video * is_random, "test": config.random_test_windows}.get(split, 0)
    spaced = (video_frames, config.num_frames, stride)
    drawn = random_windows(*spaced, count=count, seed=config.seed, path=path, runs=runs)
    centre = centre_window(*spaced, runs)
    if is_random or centre is None:
        return drawn
    return [centre, *(drawn[k % len(drawn)] for k in range(count))]
