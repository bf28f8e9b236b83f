"""Packets of a video as its container gives them, and what they say before anything is decoded."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median_high
from typing import Any, cast

import av
import av.logging
from av.container import InputContainer
from av.error import FFmpegError
from av.stream import Disposition
from av.video.stream import VideoStream

from prism.errors import VideoError
from prism.machine.text_io import reason

Packets = Iterable[av.Packet | None]
"""Packets of a video; None stands where some are lost."""

STAMPED = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm")
"""Containers, as FFmpeg names them, that store a time stamp for every packet."""
RESYNCING = {"matroska,webm", "flv", "asf"}
"""Containers whose demuxers drop packets where they are damaged, and only log it."""
MOST_KEPT = 2**26
"""Bytes up to which a file is read once: its packets are counted, then decoded."""
ANY_TEXT: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}
"""Before PyAV 19, which has no such option, a title that is no UTF-8 is an error by default."""
PAUSE = 10
"""Steps between two frames above which time is taken to have jumped, not to have passed."""


@dataclass(frozen=True)
class Survey:
    """What the packets of a video say.

    Attributes:
        stream: the video, in an open container.
        stamps: stamps (pts, dts) of the packets that show a frame.
        end: the end of the video in seconds; of the file, where the video has no length of its own.
        reorders: whether its codec may store frames in another order than they are shown.
        is_whole: whether the file is read to its end without a corrupt packet.
        is_lossy: whether its container is damaged, so that packets may be lost.
    """

    stream: VideoStream
    stamps: list[tuple[int | None, int | None]]
    end: float
    reorders: bool
    is_whole: bool
    is_lossy: bool

    @cached_property
    def times(self) -> list[int]:
        """The sorted time stamps of frames, in units of the stream."""
        return sorted(time for pts, dts in self.stamps if (time := dts if pts is None else pts) is not None)

    @cached_property
    def step(self) -> int:
        """The median time between two frames."""
        return median_high([b - a for a, b in pairwise(self.times)] or [0])

    @property
    def holes(self) -> list[int]:
        """The time stamps before which packets of a damaged container are lost."""
        return [b for a, b in pairwise(self.times) if self.is_lossy and 2 * (b - a) > 3 * self.step]

    @property
    def rate(self) -> Fraction | None:
        """Frames per second, if they are known."""
        # Where time starts again, as in two recordings that were joined, only stamps of decoding have an order.
        decoded = [dts for _, dts in self.stamps if dts is not None]
        starts_again = any(a - b > PAUSE * self.step for a, b in pairwise(decoded))
        steps = [b - a for a, b in pairwise(decoded if starts_again else self.times)]
        usual = median_high(steps or [0])
        span = sum(step if abs(step) <= PAUSE * usual else usual for step in steps) * self._unit
        # Matroska declares what its writer expected, or nothing: then FFmpeg guesses by the first frames.
        if span and (not self._declared or abs(self._declared * span - len(steps)) > 1):
            return len(steps) / span
        return self._declared

    @property
    def early_end(self) -> str:
        """Message about a video that ends before nine tenths of what its header promises; else empty."""
        stream, container = self.stream, cast(InputContainer, self.stream.container)
        length = _length(stream)
        promised = float(length * self._unit) if length else (container.duration or 0) / av.time_base
        span = (self.times[-1] - self.times[0]) * self._unit if self.times else Fraction(0)
        seconds = float(span or len(self.stamps) / (self._declared or 25))
        # The last frame counts too, which may have no duration.
        end = max(self.end, seconds * len(self.stamps) / max(1, len(self.stamps) - 1))
        if container.format.name == "avi" and self._declared:
            # FFmpeg cuts the duration of a file that is shorter than its header says.
            promised = max(promised, float(stream.frames / self._declared))
        elif not length and 0 < (start := (container.start_time or 0) / av.time_base) < promised:
            # A length, which FFmpeg's Matroska counts from zero.
            end, promised = end - start, promised - start
        # Frame counts of AVI are off by a few.
        if 10 * end >= 9 * promised:
            return ""
        return f"it ends after {end:.1f} of the {promised:.1f} seconds that its header promises."

    @property
    def identifies_frames(self) -> bool:
        """Whether every frame has a stamp of its own that is not invented, and no packet may hold a field."""
        if not self.is_whole or self.is_lossy or self.stream.container.format.name not in STAMPED:
            return False
        # Packets of H.264 may hold a field, half of a frame, and be closer than those that hold a whole one.
        steps = [b - a for a, b in pairwise(self.times)]
        may_mix = self.stream.codec_context.name == "h264" and 2 * max(steps) > 3 * min(steps)
        is_invented = self.reorders and all(pts == dts for pts, dts in self.stamps)
        # The decoder drops what is shown before the first key frame: HEVC that was cut without encoding it anew.
        is_headless = self.stamps[0][0] != self.times[0]
        is_told_apart = len({pts for pts, _ in self.stamps} - {None}) == len(self.stamps)
        return is_told_apart and not (is_invented or may_mix or is_headless)

    @property
    def _unit(self) -> Fraction:
        return self.stream.time_base or Fraction(1, 25)

    @property
    def _declared(self) -> Fraction | None:
        rate = self.stream.average_rate or self.stream.guessed_rate
        return rate if rate and rate > 0 else None


def survey(path: Path, stack: ExitStack) -> tuple[Survey, list[av.Packet | None] | None]:
    """Survey of a video, whose container stays open as long as `stack`, and its packets if they are few enough."""
    if not path.is_file():
        raise VideoError("there is no such file.")
    if (num_bytes := path.stat().st_size) == 0:
        raise VideoError("the file is empty.")
    stamps, ends, is_whole, has_begun = list[tuple[int | None, int | None]](), dict[int, int](), True, False
    kept: list[av.Packet | None] | None = [] if num_bytes < MOST_KEPT else None
    with _logged() as log:
        container, stream = stack.enter_context(opened(path))
        reorders = stream.codec_context.has_b_frames  # Before a frame is decoded, which may change it.
        # A stream without a length of its own is compared with the file's, which is that of the longest stream.
        for packet in packets_of(container, stream if _length(stream) else None):
            is_ours = packet is None or packet.stream_index == stream.index
            if is_ours and kept is not None:
                kept.append(packet)
            if packet is None or packet.is_corrupt:
                is_whole = False
                continue
            has_begun |= is_ours and packet.is_keyframe
            if is_ours and not has_begun:
                continue
            pts, dts = packet.pts, packet.dts
            if (time := dts if pts is None else pts) is not None:
                time += packet.duration or 0
                ends[packet.stream_index] = max(ends.get(packet.stream_index, time), time)
            if is_ours and not packet.is_discard:
                stamps.append((pts, dts))
    units = {index: container.streams[index].time_base or 0 for index in ends}
    end = float(max((ends[index] * units[index] for index in ends), default=0))
    is_lossy = any(name in RESYNCING for _, name, _ in log)
    return Survey(stream, stamps, end, reorders, is_whole, is_lossy), kept


def _length(stream: VideoStream) -> int | None:
    """The length of a stream in its units, where it has one of its own; in ASF FFmpeg gives that of the file."""
    return None if stream.container.format.name == "asf" else stream.duration


@contextmanager
def opened(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open a file and its first video stream, for decoding in this thread."""
    # An absolute path is never taken for a protocol, and a play list may not reach beyond local files.
    local, options = str(path.absolute()), {"protocol_whitelist": "file"}
    try:
        container = av.open(local, options=options, **ANY_TEXT)
    except (FFmpegError, OSError) as error:
        raise VideoError(f"it cannot be opened as a video: {reason(error)}.") from None
    with container:
        pictures = [s for s in container.streams.video if s.disposition & Disposition.attached_pic]
        streams = [stream for stream in container.streams.video if stream not in pictures]
        if not streams:
            kinds = sorted({stream.type for stream in container.streams if stream not in pictures})
            kinds += ["a cover picture"] * bool(pictures)
            raise VideoError(f"there is no video in it, only {' and '.join(kinds) or 'nothing'}.")
        if not streams[0].codec_context:
            raise VideoError("its codec is not known.")
        # Parallelism is by process: threads inside a decoder would only compete with it. Decoders of AV1 and VP9
        # go by their number alone; with several, damage of AV1 shows some frames late.
        streams[0].thread_type, streams[0].codec_context.thread_count = "NONE", 1
        yield container, streams[0]


def packets_of(container: InputContainer, stream: VideoStream | None) -> Iterator[av.Packet | None]:
    """The packets of a stream, or of all, up to the end; None at last where the file is broken off."""
    try:
        yield from (packet for packet in container.demux(stream) if packet.size)
    except MemoryError:
        raise
    except (FFmpegError, OSError):
        yield None


@contextmanager
def _logged() -> Iterator[list[tuple[int, str, str]]]:
    """Errors that FFmpeg logs in this thread: level, name of the demuxer or decoder, and text."""
    level = av.logging.get_level()
    av.logging.set_level(av.logging.ERROR)
    # Else the first that equals the last one of another file is left out.
    av.logging.set_skip_repeated(False)
    try:
        with av.logging.Capture() as log:
            yield log
    finally:
        av.logging.set_level(level)
