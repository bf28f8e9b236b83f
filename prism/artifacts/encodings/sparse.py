"""Encodings of videos as key-frames: as numbers, or as one H.264 stream per video (paper, section 3.1)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import ClassVar, Literal, cast

import av
import numpy as np
import torch
from av.codec.codec import UnknownCodecError
from av.codec.context import ThreadType
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from torch import Tensor
from torch.nn import functional as F

from prism.artifacts.clips import Normalisation
from prism.artifacts.encodings import Encoding, Formats, as_numbers, from_numbers, level_ranges, shape_problem
from prism.artifacts.keyframes import enlarge, join_colour, render, split_colour
from prism.errors import ArtifactError, ConfigError
from prism.machine.devices import deterministic
from prism.machine.text_io import reason

MAX_SCALE = 16
ENCODER, DECODER = "libx264", "h264"
TICK = Fraction(1, 25)
PLACES = {"times": (torch.int32, 1), "offsets": (torch.int64, 1)}
"""Tensors of all encodings here: the times of key-frames, and the first key-frame of each video."""


class KeyFrameEncoding(Encoding):
    """Key-frames as numbers, and linear interpolation between them (paper, section 3.1).

    Tensors: `keyframes` of all videos, one video after another; `times`, the frame index of each key-frame, from 0
    to T − 1 within every video; `offsets`: video v has the key-frames offsets[v] to offsets[v + 1] − 1.
    """

    NAME: ClassVar[str] = "keyframes"
    TENSORS: ClassVar[Formats] = {"keyframes": (None, 4), **PLACES}
    number_format: ClassVar[str | None] = "float32"

    def encode(self, frames: Tensor, mask: Tensor, scale: int = 1) -> dict[str, Tensor]:
        return {**as_numbers("keyframes", frames[mask], str(self.number_format)), **_places(mask)}

    @classmethod
    def rejoined(cls, tensors: dict[str, Tensor], parts: Sequence[Encoding]) -> dict[str, Tensor]:
        return {**tensors, "offsets": _offsets(torch.cat([part.keyframe_counts for part in parts]))}

    @property
    def num_values(self) -> int:
        return sum(map(prod, self._image_shapes.values()))

    @property
    def _image_size(self) -> tuple[int, int]:
        return self.size[0] // self.scale, self.size[1] // self.scale

    @property
    def _image_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"keyframes": (len(self.tensors["times"]), 3, *self._image_size)}

    @property
    def keyframe_counts(self) -> Tensor:
        return self.tensors["offsets"].diff()

    @property
    def mask(self) -> Tensor:
        counts = self.keyframe_counts
        mask = torch.zeros(len(counts), self.num_frames, dtype=torch.bool)
        mask[torch.repeat_interleave(counts), self.tensors["times"].long()] = True
        return mask

    def keyframes(self, videos: Tensor) -> Tensor:
        """The key-frames of the chosen videos, one video after another, float32 (k, 3, h, w)."""
        return from_numbers("keyframes", self.tensors, self._positions(videos))

    def _positions(self, videos: Tensor) -> Tensor:
        offsets = self.tensors["offsets"].tolist()
        every = [torch.arange(offsets[video], offsets[video + 1]) for video in videos.tolist()]
        return torch.cat([torch.zeros(0, dtype=torch.int64), *every])

    def render(self, videos: Tensor, normalisation: Normalisation, generator: torch.Generator | None) -> Tensor:
        mask = self.mask[videos]
        dense = torch.zeros(*mask.shape, 3, *self._image_size, dtype=torch.float32)
        dense[mask] = self.keyframes(videos)
        with deterministic(dense.device):
            return enlarge(render(dense, mask), self.scale)

    def problem(self, num_videos: int) -> str | None:
        times, offsets, (height, width) = self.tensors["times"].long(), self.tensors["offsets"], self.size
        if not 1 <= self.scale <= MAX_SCALE or height % self.scale or width % self.scale:
            return f"clips of {height}×{width} pixels cannot be {self.scale} times as large as their key-frames"
        if num_videos < 1 or len(offsets) != num_videos + 1:
            return "its tensors do not belong together: labels, offsets, times and key-frames differ in length"
        # The range is checked first, because differences of extreme offsets could overflow.
        in_range = bool(((offsets >= 0) & (offsets <= len(times))).all())
        if not in_range or offsets[0] != 0 or offsets[-1] != len(times) or offsets.diff().min() < 2:
            return "offsets must run from 0 to the number of key-frames, with two or more for each video"
        # Within a video times must rise; between two videos they fall from T − 1 to 0.
        steps = times.diff()
        steps[offsets[1:-1] - 1] = 1
        ends = times[offsets[:-1]], times[offsets[1:] - 1] - (self.num_frames - 1)
        if steps.min() < 1 or any(end.any() for end in ends):
            return f"the times of each video's key-frames must increase from 0 to {self.num_frames - 1}"
        return self._image_problem()

    def _image_problem(self) -> str | None:
        return shape_problem(self.tensors, self._image_shapes)


def _places(mask: Tensor) -> dict[str, Tensor]:
    return {"times": mask.nonzero()[:, 1].int(), "offsets": _offsets(mask.sum(dim=1))}


def _offsets(counts: Tensor) -> Tensor:
    """First position of each of V videos, and the end of the last: (V + 1,) int64, from image counts (V,)."""
    return F.pad(counts.cumsum(0), (1, 0))


class Float32(KeyFrameEncoding):
    """Key-frames as they were optimised, to the last bit."""


class Float16(KeyFrameEncoding):
    """Key-frames in half the bytes, each value with 11 significant bits."""

    number_format: ClassVar[str | None] = "float16"
    largest: ClassVar[float] = torch.finfo(torch.float16).max


class UInt8(KeyFrameEncoding):
    """Key-frames in 256 levels: exact for real clips."""

    number_format: ClassVar[str | None] = "uint8"


class Yuv420(KeyFrameEncoding):
    """Key-frames as luma and as chroma of half the height and width, in 256 levels: half as many numbers as RGB.

    Tensors: `luma` (K, 1, h, w) and `chroma` (K, 2, ⌈h/2⌉, ⌈w/2⌉) of `keyframes.split_colour`.
    """

    NAME: ClassVar[str] = "yuv420"
    TENSORS: ClassVar[Formats] = {"luma": (None, 4), "chroma": (None, 4), **PLACES}
    number_format: ClassVar[str | None] = None
    coarse_colour: ClassVar[bool] = True

    def encode(self, frames: Tensor, mask: Tensor, scale: int = 1) -> dict[str, Tensor]:
        luma, chroma = split_colour(frames[mask])
        return as_numbers("luma", luma, "uint8") | as_numbers("chroma", chroma, "uint8") | _places(mask)

    @property
    def storage(self) -> str:
        return self.NAME

    @property
    def _image_shapes(self) -> dict[str, tuple[int, ...]]:
        num, (height, width) = len(self.tensors["times"]), self._image_size
        return {"luma": (num, 1, height, width), "chroma": (num, 2, -(-height // 2), -(-width // 2))}

    def keyframes(self, videos: Tensor) -> Tensor:
        chosen = self._positions(videos)
        with deterministic(chosen.device):
            return join_colour(*(from_numbers(name, self.tensors, chosen) for name in ("luma", "chroma")))


@dataclass(frozen=True)
class H264(KeyFrameEncoding):
    """The key-frames of each video as a stream of H.264, decoded when they are needed.

    `packets` are the bytes of all packets, one packet per key-frame; `packet_sizes` are their lengths in bytes. A
    key-frame of video v is `scale[v] * level + minimum[v]`, with levels in 0..255. `quality` is in 0..100.
    """

    NAME: ClassVar[str] = "h264"
    TENSORS: ClassVar[Formats] = {
        **PLACES,
        "packets": (torch.uint8, 1),
        "packet_sizes": (torch.int32, 1),
        "scale": (torch.float32, 1),
        "minimum": (torch.float32, 1),
    }
    number_format: ClassVar[str | None] = None

    quality: int = 50

    def encode(self, frames: Tensor, mask: Tensor, scale: int = 1) -> dict[str, Tensor]:
        packets, ranges = [], []
        # Videos are so small that several threads would wait for each other six times as long as one computes.
        with deterministic(frames.device):
            # One range per video, not per image: a change of range would look like motion to the codec.
            for video in frames[mask].split(mask.sum(dim=1).tolist()):
                step, minimum = level_ranges(video.min(), video.max())
                packets += compress(((video - minimum) / step).clamp(0, 255), self.quality)
                ranges.append(torch.stack([step, minimum]))
        steps, minima = torch.stack(ranges, dim=1)
        sizes = torch.tensor([len(packet) for packet in packets], dtype=torch.int32)
        content = torch.frombuffer(bytearray(b"".join(packets)), dtype=torch.uint8)
        return {**_places(mask), "packets": content, "packet_sizes": sizes, "scale": steps, "minimum": minima}

    def keyframes(self, videos: Tensor) -> Tensor:
        """The key-frames of the chosen videos, decoded; ArtifactError if the packets contradict the set."""
        images = [torch.zeros(0, 3, *self._image_size)]
        with deterministic(videos.device):
            for video in videos.tolist():
                first, last = self.tensors["offsets"][video : video + 2].tolist()
                sizes = self.tensors["packet_sizes"]
                start, own = int(sizes[:first].sum()), sizes[first:last].tolist()
                packets = self.tensors["packets"][start : start + sum(own)].split(own)
                levels = decompress([packet.numpy().tobytes() for packet in packets], self._image_size)
                images.append(levels * self.tensors["scale"][video] + self.tensors["minimum"][video])
        return torch.cat(images)

    def _image_problem(self) -> str | None:
        sizes, packets = self.tensors["packet_sizes"], self.tensors["packets"]
        if len(sizes) != len(self.tensors["times"]) or sizes.min() < 1 or int(sizes.sum()) != len(packets):
            return "the sizes of its packets must be positive and add up to the bytes that it holds"
        if not len(self.tensors["scale"]) == len(self.tensors["minimum"]) == len(self.keyframe_counts):
            return "it must hold a scale and a minimum for each video"
        return None


# The codec. Packets are untrusted. There is no container to parse: the set holds size and number of pictures.


def compress(levels: Tensor, quality: int) -> list[bytes]:
    """The H.264 packets of one video, one for each picture, in the order of decoding.

    Args:
        levels: (n, 3, H, W) float32 in 0..255, in the order of time.
        quality: in 0..100; higher is better and larger.
    """
    planes, context, packets = _to_planes(levels), _context(ENCODER, "w"), []
    context.height, context.width = planes.shape[1] * 2 // 3, planes.shape[2]
    context.pix_fmt, context.time_base, context.framerate = "yuv420p", TICK, 1 / TICK
    # For the same bytes every time: with such small pictures the rate control of the macroblock tree reads memory
    # that x264 never wrote, and the number of threads changes x264's choices.
    context.options = {"crf": f"{51 - 0.51 * quality:g}", "preset": "veryslow", "threads": "1", "mbtree": "0"}
    try:
        for time, plane in enumerate(planes.numpy()):
            frame = av.VideoFrame.from_ndarray(plane, format="yuv420p")
            frame.pts, frame.time_base = time, TICK
            packets += context.encode(frame)
        packets += context.encode(None)
    except FFmpegError as error:
        raise ConfigError(f"{ENCODER} fails: {reason(error)}. Choose another storage.") from None
    assert len(packets) == len(levels)
    # NAL units of type 6 (supplemental information) are left out: in them x264 writes its version.
    units = (re.split(b"\0*\0\0\1", bytes(packet))[1:] for packet in packets)
    return [b"".join(b"\0\0\1" + unit for unit in those if unit[0] & 31 != 6) for those in units]


def decompress(packets: Sequence[bytes], size: tuple[int, int]) -> Tensor:
    """The levels (n, 3, H, W) in 0..255 of n packets; ArtifactError unless they are n pictures of this size."""
    context, (height, width) = _context(DECODER, "r"), map(_padded, size)
    # A stream may claim any size. FFmpeg compares the size, rounded up to whole blocks, before it allocates.
    most = -(-height // 16) * 16 * -(-width // 64) * 64
    # Without "explode" the decoder would fill damaged areas with guesses.
    context.options = {"max_pixels": str(most), "err_detect": "explode"}
    try:
        # A packet gives at most one picture, so a small file cannot fill the memory with pictures.
        frames = [frame for data in packets for frame in context.decode(av.Packet(data))]
        frames += context.decode(None)
    except (FFmpegError, OSError, ValueError) as error:
        raise ArtifactError(f"a video cannot be decoded as h264: FFmpeg says '{reason(error)}'.") from None
    kinds = {(frame.height, frame.width, frame.format.name) for frame in frames}
    if len(frames) != len(packets) or kinds != {(height, width, "yuv420p")}:
        raise ArtifactError("a video cannot be decoded as h264: its pictures are of another size or number.")
    planes = np.stack([frame.to_ndarray() for frame in frames])
    return _to_levels(torch.from_numpy(planes))[:, :, : size[0], : size[1]]


def _context(name: str, mode: Literal["r", "w"]) -> VideoCodecContext:
    try:
        context = cast(VideoCodecContext, av.CodecContext.create(name, mode))
    except UnknownCodecError:
        kind = "encoder" if mode == "w" else "decoder"
        raise ConfigError(f"PyAV was built here without the {kind} {name}. Choose another storage.") from None
    # One thread gives the same bytes every time, and clips are too small to gain from more.
    context.thread_count, context.thread_type = 1, ThreadType.NONE
    return context


def _padded(side: int) -> int:
    """The side of a stored picture in pixels: even, as chroma has half the size, and at least a block of 16."""
    return max(16, side + side % 2)


def _to_planes(levels: Tensor) -> Tensor:
    """Levels (n, 3, H, W) as one plane of luma and two of chroma, (n, 3·H/2, W) uint8, H and W padded."""
    down, across = (_padded(side) - side for side in levels.shape[2:])
    # Padding repeats the edge: a black border would cost bits, and its error would reach into the picture.
    luma, chroma = split_colour(F.pad(levels, (0, across, 0, down), mode="replicate"))
    planes = torch.cat([luma.flatten(1), (chroma + 128).flatten(1)], dim=1)
    return planes.round().clamp(0, 255).byte().view(len(levels), -1, luma.shape[3])


def _to_levels(planes: Tensor) -> Tensor:
    """The inverse of `_to_planes`, with interpolated chroma; the padding stays."""
    num, rows, width = planes.shape
    luma, chroma = planes.flatten(1).float().split([rows * width * 2 // 3, rows * width // 3], dim=1)
    chroma = chroma.view(num, 2, rows // 3, width // 2) - 128
    return join_colour(luma.view(num, 1, -1, width), chroma).clamp(0, 255)
