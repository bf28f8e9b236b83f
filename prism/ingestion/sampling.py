"""Choice of the frames of a video that form a clip, in exact arithmetic.

A clip of T frames at a stride spans `stride * (T - 1) + 1` video frames. A shorter video gets the largest stride
that fits; a video with fewer than T frames gives every frame and repeats its last frame.
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
    """Undamaged windows: random ones, or the centre one, after which a test video has random ones; may be empty.

    A draw depends on the seed and the video's path, and the first windows stay the same when more are drawn. A
    drawn window that is damaged or taken is replaced by the next free one. A short test video repeats windows.
    `runs`: the runs of undamaged frames; `rate`: frames per second; VideoError if sampling fps lacks it.
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
