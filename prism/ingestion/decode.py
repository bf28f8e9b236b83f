"""Frames of a video, decoded by their exact index and fitted to the size of a clip.

The index of a frame is its position among the frames that the decoder gives. There are two ways to reach it:

1. in order: decode the whole video and count, which finds all damage too;
2. by time: seek to a key frame and decode up to the last wanted frame; time stamps identify the frames.

The second way is for long videos in MP4, QuickTime and Matroska, which store a time stamp for every packet. It is
not taken if the stamps look invented, as in files copied from AVI (the codec reorders frames, but every frame is
shown at the time of its decoding), or if two packets may hold the fields of one frame. A frame that comes out of
the order of the stamps, or any damage, ends the second way: the video is then decoded in order.

Damage begins with a packet that cannot be decoded, or a frame that the decoder flags, and lasts to the next key
frame. All frames are turned and mirrored by the display matrix of the first one, as FFmpeg does. The shape of
pixels, and the orientation (EXIF) of pictures in a folder, are ignored.
"""

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import chain, dropwhile
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.error import FFmpegError, InvalidDataError
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from PIL import Image, ImageOps, UnidentifiedImageError

from prism.errors import VideoError
from prism.ingestion.container import Packets, opened, packets_of, survey
from prism.ingestion.listing import few, frame_files
from prism.ingestion.sampling import Window
from prism.machine.text_io import reason

Array = np.ndarray
Frames = dict[int, Array]
Choose = Callable[[int, Sequence[range], Fraction | None], list[Window]]

PICTURES = ("JPEG", "PNG", "BMP", "WEBP", "GIF", "TIFF")
"""Pillow's formats that a frame in a folder may have, whatever its suffix."""
CHECKING = {"vp8": "libvpx", "vp9": "libvpx-vp9"}
"""By codec: a decoder that refuses damaged frames; FFmpeg's own decoder does not."""
PROMPT = {*CHECKING.values(), "libdav1d"}
"""Decoders that give the frame of a packet at once, and whose key-frame flags are missing or stale (AV1)."""
EXPLODING = {"hevc", "mjpeg"}
"""Codecs whose decoders in FFmpeg do not flag a damaged frame, but refuse it with `err_detect=explode`."""
LONG_VIDEO = 250
"""Fewest frames of a video that is decoded by time. Encoders write a key frame every 250 frames, so that most of a
shorter video is decoded either way."""


@dataclass(frozen=True)
class Outcome:
    """Windows of a video, and damage outside of them (unknown if it `is_sought`); or the `reason` to skip it."""

    windows: tuple[Window, ...] = ()
    video_frames: int = 0
    reason: str = ""
    damage: str = ""
    is_sought: bool = False


def read_clips(
    path: Path, choose: Choose, num_frames: int, size: int, root: Path, whole: bool = False
) -> tuple[Outcome, list[Array]]:
    """Decode the clips of one video, each (T, 3, size, size) uint8, RGB; only their frames are kept in memory.

    Args:
        path: a video file, or a folder with one image per frame.
        choose: function that gives the windows to read, each inside an undamaged run, from the number of frames
            (at least 2), the runs of undamaged frames, and the frames per second (None if unknown).
        root: the source; a frame that is a link may not lead out of it.
        whole: decode all of the video, and raise a VideoError for damage anywhere.
    """
    with ExitStack() as stack:
        video = _Images(path, size, root, whole) if path.is_dir() else _Video(path, size, whole, stack)
        # The number of packets is the number of frames in nearly every video: then one reading suffices.
        guess = video.num_frames
        scan = _Scan(guess, [range(guess)]) if guess > 1 else video.read(())
        for _ in range(4):
            if scan.video_frames < 2:
                one = "there is only one frame, which cannot show a motion."
                raise VideoError(one if scan.video_frames else "no frame can be decoded.")
            windows = choose(scan.video_frames, scan.runs, video.rate)
            if not windows:
                raise VideoError(f"no clip fits between what is damaged: {scan.damage}")
            clips = [window.indices(num_frames, scan.video_frames) for window in windows]
            wanted = {index for clip in clips for index in clip}
            if wanted <= scan.frames.keys():
                if whole and scan.damage:
                    raise VideoError(scan.damage)
                pixels = [np.stack([_as_shown(scan.frames[i], video.matrix) for i in clip]) for clip in clips]
                return Outcome(tuple(windows), scan.video_frames, "", scan.damage, scan.is_sought), pixels
            scan = video.read(wanted)
    raise VideoError("its frames change from one reading to the next.")


