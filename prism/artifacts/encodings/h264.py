"""H.264: the pictures of one video as packets of bytes, one for each picture, and back (`docs/formats.md`).

Packets are untrusted. No container is parsed, since the set knows already what would stand in its header.
"""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal, cast

import av
import numpy as np
import torch
from av.codec.codec import UnknownCodecError
from av.codec.context import ThreadType
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from torch import Tensor
from torch.nn import functional as F

from prism.errors import ConfigError

ENCODER, DECODER = "libx264", "h264"
YCC = torch.tensor([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
"""Red, green and blue to luma and two chromas (BT.601, full range)."""

TICK = Fraction(1, 25)


class UndecodableError(Exception):
    """Packets that are not the pictures which their set claims; the message is the reason."""


def require_encoder() -> None:
    _context(ENCODER, "w")


def encode(levels: Tensor, quality: int) -> list[bytes]:
    """Compress the pictures of one video.

    Args:
        levels: (n, 3, H, W) float32 in 0..255, in the order of time.
        quality: in 0..100, higher keeps more.

    Returns:
        A packet for each picture, in the order of decoding.
    """
    planes, context, packets = _to_planes(levels), _context(ENCODER, "w"), []
    context.height, context.width = planes.shape[1] * 2 // 3, planes.shape[2]
    context.pix_fmt, context.time_base, context.framerate = "yuv420p", TICK, 1 / TICK
    # No macroblock tree: its rate control reads memory that x264 never wrote when a picture is this small, so
    # the same pictures would give other bytes. With more threads x264 would make other choices, too.
    crf = f"{51 - 0.51 * quality:g}"
    context.options = {"crf": crf, "preset": "veryslow", "threads": "1", "mbtree": "0"}
    try:
        for time, plane in enumerate(planes.numpy()):
            frame = av.VideoFrame.from_ndarray(plane, format="yuv420p")
            frame.pts, frame.time_base = time, TICK
            packets += context.encode(frame)
        packets += context.encode(None)
    except FFmpegError as error:
        raise ConfigError(f"{ENCODER} fails: {_reason(error)}. Choose another storage.") from None
    assert len(packets) == len(levels)
    # NAL units of type 6 are left out: supplemental information, in which x264 writes its version.
    units = (re.split(b"\0*\0\0\1", bytes(packet))[1:] for packet in packets)
    return [b"".join(b"\0\0\1" + unit for unit in those if unit[0] & 31 != 6) for those in units]


def decode(packets: Sequence[bytes], size: tuple[int, int]) -> Tensor:
    """The levels (n, 3, H, W) of as many pictures as there are packets, else an UndecodableError."""
    height, width = map(_padded, size)
    planes = []
    for frame in _frames(packets, height, width):
        if (frame.height, frame.width, frame.format.name) != (height, width, "yuv420p"):
            raise UndecodableError(f"a picture is {frame.format}, not of {height}×{width} pixels")
        planes.append(frame.to_ndarray())
    if len(planes) != len(packets):
        raise UndecodableError(f"there are {len(planes)} pictures, not {len(packets)}")
    return _to_levels(torch.from_numpy(np.stack(planes)))[:, :, : size[0], : size[1]]


def _frames(packets: Sequence[bytes], height: int, width: int) -> Iterator[av.VideoFrame]:
    context = _context(DECODER, "r")
    # A stream may name any size. FFmpeg compares it, rounded up to whole blocks, before it allocates a picture.
    most = -(-height // 16) * 16 * -(-width // 64) * 64
    # Without "explode" the decoder would fill damaged places with guesses.
    context.options = {"max_pixels": str(most), "err_detect": "explode"}
    try:
        # A packet gives one picture at most, so that few bytes cannot fill the memory with pictures.
        for data in packets:
            yield from context.decode(av.Packet(data))
        yield from context.decode(None)
    except (FFmpegError, OSError, ValueError) as error:
        raise UndecodableError(f"FFmpeg says '{_reason(error)}'") from None


def _context(name: str, mode: Literal["r", "w"]) -> VideoCodecContext:
    try:
        context = cast(VideoCodecContext, av.CodecContext.create(name, mode))
    except UnknownCodecError:
        kind = "encoder" if mode == "w" else "decoder"
        raise ConfigError(f"PyAV was built here without the {kind} {name}. Choose another storage.") from None
    # One thread gives the same bytes every time, and clips are too small to gain from more.
    context.thread_count, context.thread_type = 1, ThreadType.NONE
    return context


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _padded(side: int) -> int:
    """The side of a stored picture: even, since chroma has half the size, and not below a block of 16."""
    return max(16, side + side % 2)


def _to_planes(levels: Tensor) -> Tensor:
    """Levels (n, 3, H, W) as one plane of luma and two of chroma, (n, 3·H/2, W) uint8, H and W padded."""
    down, across = (_padded(side) - side for side in levels.shape[2:])
    # The edge is repeated: a black border would cost bits, and its error would reach into the picture.
    ycc = torch.einsum("kc,nchw->nkhw", YCC, F.pad(levels, (0, across, 0, down), mode="replicate"))
    planes = torch.cat([ycc[:, 0].flatten(1), (F.avg_pool2d(ycc[:, 1:], 2) + 128).flatten(1)], dim=1)
    return planes.round().clamp(0, 255).byte().view(len(levels), -1, ycc.shape[3])


def _to_levels(planes: Tensor) -> Tensor:
    """The inverse of `_to_planes`, chroma interpolated, padding included."""
    num, rows, width = planes.shape
    luma, chroma = planes.flatten(1).float().split([rows * width * 2 // 3, rows * width // 3], dim=1)
    chroma = chroma.view(num, 2, rows // 3, width // 2) - 128
    chroma = F.interpolate(chroma, scale_factor=2, mode="bilinear", align_corners=False)
    ycc = torch.cat([luma.view(num, 1, -1, width), chroma], dim=1)
    return torch.einsum("ck,nkhw->nchw", YCC.inverse(), ycc).clamp(0, 255)
