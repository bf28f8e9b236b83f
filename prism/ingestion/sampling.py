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


def choose_windows(
    config: IngestConfig, path: str, split: str, video_frames: int, runs: Sequence[range], rate: Fraction | None
) -> list[Window]:
    """Windows without damage: random ones, or the centre one and, for a test video, random ones after it; or none.

    A draw depends on the seed and the video's path, and the first windows stay the same when more are drawn. In
    place of a window that holds damage, or was drawn before, the next one is taken. A short test video gives some
    of its windows again. `runs`: the runs of frames without damage; `rate`: frames per second, if they are known.
    """
    stride = {"stride": config.stride, "even": video_frames}.get(config.sampling, 0)
    if config.sampling == "fps":
        if rate is None:
            raise VideoError("its frame rate is not known, which sampling fps needs.")
        stride = round(rate / Fraction(config.fps))
    stride = max(1, min(stride, (video_frames - 1) // (config.num_frames - 1)))
    span = min(stride * (config.num_frames - 1) + 1, video_frames)
    free, last = [start for run in runs for start in range(run.start, run.stop - span + 1)], video_frames - span
    centre = min(free, key=lambda start: abs(start - last // 2), default=None)
    is_random = split == "train" and config.window == "random" and config.sampling != "even"
    count = {"train": config.clips_per_video * is_random, "test": config.random_test_windows}.get(split, 0)
    starts = list[int]()
    for k in range(min(count, len(free))):
        at = bisect_left(free, derive_seed(config.seed, "window", path, k) % (last + 1))
        starts.append(free.pop(at % len(free)))
    if centre is not None and not is_random:
        starts = [centre, *(starts[k % len(starts)] for k in range(count))]
    return [Window(start, stride) for start in starts]