@dataclass
class _Scan:
    """Result of one reading: number of frames, runs of undamaged frames, and the undamaged wanted frames."""

    video_frames: int
    runs: list[range]
    frames: Frames = field(default_factory=dict)
    damage: str = ""
    is_sought: bool = False


class _Video:
    """A video file; the constructor reads its packets.

    Attributes:
        num_frames: number of packets that show a frame.
        times: the sorted time stamps of all frames if the video is decoded by time; else empty.
        rate: frames per second; None if unknown.
        early_end: message about a file that ends early; else empty.
    """

    def __init__(self, path: Path, size: int, whole: bool, stack: ExitStack) -> None:
        self.path, self.size, self.stack, self.converter = path, size, stack, VideoReformatter()
        self.survey, self.kept = survey(path, stack)
        self.rate, self.early_end = self.survey.rate, self.survey.early_end
        self.num_frames, self.num_stamps = len(self.survey.stamps), len(self.survey.times)
        is_long = self.num_stamps >= LONG_VIDEO and not (whole or self.early_end)
        self.times = self.survey.times if is_long and self.survey.identifies_frames else []

    @cached_property
    def matrix(self) -> list[int]:
        """The display matrix of the first frame; later frames may not repeat a matrix in the stream."""
        with opened(self.path) as (container, stream):
            codec = stream.codec_context
            for packet in packets_of(container, stream):
                if packet is not None and packet.is_keyframe:
                    # A copy without flags, because a packet that an edit list discards gives no frame.
                    for frame in _decode(codec, av.Packet(bytes(packet))) or _decode(codec, None) or ():
                        return _matrix(frame)
        return []

    def read(self, wanted: Collection[int]) -> _Scan:
        if self.times and (found := self._read_by_time(wanted)) is not None:
            return _Scan(self.num_frames, [range(self.num_frames)], found, is_sought=True)
        self.times = []
        return self._read_in_order(wanted)

    def _read_by_time(self, wanted: Collection[int]) -> Frames | None:
        """Wanted frames, decoded from a key frame before them; None if one is damaged or out of stamp order."""
        first, last, found = self.times[min(wanted)], max(wanted), {}
        with opened(self.path) as (container, stream):
            try:
                container.seek(first, stream=stream)
            except (FFmpegError, OSError):
                return None
            packets = packets_of(container, stream)
            key = next(packets, None)
            # From a later key frame, the frames shown before it would be decoded with a wrong reference.
            if key is None or key.pts is None or key.pts > first or not key.is_keyframe:
                return None
            index, codec = bisect_left(self.times, key.pts), _decoder(stream)
            for frame, is_whole in _decoded(codec, chain([key], packets)):
                if frame is None or frame.pts is None:
                    return None
                if frame.pts < key.pts:
                    continue
                if not is_whole or frame.pts != self.times[index]:
                    return None
                # A container may call every packet a key frame.
                if frame.pts == key.pts and not frame.key_frame and codec.name not in PROMPT:
                    return None
                if index in wanted:
                    found[index] = self._fit(frame)
                if index == last:
                    return found
                index += 1
        return None

    def _read_in_order(self, wanted: Collection[int]) -> _Scan:
        packets, stream, self.kept = self.kept, self.survey.stream, None
        if packets is None:
            container, stream = self.stack.enter_context(opened(self.path))
            packets = packets_of(container, stream)
        scan, start, num_lost, num_damaged, has_begun = _Scan(0, []), 0, 0, 0, False
        for frame, is_whole in _decoded(_decoder(stream), self._numbered(packets)):
            # In a cut recording, frames shown before the first key frame lack a reference: this is no damage.
            has_begun |= frame is None or is_whole or frame.key_frame
            if not has_begun:
                continue
            if not is_whole:
                scan.runs.append(range(start, scan.video_frames))
                start = scan.video_frames + (frame is not None)
                num_damaged += 1
            if frame is None:
                num_lost += 1
                continue
            # A checking decoder does not know the container's matrix.
            if frame.pts == 0 and stream.codec_context.name not in CHECKING:
                self.matrix = _matrix(frame)
            if is_whole and scan.video_frames in wanted:
                scan.frames[scan.video_frames] = self._fit(frame)
            scan.video_frames += 1
        scan.runs = [run for run in (*scan.runs, range(start, scan.video_frames)) if run]
        num_frames = scan.video_frames + num_lost
        if self.rate and num_frames < 0.9 * self.num_stamps:
            # Two packets hold the fields of one frame, so the rate of packets is above that of frames.
            self.rate, self.num_stamps = self.rate * Fraction(num_frames, self.num_stamps), num_frames
        if self.early_end:
            # The number of frames after the last undamaged one is not known.
            scan.damage, scan.video_frames = self.early_end, scan.runs[-1].stop if scan.runs else 0
        elif num_damaged:
            scan.damage = f"{num_damaged} of its {num_frames} frames are damaged or missing."
        elif self.survey.is_damaged:
            scan.damage = "its container is damaged, which may have lost frames."
        return scan

    def _numbered(self, packets: Packets) -> Iterator[av.Packet | None]:
        """The packets from the first key frame on, stamped with a number that frames inherit; None for loss."""
        # Packets before it, as in a video that was cut without re-encoding, give no frame.
        if self.num_frames:
            packets = dropwhile(lambda packet: packet is not None and not packet.is_keyframe, packets)
        holes = self.survey.holes
        for number, packet in enumerate(packets):
            if packet is not None:
                time = packet.dts if packet.pts is None else packet.pts
                if holes and time is not None and time >= holes[0]:
                    holes = [hole for hole in holes if hole > time]
                    yield None
                packet.pts = packet.dts = number
            yield packet
        if self.early_end:
            yield None

    def _fit(self, frame: av.VideoFrame) -> Array:
        """A frame as (3, size, size), not yet turned by the display matrix."""
        try:
            # By default the converter starts one thread per processor, which costs more than the work.
            pixels = self.converter.reformat(frame, format="rgb24", threads=1).to_ndarray()
        except (FFmpegError, ValueError, OSError) as error:
            raise VideoError(f"a frame cannot be turned into RGB: {reason(error)}.") from None
        return fit(Image.fromarray(pixels), self.size)


