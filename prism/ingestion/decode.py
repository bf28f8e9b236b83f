"""Decoding frames of a video by their exact index, and fitting them to the size of a clip.

The index of a frame is its position among the frames that the decoder gives. There are two ways to reach it:

1. by time: seek to a key frame and decode up to the last wanted frame, which its time stamp identifies;
2. in order: decode the whole video and count.

The first is for MP4, QuickTime and Matroska, which store a time stamp for every packet. Files copied from AVI have
invented ones: none is trusted where a codec reorders frames, and yet shows each at the time it is decoded. On
the way the frames must come out in the order of all stamps; at the first that does not, and wherever something is
lost or damaged, the whole video is decoded in order.

Frames are damaged from a packet that cannot be decoded, or a frame that the decoder flags, to the next key frame.
All frames are turned and mirrored by the display matrix of the first one, as FFmpeg does. The shape of pixels, and
the orientation (EXIF) of pictures in a folder, are ignored.
"""

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, cast

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
    from av.video.codeccontext import VideoCodecContext
    from av.video.stream import VideoStream

Array = np.ndarray
Frames = dict[int, Array]
Choose = Callable[[int, Sequence[range], Fraction | None], list[Window]]

STAMPED = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm")
"""Containers, as FFmpeg names them, that store a time stamp for every packet."""
CHECKING = {"vp8": "libvpx", "vp9": "libvpx-vp9"}
"""Decoders that refuse what is damaged; FFmpeg's own of these codecs show it."""
EXPLODING = {"hevc", "mjpeg"}
"""Codecs whose decoders in FFmpeg flag no frame as damaged, but can refuse one."""


class _Missing(Exception):
    """Seeking does not lead to the wanted frames, or to damaged ones."""


@dataclass
class Clips:
    """The clips of one video.

    Attributes:
        video_frames: frames of the video.
        windows: the frames of each clip.
        clips: (T, 3, size, size) uint8, RGB, one for each window.
        damage: what is known to be damaged outside of the clips; empty where nothing is.
    """

    video_frames: int
    windows: list[Window]
    clips: list[Array]
    damage: str = ""


@dataclass
class _Survey:
    """What the packets of a video say without being decoded.

    `times` are the sorted time stamps of its frames where these can be trusted, else empty; `damage` says that the
    file ends early.
    """

    packets: int
    times: list[int]
    rate: Fraction | None
    matrix: list[int] | None
    damage: str


@dataclass
class _Scan:
    """A decoded video: the runs of frames without damage, and the frames that were wanted."""

    video_frames: int
    runs: list[range]
    frames: Frames | None = None
    damage: str = ""


def read_clips(
    path: Path, choose: Choose, num_frames: int, size: int, limits: Limits, root: Path, whole: bool = False
) -> Clips:
    """Decode the clips of one video, holding no more than their frames.

    Args:
        path: a video file, or a folder with one image per frame.
        choose: given the number of frames of the video, at least 2, the runs of frames without damage, and the
            frames per second (None where they are not known), the windows to read, each inside a run.
        num_frames: frames of a clip (T).
        size: height and width in pixels; the short side is resized to it, then the centre is cropped.
        limits: what the video may cost; the system keeps those of memory and time (`ingestion/worker.py`).
        root: the source; a frame that is a link may not lead out of it.
        whole: refuse a video that is damaged anywhere, for which all of it is decoded.

    Raises:
        VideoError: the video cannot be used; the reason is its message.
    """
    if path.is_dir():
        return _read_images(path, choose, num_frames, size, limits, root)
    survey = _survey(path, limits)
    scan = _Scan(survey.packets, [range(survey.packets)], damage=survey.damage)
    if survey.times and not whole:
        windows = choose(scan.video_frames, scan.runs, survey.rate)
        try:
            frames = _read_by_time(path, survey, _indices(windows, num_frames, scan), size, limits)
            return Clips(scan.video_frames, windows, _clips(frames, windows, num_frames, survey.packets))
        except _Missing:
            pass
    if survey.packets < 2:
        scan = _read_in_order(path, survey, (), size, limits)
    # Packets are a guess at the number of frames, and right for nearly every video: then one reading suffices.
    for _ in range(3):
        _check_count(scan.video_frames)
        windows = choose(scan.video_frames, scan.runs, survey.rate)
        if not windows:
            raise VideoError(f"no clip fits between what is damaged: {scan.damage}")
        wanted = _indices(windows, num_frames, scan)
        if scan.frames is not None and wanted <= scan.frames.keys():
            if whole and scan.damage:
                raise VideoError(scan.damage)
            clips = _clips(scan.frames, windows, num_frames, scan.video_frames)
            return Clips(scan.video_frames, windows, clips, scan.damage)
        scan = _read_in_order(path, survey, wanted, size, limits)
    raise VideoError("its frames change from one reading to the next.")


