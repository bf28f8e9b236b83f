"""Decoding frames of a video by their exact index, and fitting them to the size of a clip.

The index of a frame is its position among the frames in the order they are shown. Containers do not tell
it: frame counts are missing or wrong, and seeking by time can be off by one. So packets are counted by
reading the file, and there are three ways to decode a frame, each taken where the one before it fails:

1. by time: the packets' time stamps, sorted, are the frames; seek to a key frame, recognise by time stamp;
2. in order: decode from the start to the end and count, where every packet gives a frame;
3. counted: some packets give none, so count the frames that can be decoded first, then as in 2.

A frame is turned and mirrored as the display matrix of its video says: phones store upright videos on their side.
The shape of pixels, and what a picture in a folder of frames says of its orientation (EXIF), are ignored.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING

import av
import numpy as np
from av.error import FFmpegError
from av.stream import Disposition
from av.video.reformatter import VideoReformatter
from PIL import Image

from prism.errors import VideoError
from prism.ingestion.listing import frame_files
from prism.ingestion.sampling import Window
from prism.ingestion.task import Limits

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

Array = np.ndarray
Frames = dict[int, Array]
Read = Callable[[Collection[int]], Frames]


class _Missing(Exception):
    """This way does not lead to the wanted frames."""


def read_clips(
    path: Path, choose: Callable[[int], list[Window]], num_frames: int, size: int, limits: Limits, root: Path
) -> tuple[int, list[Window], list[Array]]:
    """Decode the clips of one video, holding no more than their frames.

    Args:
        path: a video file, or a folder with one image per frame.
        choose: given the number of frames of the video, at least 2, the windows to read.
        num_frames: frames of a clip (T).
        size: height and width in pixels; the short side is resized to it, then the centre is cropped.
        limits: what the video may cost; the system keeps those of memory and time (`ingestion/worker.py`).
        root: the source; a frame that is a link may not lead out of it.

    Returns:
        The number of frames of the video, the windows, and for each a clip (T, 3, size, size) uint8, RGB.

    Raises:
        VideoError: the video cannot be used; the reason is its message.
    """
    for video_frames, read in _ways(path, size, limits, root):
        try:
            windows = choose(video_frames)
            indices = [window.indices(num_frames, video_frames) for window in windows]
            frames = read({index for clip in indices for index in clip})
        except _Missing:
            continue
        return video_frames, windows, [np.stack([frames[index] for index in clip]) for clip in indices]
    raise VideoError("its frames change from one reading to the next.")


def frame_rate(path: Path) -> Fraction:
    """Frames per second of a video file, on average: as it declares unless its time stamps say otherwise.

    The two may differ by a frame in the whole video: times are rounded, and the last frame may last longer.

    Raises:
        VideoError: it is not known.
    """
    if path.is_dir():
        raise VideoError("a folder of frames has no frame rate, which sampling fps needs.")
    with _opened(path) as (container, stream):
        rate, time_base = stream.average_rate or stream.guessed_rate, stream.time_base
        times = _times(container, stream)
    shown = [time for time in times if time is not None]
    if len(shown) == len(times) > 1 and time_base and max(shown) > min(shown):
        seconds, intervals = (max(shown) - min(shown)) * time_base, len(shown) - 1
        # Matroska declares what its writer expected, or nothing: then FFmpeg guesses by the first frames.
        if not rate or abs(rate * seconds - intervals) > 1:
            return intervals / seconds
    if not rate or rate <= 0:
        raise VideoError("its frame rate is not known, which sampling fps needs.")
    return rate


def _ways(path: Path, size: int, limits: Limits, root: Path) -> Iterator[tuple[int, Read]]:
    """Ways to read a video, the best first: each with the number of frames that it finds, and a reader of some."""
    if path.is_dir():
        images = frame_files(path)
        _require_motion(len(images))
        _require_one_series(images)
        yield (
            len(images),
            lambda wanted: {index: _read_image(images[index], size, limits, root) for index in wanted},
        )
        return
    if not path.is_file():
        raise VideoError("there is no such file.")
    if path.stat().st_size == 0:
        raise VideoError("the file is empty.")
    times, time_base = _survey(path, limits)
    shown = [time for time in times if time is not None]
    if shown and time_base:
        _check_seconds(float((max(shown) - min(shown)) * time_base), limits)
    if len(times) > 1:
        if None not in times and len(set(times)) == len(times):
            shown.sort()
            yield len(times), lambda wanted: _read_by_time(path, shown, wanted, size, limits)
        yield len(times), lambda wanted: _read_in_order(path, len(times), wanted, size, limits)
    count = sum(1 for _ in _decoded_frames(path))
    _require_motion(count)
    yield count, lambda wanted: _read_in_order(path, count, wanted, size, limits)


def _survey(path: Path, limits: Limits) -> tuple[list[int | None], Fraction | None]:
    """The time stamp of every packet that gives a shown frame, and the unit of times; nothing is decoded.

    A video is refused by what it says of itself. A header may lie: times and frames are checked as they come.
    """
    with _opened(path) as (container, stream):
        width, height = stream.codec_context.width, stream.codec_context.height
        if width and height:
            _check_frame(width, height, limits)
        _check_seconds(container.duration / av.time_base if container.duration else 0.0, limits)
        time_base = stream.time_base
        return _times(container, stream), time_base


def _times(container: "InputContainer", stream: "VideoStream") -> list[int | None]:
    """The time stamp of every packet that gives a shown frame.

    What stands before the first key frame, as in a video that was cut without encoding it anew, gives none.
    """
    packets = dropwhile(lambda packet: not packet.is_keyframe, _packets(container, stream))
    return [packet.pts for packet in packets if not packet.is_discard]


def _check_seconds(seconds: float, limits: Limits) -> None:
    if seconds > limits.max_seconds:
        raise VideoError(f"it plays for {seconds:.0f} seconds, more than max_seconds = {limits.max_seconds:g}.")


def _check_frame(width: int, height: int, limits: Limits) -> None:
    if width * height > limits.max_pixels:
        raise VideoError(f"its frames have {width}×{height} pixels, more than max_pixels = {limits.max_pixels}.")
    if min(width, height) < limits.min_side:
        raise VideoError(f"its frames have {width}×{height} pixels, less than min_side = {limits.min_side}.")


def _require_motion(video_frames: int) -> None:
    if video_frames == 0:
        raise VideoError("no frame can be decoded.")
    if video_frames == 1:
        raise VideoError("there is only one frame, which cannot show a motion.")


def _require_one_series(images: Sequence[Path]) -> None:
    """Refuse pictures whose names differ in more than numbers, such as those of optical flow beside the frames.

    Names of which no two differ in numbers alone have no series, only an order.
    """
    forms = {re.sub(r"\d+", "#", image.stem) for image in images}
    is_twice = len({image.stem for image in images}) < len(images)
    if is_twice or 1 < len(forms) < len(images):
        names = sorted({re.sub(r"\d+", "#", image.name) for image in images})
        said = ", ".join(names[:3]) + ", …" * (len(names) > 3)
        raise VideoError(f"its pictures belong to several series ({said}), of which one is wanted.")


@contextmanager
def _opened(path: Path) -> "Iterator[tuple[InputContainer, VideoStream]]":
    """Open a file and its first video stream, for decoding in this thread."""
    try:
        # An absolute path is never taken for a protocol, and a play list may not reach beyond local files.
        container = av.open(str(path.absolute()), options={"protocol_whitelist": "file"})
    except MemoryError:
        raise
    except (FFmpegError, OSError) as error:
        raise VideoError(f"it cannot be opened as a video: {_reason(error)}.") from None
    with container:
        streams = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
        if not streams:
            kinds = sorted({stream.type for stream in container.streams})
            raise VideoError(f"there is no video in it, only {' and '.join(kinds) or 'nothing'}.")
        if not streams[0].codec_context:
            raise VideoError("its codec is not known.")
        # Parallelism is by process: threads inside a decoder would only compete with it.
        streams[0].thread_type = "NONE"
        yield container, streams[0]


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text[:1].lower() + text[1:]


def _packets(container: "InputContainer", stream: "VideoStream") -> "Iterator[av.Packet]":
    """The whole packets of a stream, up to its end or to where the file is broken off."""
    try:
        yield from (packet for packet in container.demux(stream) if packet.size and not packet.is_corrupt)
    except MemoryError:
        raise
    except (FFmpegError, OSError):
        return


def _read_by_time(path: Path, times: list[int], wanted: Collection[int], size: int, limits: Limits) -> Frames:
    """Seek to the key frame before the first wanted frame and decode up to the last."""
    index_at = {times[index]: index for index in wanted}
    # One for all frames: to prepare a conversion takes longer than to decode and convert a small frame.
    found, converter = {}, VideoReformatter()
    for frame in _decoded_frames(path, since=min(index_at)):
        if frame.pts in index_at:
            found[index_at[frame.pts]] = _fit_frame(frame, size, limits, converter)
        if frame.pts is None or len(found) == len(index_at) or frame.pts > max(index_at):
            break
    if len(found) < len(index_at):
        raise _Missing
    return found


def _read_in_order(path: Path, video_frames: int, wanted: Collection[int], size: int, limits: Limits) -> Frames:
    """Decode from the start and count. Where there are not as many frames as expected, one before may lack."""
    found, converter, count = {}, VideoReformatter(), 0
    for count, frame in enumerate(_decoded_frames(path), 1):
        if count - 1 in wanted:
            found[count - 1] = _fit_frame(frame, size, limits, converter)
    if count != video_frames:
        raise _Missing
    return found


def _decoded_frames(path: Path, since: int | None = None) -> "Iterator[av.VideoFrame]":
    """The frames that can be decoded, in the order they are shown; others are left out.

    With a time stamp `since`, decoding starts at a key frame that is not shown after it.
    """
    with _opened(path) as (container, stream):
        for packet in _packets(container, stream) if since is None else _packets_since(container, stream, since):
            yield from _frames_of(stream, packet)
        yield from _frames_of(stream, None)


def _frames_of(stream: "VideoStream", packet: "av.Packet | None") -> "list[av.VideoFrame]":
    try:
        return stream.codec_context.decode(packet)
    except MemoryError:
        # A frame that is left out for want of memory would shift all that follow.
        raise
    except (FFmpegError, OSError):
        return []


def _packets_since(container: "InputContainer", stream: "VideoStream", since: int) -> "Iterator[av.Packet]":
    try:
        container.seek(since, stream=stream)
    except (FFmpegError, OSError):
        raise _Missing from None
    packets = _packets(container, stream)
    first = next(packets, None)
    # Frames that lead a later key frame decode too, but from a wrong reference: never start after `since`.
    if first is None or first.pts is None or first.pts > since or not first.is_keyframe:
        raise _Missing
    yield first
    yield from packets


def _fit_frame(frame: "av.VideoFrame", size: int, limits: Limits, converter: VideoReformatter) -> Array:
    _check_frame(frame.width, frame.height, limits)
    try:
        fitted = fit(converter.reformat(frame, format="rgb24").to_ndarray(), size)
    except (FFmpegError, ValueError, OSError) as error:
        raise VideoError(f"a frame cannot be turned into RGB: {_reason(error)}.") from None
    # What is kept is the centre square, which is the same turned before or after; after, it is small.
    matrix = frame.side_data.get("DISPLAYMATRIX")
    return fitted if matrix is None else _as_shown(fitted, np.frombuffer(matrix, np.int32).tolist())


def _as_shown(frame: Array, matrix: list[int]) -> Array:
    """Turn and mirror a square frame, (3, size, size), as FFmpeg's players do.

    Args:
        frame: the pixels as they are stored.
        matrix: FFmpeg's display matrix: the point (x, y) is shown at (a x + c y, b x + d y), where a, b, c and d
            are its numbers 0, 1, 3 and 4. One that is no multiple of 90° changes nothing.
    """
    a, b, c, d = (matrix[k] for k in (0, 1, 3, 4))
    # Within a degree, as FFmpeg has it.
    if 57 * max(abs(b), abs(c)) < min(abs(a), abs(d)):
        right, down = a, d
    elif 57 * max(abs(a), abs(d)) < min(abs(b), abs(c)):
        frame, right, down = frame.transpose(0, 2, 1), c, b
    else:
        return frame
    return np.ascontiguousarray(frame[:, :: -1 if down < 0 else 1, :: -1 if right < 0 else 1])


def _read_image(path: Path, size: int, limits: Limits, root: Path) -> Array:
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root.resolve()):
        raise VideoError(f"frame '{path.name}' is a link that leaves the source.")
    if path.exists() and not path.is_file():
        raise VideoError(f"frame '{path.name}' is no file.")
    try:
        with Image.open(path) as image:
            _check_frame(image.width, image.height, limits)
            return fit(as_rgb(image), size)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise VideoError(f"frame '{path.name}' cannot be read: {_reason(error)}.") from None


def as_rgb(image: Image.Image) -> Array:
    """The pixels of a picture as (H, W, 3) uint8; of grey with 16 bits the high byte.

    Raises:
        ValueError: it has whole numbers or floats of 32 bits, whose range is not known.
    """
    # Pillow's own conversion of these clips at 255, so that nearly all is white.
    if image.mode.startswith("I;16"):
        grey = (np.asarray(image) >> 8).astype(np.uint8)
        return np.repeat(grey[..., None], 3, axis=2)
    if image.mode in ("I", "F"):
        raise ValueError("it has 32 bits in a pixel, but there must be 8, or 16 of grey")
    return np.asarray(image.convert("RGB"))


def fit(frame: Array, size: int) -> Array:
    """Resize the short side of (H, W, 3) to `size` and crop the centre, to (3, size, size).

    Pillow widens its filter when it shrinks (no aliasing) and computes in fixed point, so the same frame
    gives the same bytes on every machine, from a video or from an image.
    """
    height, width = frame.shape[:2]
    side = min(height, width)
    left, top = (width - side) / 2, (height - side) / 2
    box = (left, top, left + side, top + side)
    resized = Image.fromarray(frame).resize((size, size), Image.Resampling.BICUBIC, box=box)
    return np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1))