class _Images:
    """A video that is a folder with one image per frame; a link in it may not lead out of the source."""

    rate, matrix = None, ()

    def __init__(self, folder: Path, size: int, root: Path, whole: bool) -> None:
        self.images, self.size, self.root, self.whole = frame_files(folder), size, root, whole
        self.num_frames = len(self.images)
        stems = [image.stem for image in self.images]
        fractions = re.findall(r"\d\.(\d+)", " ".join(stems))
        if len({*map(len, fractions)}) > 1 and any(re.match(r"0\d|\d{9}", one) for one in fractions):
            raise VideoError("its pictures have names such as 0.2 and 0.04, in an order that is not known.")
        # Names of one series differ only in numbers. Names of which no two are alike count as one ordered series.
        forms = {re.sub(r"\d+", "#", stem) for stem in stems}
        if len({*stems}) < len(stems) or 1 < len(forms) < len(stems):
            said = few(sorted({re.sub(r"\d+", "#", image.name) for image in self.images}))
            raise VideoError(f"its pictures belong to several series ({said}), of which one is wanted.")

    def read(self, wanted: Collection[int]) -> _Scan:
        frames = {}
        for number in range(self.num_frames) if self.whole else wanted:
            frame = _read_image(self.images[number], self.size, self.root)
            if number in wanted:
                frames[number] = frame
        return _Scan(self.num_frames, [range(self.num_frames)], frames)


def _matrix(frame: av.VideoFrame) -> list[int]:
    data = frame.side_data.get("DISPLAYMATRIX")
    return [] if data is None else np.frombuffer(data, np.int32).tolist()


def _decode(codec: VideoCodecContext, packet: av.Packet | None) -> list[av.VideoFrame] | None:
    """The frames that a packet, or the end of the video (None), brings out; None if decoding fails."""
    try:
        return codec.decode(packet)
    except MemoryError:
        # A frame left out for want of memory would shift the index of all later frames.
        raise
    except (FFmpegError, OSError):
        return None