def _indices(windows: list[Window], num_frames: int, scan: _Scan) -> set[int]:
    return {index for window in windows for index in window.indices(num_frames, scan.video_frames)}


def _clips(frames: Frames, windows: list[Window], num_frames: int, video_frames: int) -> list[Array]:
    return [np.stack([frames[k] for k in window.indices(num_frames, video_frames)]) for window in windows]


def _survey(path: Path, limits: Limits) -> _Survey:
    """Read every packet of a video, and decode the first.

    A video is refused by what it says of itself. A header may lie: frames are checked as they come.
    """
    if not path.is_file():
        raise VideoError("there is no such file.")
    if path.stat().st_size == 0:
        raise VideoError("the file is empty.")
    with _opened(path) as (container, stream):
        codec, unit = stream.codec_context, stream.time_base or Fraction(1, 25)
        if codec.width and codec.height:
            _check_frame(codec.width, codec.height, limits)
        declared = stream.average_rate or stream.guessed_rate
        promised = float(stream.duration * unit) if stream.duration else (container.duration or 0) / av.time_base
        if container.format.name == "avi" and declared:
            # FFmpeg cuts the duration of a file that is shorter than its header says.
            promised = max(promised, float(stream.frames / declared))
        shown: list[int | None] = []
        stamps: list[int] = []
        last, length, is_whole, is_invented, matrix = 0, 0.0, True, codec.has_b_frames, None
        # Only a length of the whole file is that of its longest stream.
        for packet in _packets(container, stream if stream.duration else None):
            if packet is None or packet.is_corrupt:
                is_whole = False
                continue
            time = packet.dts if packet.pts is None else packet.pts
            if packet.stream_index != stream.index:
                length = max(length, float((time or 0) * packet.time_base))
                continue
            if not (shown or packet.is_keyframe):
                continue
            if not shown:
                matrix = _first_matrix(codec, packet)
            if time is not None:
                last = max(last, time + (packet.duration or 0))
            if not packet.is_discard:
                shown.append(packet.pts)
                if time is not None:
                    stamps.append(time)
                is_invented = is_invented and packet.dts == packet.pts
        stamps.sort()
        seconds = float((stamps[-1] - stamps[0]) * unit) if stamps else len(shown) / float(declared or 25)
        if seconds > limits.max_seconds:
            raise VideoError(
                f"it plays for {seconds:.0f} seconds, more than max_seconds = {limits.max_seconds:g}."
            )
        # Frame counts of AVI are off by a few, and a length may be an end.
        length = max(length, float(last * unit), seconds * len(shown) / max(1, len(shown) - 1))
        is_cut = 10 * length < 9 * promised
        is_stamped = container.format.name in STAMPED and len(set(shown) - {None}) == len(shown) > 1
        return _Survey(
            packets=len(shown),
            times=stamps if is_stamped and is_whole and not (is_cut or is_invented) else [],
            rate=_rate(declared, (stamps[-1] - stamps[0]) * unit if stamps else Fraction(0), len(stamps)),
            matrix=matrix,
            damage=f"it ends after {length:.1f} of the {promised:.1f} seconds that its header promises." * is_cut,
        )


def _rate(declared: Fraction | None, seconds: Fraction, num_frames: int) -> Fraction | None:
    """Frames per second on average: as declared unless the time stamps say otherwise.

    The two may differ by a frame in the whole video: times are rounded, and the last frame may last longer.
    """
    # Matroska declares what its writer expected, or nothing: then FFmpeg guesses by the first frames.
    if seconds and (not declared or abs(declared * seconds - (num_frames - 1)) > 1):
        return (num_frames - 1) / seconds
    return declared if declared and declared > 0 else None


def _first_matrix(codec: "VideoCodecContext", packet: "av.Packet") -> list[int] | None:
    """The display matrix of the first frame, from the container or the stream, which may never repeat it."""
    frames = _decode(codec, packet) or _decode(codec, None) or []
    return _matrix(frames[0]) if frames else None


