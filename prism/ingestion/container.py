"""Packets of a video file, and the facts that they show before any frame is decoded: length, rate and damage."""

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
"""Packets of a video in file order; None marks a place where packets are lost."""

STAMPED = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm")
"""Containers, as FFmpeg names them, that store a time stamp for every packet."""
RESYNCING = {"matroska,webm", "flv", "asf"}
"""Containers whose demuxers drop damaged packets, and report this only in FFmpeg's log."""
MOST_KEPT = 2**26
"""Size in bytes below which a file is read once: its packets are counted, kept in memory, and then decoded."""
ANY_TEXT: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}
"""Option of `av.open` to accept a title in another encoding than UTF-8; needed before PyAV 19, removed in it."""
PAUSE = 10
"""Longest distance between two frames, in median distances; above it the clock has jumped."""


@dataclass(frozen=True)
class Survey:
    """Facts about a video that its packets show.

    Attributes:
        stream: the video stream, in an open container.
        stamps: time stamps (pts, dts) of the packets that show a frame, in units of the stream.
        end: end of the video in seconds; end of the file if the stream states no length.
        reorders: whether the codec may store frames in another order than they are shown.
        is_whole: whether the file was read to its end without a corrupt packet.
        is_damaged: whether the container is damaged, so that packets may be missing.
    """

    stream: VideoStream
    stamps: list[tuple[int | None, int | None]]
    end: float
    reorders: bool
    is_whole: bool
    is_damaged: bool

    @cached_property
    def times(self) -> list[int]:
        """The sorted time stamps of frames, in units of the stream."""
        return sorted(time for pts, dts in self.stamps if (time := dts if pts is None else pts) is not None)

    @cached_property
    def step(self) -> int:
        """The median time between two frames, in units of the stream."""
        return median_high([b - a for a, b in pairwise(self.times)] or [0])

    @property
    def holes(self) -> list[int]:
        """Time stamps of the frames that follow a gap, where a damaged container has lost packets."""
        return [b for a, b in pairwise(self.times) if self.is_damaged and 2 * (b - a) > 3 * self.step]

    @property
    def rate(self) -> Fraction | None:
        """Frames per second; None if unknown."""
        # The clock of joined recordings starts again: then only decoding stamps are in the order of time.
        decoded = [dts for _, dts in self.stamps if dts is not None]
        starts_again = any(a - b > PAUSE * self.step for a, b in pairwise(decoded))
        steps = [b - a for a, b in pairwise(decoded if starts_again else self.times)]
        usual = median_high(steps or [0])
        span = sum(step if abs(step) <= PAUSE * usual else usual for step in steps) * self._unit
        # Matroska declares the rate that its writer expected; without one FFmpeg guesses from the first frames.
        if span and (not self._declared or abs(self._declared * span - len(steps)) > 1):
            return len(steps) / span
        return self._declared

    @property
    def early_end(self) -> str:
        """Message about a video that ends before nine tenths of the length in its header; else empty."""
        stream, container = self.stream, cast(InputContainer, self.stream.container)
        length = _length(stream)
        promised = float(length * self._unit) if length else (container.duration or 0) / av.time_base
        span = (self.times[-1] - self.times[0]) * self._unit if self.times else Fraction(0)
        seconds = float(span or len(self.stamps) / (self._declared or 25))
        # The packet of the last frame may have no duration, but the frame is shown.
        end = max(self.end, seconds * len(self.stamps) / max(1, len(self.stamps) - 1))
        if container.format.name == "avi" and self._declared:
            # FFmpeg shortens the duration of a truncated file, but keeps the number of frames in its header.
            promised = max(promised, float(stream.frames / self._declared))
        elif not length and 0 < (start := (container.start_time or 0) / av.time_base) < promised:
            # FFmpeg counts the duration of Matroska from zero, not from the first frame.
            end, promised = end - start, promised - start
        # Frame counts of AVI are off by a few.
        if 10 * end >= 9 * promised:
            return ""
        return f"it ends after {end:.1f} of the {promised:.1f} seconds that its header promises."

    @property
    def identifies_frames(self) -> bool:
        """Whether time stamps identify frames: all differ, none is invented, and no packet may hold a field."""
        if not self.is_whole or self.is_damaged or self.stream.container.format.name not in STAMPED:
            return False
        # A packet of H.264 may hold a field (half of a frame); such packets are closer in time than whole frames.
        steps = [b - a for a, b in pairwise(self.times)]
        may_mix = self.stream.codec_context.name == "h264" and 2 * max(steps) > 3 * min(steps)
        is_invented = self.reorders and all(pts == dts for pts, dts in self.stamps)
        # In HEVC cut without re-encoding, the decoder drops the frames that are shown before the first key frame.
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
    """Survey of a video file, and its packets if the file is below `MOST_KEPT`; `stack` closes the container."""
    if not path.is_file():
        raise VideoError("there is no such file.")
    if (num_bytes := path.stat().st_size) == 0:
        raise VideoError("the file is empty.")
    stamps, ends, is_whole, has_begun = list[tuple[int | None, int | None]](), dict[int, int](), True, False
    kept: list[av.Packet | None] | None = [] if num_bytes < MOST_KEPT else None
    with _logged() as log:
        container, stream = stack.enter_context(opened(path))
        reorders = stream.codec_context.has_b_frames  # Read now: decoding a frame may change it.
        # Without a length of its own a stream is compared with the file's length, that of the longest stream.
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
    end = float(max((time * (container.streams[index].time_base or 0) for index, time in ends.items()), default=0))
    is_damaged = any(name in RESYNCING for _, name, _ in log)
    return Survey(stream, stamps, end, reorders, is_whole, is_damaged), kept


def _length(stream: VideoStream) -> int | None:
    """The length of a stream in its units; None without its own length: in ASF FFmpeg gives the file's length."""
    return None if stream.container.format.name == "asf" else stream.duration


@contextmanager
def opened(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open a file and its video stream (of several, the one that FFmpeg prefers), for decoding in this thread."""
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
        # FFmpeg's choice does not always avoid a still that lies before the video.
        stream = max(streams, key=lambda one: (one.frames != 1, one == container.streams.best("video")))
        if not stream.codec_context:
            raise VideoError("its codec is not known.")
        # Videos are decoded in parallel processes, with which threads of a decoder would compete. Decoders of AV1
        # and VP9 obey the thread count alone; with several threads, damaged AV1 shows some frames late.
        stream.thread_type, stream.codec_context.thread_count = "NONE", 1
        yield container, stream


def packets_of(container: InputContainer, stream: VideoStream | None) -> Iterator[av.Packet | None]:
    """The packets of a stream, or of all streams if None; the last item is None if the file breaks off."""
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
    # Otherwise FFmpeg leaves out a message that equals the last one, even of another file.
    av.logging.set_skip_repeated(False)
    try:
        with av.logging.Capture() as log:
            yield log
    finally:
        av.logging.set_level(level)