def _decoded(codec: VideoCodecContext, packets: Packets) -> Iterator[tuple[av.VideoFrame | None, bool]]:
    """Frames in the order of the decoder, each with whether it is undamaged; (None, False) for a lost packet."""
    broken, at, is_prompt = None, 0, codec.name in PROMPT
    for packet in chain(packets, [av.Packet()]):
        frames = None
        if packet is not None and not packet.is_corrupt:
            frames = _decode(codec, packet if packet.size else None)
            at = packet.pts or at
        is_key = packet is not None and packet.is_keyframe
        if frames is None:
            broken = at
            yield None, False
        for frame in frames or ():
            if frame.is_corrupt:
                broken = at if frame.pts is None else max(frame.pts, broken or frame.pts)
            elif broken is not None and (is_key if is_prompt else frame.key_frame) and (frame.pts or 0) > broken:
                broken = None
            yield frame, broken is None


def _decoder(stream: VideoStream) -> VideoCodecContext:
    """A decoder of the stream, one that refuses or flags damaged frames if there is any."""
    codec = stream.codec_context
    # PyAV's build of libvpx decodes 8 bits only.
    is_deep = codec.profile in ("Profile 2", "Profile 3")
    if CHECKING.get(codec.name) in av.codecs_available and not is_deep:
        codec = cast(VideoCodecContext, av.CodecContext.create(CHECKING[codec.name], "r"))
        codec.extradata, codec.thread_count = stream.codec_context.extradata, 1
    elif codec.name in EXPLODING:
        codec.options = {"err_detect": "explode"}
    return codec


def _as_shown(frame: Array, matrix: Sequence[int]) -> Array:
    """A square frame (3, size, size), turned and mirrored by a display matrix; ignored if not of quarter turns."""
    # The point (x, y) is shown at (a x + c y, b x + d y).
    a, b, _, c, d = matrix[:5] or (1, 0, 0, 0, 1)
    # Within a degree, as FFmpeg has it.
    if 57 * max(abs(b), abs(c)) < min(abs(a), abs(d)):
        right, down = a, d
    elif 57 * max(abs(a), abs(d)) < min(abs(b), abs(c)):
        frame, right, down = frame.transpose(0, 2, 1), c, b
    else:
        return frame
    return np.ascontiguousarray(frame[:, :: -1 if down < 0 else 1, :: -1 if right < 0 else 1])


def _read_image(path: Path, size: int, root: Path) -> Array:
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root.resolve()):
        raise VideoError(f"frame '{path.name}' is a link that leaves the source.")
    if path.exists() and not path.is_file():
        raise VideoError(f"frame '{path.name}' is no file.")
    try:
        # Other formats of Pillow start programs (EPS), or raise errors of their own.
        with Image.open(path, formats=PICTURES) as image:
            frame = fit(as_rgb(image), size)
            if image.format == "PNG":
                with Image.open(path, formats=["PNG"]) as again:
                    again.verify()  # Compares the checksums of the pixels.
            if image.format in ("JPEG", "MPO"):
                _check_jpeg(path.read_bytes())
            return frame
    except UnidentifiedImageError:
        raise VideoError(f"frame '{path.name}' cannot be read: it is no picture.") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise VideoError(f"frame '{path.name}' cannot be read: {reason(error)}.") from None


def _check_jpeg(data: bytes) -> None:
    """Raise a ValueError for a damaged picture: Pillow silently fills what it cannot decode with grey."""
    codec = cast(VideoCodecContext, av.CodecContext.create("mjpeg", "r"))
    codec.options = {"err_detect": "explode"}
    try:
        codec.decode(av.Packet(data))
    except InvalidDataError:
        raise ValueError("it is damaged") from None
    except FFmpegError:
        # Pillow decodes kinds of JPEG that FFmpeg does not.
        return


def as_rgb(image: Image.Image) -> Image.Image:
    """A picture in RGB; a ValueError for one of 16 or 32 bits, which Pillow clips at 255, so nearly all white."""
    if image.mode[0] in "IF":
        raise ValueError("it has 16 or 32 bits in a pixel, but there must be 8")
    return image.convert("RGB")


def fit(frame: Image.Image, size: int) -> Array:
    """A frame as (3, size, size) uint8: its short side is resized to `size`, then its centre is cropped."""
    # Pillow widens its filter when it shrinks (no aliasing); its fixed-point arithmetic is the same everywhere.
    return np.ascontiguousarray(np.asarray(ImageOps.fit(frame, (size, size))).transpose(2, 0, 1))