def _matrix(frame: "av.VideoFrame") -> list[int] | None:
    data = frame.side_data.get("DISPLAYMATRIX")
    return None if data is None else np.frombuffer(data, np.int32).tolist()


def _decode(codec: "VideoCodecContext", packet: "av.Packet | None") -> "list[av.VideoFrame] | None":
    """The frames that a packet, or the end of the video, brings out; None where it cannot be decoded."""
    try:
        return codec.decode(packet)
    except MemoryError:
        # A frame that is left out for want of memory would shift all that follow.
        raise
    except (FFmpegError, OSError):
        return None


def _decoded(
    codec: "VideoCodecContext", packets: "Iterable[av.Packet | None]"
) -> "Iterator[tuple[av.VideoFrame, bool] | None]":
    """Frames in the order of the decoder, each with whether it is whole; None where something is lost.

    Args:
        packets: with stamps that tell their order; None where some are lost.
    """
    broken: int | None = None
    at = 0
    for packet in chain(packets, [av.Packet()]):
        frames = None
        if packet is not None and not packet.is_corrupt:
            frames = _decode(codec, packet if packet.size else None)
            at = packet.pts or at
        if frames is None:
            broken = at
            yield None
        for frame in frames or ():
            if frame.is_corrupt:
                broken = at if frame.pts is None else max(frame.pts, broken or frame.pts)
            elif broken is not None and frame.key_frame and frame.pts is not None and frame.pts > broken:
                broken = None
            yield frame, broken is None


def _read_by_time(path: Path, survey: _Survey, wanted: Collection[int], size: int, limits: Limits) -> Frames:
    """Seek to the key frame before the first wanted frame and decode up to the last."""
    times, fit_frame = survey.times, _Fitter(size, limits, survey.matrix)
    with _opened(path) as (container, stream):
        try:
            container.seek(times[min(wanted)], stream=stream)
        except (FFmpegError, OSError):
            raise _Missing from None
        packets = _packets(container, stream)
        key = next(packets, None)
        # Frames that lead a later key frame decode too, but from a wrong reference: never start after them.
        if key is None or key.pts is None or key.pts > times[min(wanted)] or not key.is_keyframe:
            raise _Missing
        found: Frames = {}
        index = bisect_left(times, key.pts)
        for decoded in _decoded(_decoder(stream), chain([key], packets)):
            if decoded is None or decoded[0].pts is None:
                raise _Missing
            frame, is_whole = decoded
            assert frame.pts is not None
            if frame.pts < key.pts:
                continue
            if not is_whole or frame.pts != times[index]:
                raise _Missing
            if index in wanted:
                found[index] = fit_frame(frame)
            index += 1
            if index > max(wanted):
                return fit_frame.upright(found)
    raise _Missing


def _read_in_order(path: Path, survey: _Survey, wanted: Collection[int], size: int, limits: Limits) -> _Scan:
    """Decode the whole video, count its frames, and find those that are damaged."""
    scan, fit_frame = _Scan(0, []), _Fitter(size, limits, survey.matrix)
    found: Frames = {}
    num_lost, num_damaged, has_begun, run = 0, 0, False, 0
    with _opened(path) as (container, stream):
        packets = _numbered(_packets(container, stream), survey)
        for decoded in _decoded(_decoder(stream), packets):
            frame, is_whole = decoded or (None, False)
            # What leads the first key frame of a recording that was cut there has no reference, and is no damage.
            has_begun |= frame is None or is_whole or frame.key_frame
            if not has_begun:
                continue
            if not is_whole:
                num_lost += frame is None
                num_damaged += frame is not None
                scan.runs += [range(run, scan.video_frames)] * (run < scan.video_frames)
            elif frame is not None and scan.video_frames in wanted:
                found[scan.video_frames] = fit_frame(frame)
            scan.video_frames += frame is not None
            run = run if is_whole else scan.video_frames
    scan.runs += [range(run, scan.video_frames)] * (run < scan.video_frames)
    scan.frames = fit_frame.upright(found)
    if survey.damage:
        scan.damage = survey.damage
        # Frames are missing among the last.
        scan.video_frames = scan.runs[-1].stop if scan.runs else 0
    elif num_lost or num_damaged:
        lost = num_lost + num_damaged
        scan.damage = f"{lost} of its {scan.video_frames + num_lost} frames are damaged or missing."
    return scan


def _numbered(packets: "Iterable[av.Packet | None]", survey: _Survey) -> "Iterator[av.Packet | None]":
    """The packets from the first key frame on with their number as stamp, which frames inherit.

    What stands before, as in a video that was cut without encoding it anew, gives no frame. Where a video breaks
    off, others are missing between the last frames.
    """
    if survey.packets:
        packets = dropwhile(lambda packet: packet is not None and not packet.is_keyframe, packets)
    for number, packet in enumerate(packets):
        if packet is not None:
            packet.pts = packet.dts = number
        yield packet
    if survey.damage:
        yield None


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
        pictures = [s for s in container.streams.video if s.disposition & Disposition.attached_pic]
        streams = [stream for stream in container.streams.video if stream not in pictures]
        if not streams:
            kinds = sorted({stream.type for stream in container.streams if stream not in pictures})
            kinds += ["a cover picture"] * bool(pictures)
            raise VideoError(f"there is no video in it, only {' and '.join(kinds) or 'nothing'}.")
        if not streams[0].codec_context:
            raise VideoError("its codec is not known.")
        # Parallelism is by process: threads inside a decoder would only compete with it.
        streams[0].thread_type = "NONE"
        yield container, streams[0]


def _decoder(stream: "VideoStream") -> "VideoCodecContext":
    """A decoder that refuses or flags what is damaged, where there is one."""
    codec = stream.codec_context
    if CHECKING.get(codec.name) in av.codecs_available:
        codec = cast("VideoCodecContext", av.CodecContext.create(CHECKING[codec.name], "r"))
        codec.extradata = stream.codec_context.extradata
    elif codec.name in EXPLODING:
        codec.options = {"err_detect": "explode"}
    return codec


def _packets(container: "InputContainer", stream: "VideoStream | None") -> "Iterator[av.Packet | None]":
    """The packets of a stream, or of all, up to the end; None at last where the file is broken off."""
    try:
        yield from (packet for packet in container.demux(*[stream] * (stream is not None)) if packet.size)
    except MemoryError:
        raise
    except (FFmpegError, OSError):
        yield None


class _Fitter:
    """Fits the frames of one video: preparing a conversion takes longer than doing it."""

    def __init__(self, size: int, limits: Limits, matrix: list[int] | None) -> None:
        self.size, self.limits, self.matrix, self.converter = size, limits, matrix, VideoReformatter()

    def __call__(self, frame: "av.VideoFrame") -> Array:
        """(3, size, size), as it is stored."""
        _check_frame(frame.width, frame.height, self.limits)
        if self.matrix is None:
            self.matrix = _matrix(frame)
        try:
            return fit(self.converter.reformat(frame, format="rgb24").to_ndarray(), self.size)
        except (FFmpegError, ValueError, OSError) as error:
            raise VideoError(f"a frame cannot be turned into RGB: {_reason(error)}.") from None

    def upright(self, frames: Frames) -> Frames:
        """The frames as they are shown; a centre square is the same turned before fitting or after."""
        return {index: _as_shown(frame, self.matrix) if self.matrix else frame for index, frame in frames.items()}


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


def _check_frame(width: int, height: int, limits: Limits) -> None:
    if width * height > limits.max_pixels:
        raise VideoError(f"its frames have {width}×{height} pixels, more than max_pixels = {limits.max_pixels}.")
    if min(width, height) < limits.min_side:
        raise VideoError(f"its frames have {width}×{height} pixels, less than min_side = {limits.min_side}.")


def _check_count(video_frames: int) -> None:
    if video_frames < 2:
        is_one = "there is only one frame, which cannot show a motion."
        raise VideoError(is_one if video_frames else "no frame can be decoded.")


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text[:1].lower() + text[1:]


def _read_images(folder: Path, choose: Choose, num_frames: int, size: int, limits: Limits, root: Path) -> Clips:
    """Read the clips of a video that is a folder of pictures."""
    images = frame_files(folder)
    _check_count(len(images))
    _require_one_series(images)
    windows = choose(len(images), [range(len(images))], None)
    wanted = {index for window in windows for index in window.indices(num_frames, len(images))}
    frames = {index: _read_image(images[index], size, limits, root) for index in wanted}
    return Clips(len(images), windows, _clips(frames, windows, num_frames, len(images)))


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
