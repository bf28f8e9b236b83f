"""Codecs: the pictures of one video as packets of bytes, one packet for each picture, and back.

Packets may come from a stranger. No container is parsed: what would stand in its header is known to the set,
and nothing is decoded before the packets' own size is held against it. `docs/formats.md` specifies them.
"""

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol, cast

import av
import numpy as np
import torch
from av.codec.codec import UnknownCodecError
from av.codec.context import ThreadType
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from prism.errors import ConfigError

YCC = torch.tensor([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
"""Red, green and blue to luma and two chromas (BT.601, full range)."""

TICK = Fraction(1, 25)


class UndecodableError(Exception):
    """Packets that are not the pictures which their set claims; the message is the reason."""


class Codec(Protocol):
    """How the pictures of one video are compressed; levels are float32 (n, 3, H, W) in 0..255."""

    def require_encoder(self) -> None:
        """Refuse to begin what cannot be encoded at its end.

        Raises:
            ConfigError: this installation has no such encoder.
        """
        ...

    def encode(self, levels: Tensor, quality: int) -> list[bytes]:
        """A packet for each picture; quality in 0..100, higher keeps more.

        Raises:
            ConfigError: the encoder cannot do this.
        """
        ...

    def decode(self, packets: Sequence[bytes], size: tuple[int, int]) -> Tensor:
        """The levels of as many pictures as there are packets.

        Raises:
            UndecodableError: the packets hold something else.
            ConfigError: this installation has no such decoder.
        """
        ...


class WebP:
    """Stills. A packet is the VP8 frame of a lossy WebP file, whose two headers say nothing more."""

    def require_encoder(self) -> None:
        """Nothing: Pillow always has one."""

    def encode(self, levels: Tensor, quality: int) -> list[bytes]:
        """Each picture by itself."""
        packets = []
        for picture in levels.round().clamp(0, 255).byte().permute(0, 2, 3, 1).numpy():
            data = io.BytesIO()
            Image.fromarray(np.ascontiguousarray(picture)).save(data, "WEBP", quality=quality, method=6)
            length = int.from_bytes(data.getvalue()[16:20], "little")
            packets.append(data.getvalue()[20 : 20 + length])
        return packets

    def decode(self, packets: Sequence[bytes], size: tuple[int, int]) -> Tensor:
        """Each picture by itself."""
        return torch.stack([self._decode(packet, size) for packet in packets])

    def _decode(self, packet: bytes, size: tuple[int, int]) -> Tensor:
        _require_size(_vp8_size(packet), size)
        chunk = b"WEBPVP8 " + len(packet).to_bytes(4, "little") + packet + bytes(len(packet) % 2)
        file = io.BytesIO(b"RIFF" + len(chunk).to_bytes(4, "little") + chunk)
        try:
            with Image.open(file, formats=["WEBP"]) as image:
                picture = np.array(image.convert("RGB"))
        except (OSError, ValueError, SyntaxError) as error:
            raise UndecodableError(f"Pillow says '{error}'") from None
        return torch.from_numpy(picture).permute(2, 0, 1).float()


@dataclass(frozen=True)
class Video:
    """One stream for each video, its pictures in 4:2:0; a packet is what FFmpeg calls one.

    Attributes:
        encoder: FFmpeg's name of it.
        decoder: likewise.
        options: of the encoder, for a quality.
        trim: takes out of a packet what does not change a picture.
        check: raises UndecodableError for packets that would give far more pictures than they are.
    """

    encoder: str
    decoder: str
    options: Callable[[int], dict[str, str]]
    trim: Callable[[bytes], bytes]
    check: Callable[[Sequence[bytes]], None]

    def require_encoder(self) -> None:
        """Look for it among those that PyAV was built with."""
        _context(self.encoder, "w")

    def encode(self, levels: Tensor, quality: int) -> list[bytes]:
        """The pictures in the order of time; the packets in the order of decoding."""
        try:
            packets = [self.trim(bytes(packet)) for packet in self._packets(_to_planes(levels), quality)]
        except FFmpegError as error:
            what = "{}×{} pixels at quality {}".format(*levels.shape[2:], quality)
            raise ConfigError(
                f"{self.encoder} cannot encode {what}: {_reason(error)}. Choose another quality or storage."
            ) from None
        assert len(packets) == len(levels)
        return packets

    def _packets(self, planes: Tensor, quality: int) -> Iterator[av.Packet]:
        # Otherwise SVT-AV1 writes twenty lines about itself for each video.
        os.environ.setdefault("SVT_LOG", "0")
        context = _context(self.encoder, "w")
        context.height, context.width = planes.shape[1] * 2 // 3, planes.shape[2]
        context.pix_fmt, context.time_base, context.framerate = "yuv420p", TICK, 1 / TICK
        context.options = self.options(quality)
        for time, plane in enumerate(planes.numpy()):
            frame = av.VideoFrame.from_ndarray(plane, format="yuv420p")
            frame.pts, frame.time_base = time, TICK
            yield from context.encode(frame)
        yield from context.encode(None)

    def decode(self, packets: Sequence[bytes], size: tuple[int, int]) -> Tensor:
        """All pictures of the stream."""
        self.check(packets)
        height, width = map(_padded, size)
        planes = []
        for frame in self._frames(packets, height, width):
            _require_size((frame.height, frame.width), (height, width))
            if frame.format.name != "yuv420p":
                raise UndecodableError(f"a picture is stored as {frame.format.name}, not yuv420p")
            if len(planes) == len(packets):
                raise UndecodableError(f"there are more pictures than {len(packets)}")
            planes.append(frame.to_ndarray())
        if len(planes) < len(packets):
            raise UndecodableError(f"there are {len(planes)} pictures, not {len(packets)}")
        return _to_levels(torch.from_numpy(np.stack(planes)))[:, :, : size[0], : size[1]]

    def _frames(self, packets: Sequence[bytes], height: int, width: int) -> Iterator[av.VideoFrame]:
        context = _context(self.decoder, "r")
        try:
            # A stream may name any size: beyond this one, as FFmpeg rounds it up, nothing is allocated.
            most = -(-height // 16) * 16 * -(-width // 64) * 64
            context.options = {"max_pixels": str(most), "err_detect": "explode"}
            for packet in packets:
                yield from context.decode(av.Packet(packet))
            yield from context.decode(None)
        except (FFmpegError, OSError, ValueError) as error:
            raise UndecodableError(f"FFmpeg says '{_reason(error)}'") from None


def _context(name: str, mode: Literal["r", "w"]) -> VideoCodecContext:
    """An encoder or a decoder without threads: the same bytes every time, and no clip is worth them."""
    try:
        context = cast(VideoCodecContext, av.CodecContext.create(name, mode))
    except UnknownCodecError:
        kind = "encoder" if mode == "w" else "decoder"
        raise ConfigError(f"PyAV was built here without the {kind} {name}. Choose another storage.") from None
    context.thread_count, context.thread_type = 1, ThreadType.NONE
    return context


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _require_size(found: tuple[int, int], size: tuple[int, int]) -> None:
    if found != size:
        raise UndecodableError("a picture has {}×{} pixels, not {}×{}".format(*found, *size))


def _vp8_size(packet: bytes) -> tuple[int, int]:
    if len(packet) < 10 or packet[3:6] != b"\x9d\x01\x2a":
        raise UndecodableError("a packet is no key frame of VP8")
    width, height = (int.from_bytes(packet[at : at + 2], "little") & 0x3FFF for at in (6, 8))
    return height, width


def _padded(side: int) -> int:
    """An even number, for chroma of half the size; SVT-AV1 fails now and then below 16."""
    return max(16, side + side % 2)


def _to_planes(levels: Tensor) -> Tensor:
    """Levels (n, 3, H, W) as one plane of luma and two of chroma, (n, 3·H/2, W) uint8, H and W padded."""
    down, across = (_padded(side) - side for side in levels.shape[2:])
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


def _x264_options(quality: int) -> dict[str, str]:
    # No macroblock tree: its rate control reads memory that x264 never wrote when a picture is this small.
    return {"crf": f"{51 - 0.51 * quality:g}", "preset": "veryslow", "threads": "1", "mbtree": "0"}


def _without_remarks(packet: bytes) -> bytes:
    """H.264 without its supplemental information (NAL units of type 6), in which x264 writes its version."""
    units = re.split(b"\0*\0\0\1", packet)[1:]
    return b"".join(b"\0\0\1" + unit for unit in units if unit[0] & 31 != 6)


def _any(packets: Sequence[bytes]) -> None:
    """Nothing to check: FFmpeg's H.264 gives at most one picture for a packet."""


def _svt_options(quality: int) -> dict[str, str]:
    # Not down to 0, which FFmpeg takes for no choice at all.
    return {"crf": f"{63 - 0.62 * quality:.0f}", "preset": "4", "svtav1-params": "lp=1"}


def _check_units(packets: Sequence[bytes]) -> None:
    """Refuse AV1 with more than two frames for each picture.

    One packet may hold any number of frames, all of which the decoder gives back at once. Hierarchical
    prediction needs two at most: a hidden one, and a short one that shows it.
    """
    frames = sum(kind in (3, 6) for packet in packets for kind in _unit_kinds(packet))
    if frames > 2 * len(packets):
        raise UndecodableError(f"there are {frames} frames for {len(packets)} pictures")


def _unit_kinds(packet: bytes) -> Iterator[int]:
    """The types of a packet's open bitstream units (AV1 specification, section 5.3)."""
    at = 0
    while at < len(packet):
        header, at = packet[at], at + 1 + (packet[at] >> 2 & 1)
        size, shift = 0, 0
        while True:
            if not header & 2 or at >= len(packet) or shift > 28:
                raise UndecodableError("a unit of AV1 does not say how long it is")
            size, shift, at = size | (packet[at] & 127) << shift, shift + 7, at + 1
            if packet[at - 1] < 128:
                break
        yield header >> 3 & 15
        at += size


H264 = Video("libx264", "h264", _x264_options, _without_remarks, _any)
AV1 = Video("libsvtav1", "libdav1d", _svt_options, lambda packet: packet.removeprefix(b"\x12\0"), _check_units)

CODECS: dict[str, Codec] = {"webp": WebP(), "h264": H264, "av1": AV1}


def require_encoder(storage: str) -> None:
    """Refuse to begin what could not be stored at its end; number formats always can.

    Raises:
        ConfigError: this installation has no encoder for it.
    """
    if storage in CODECS:
        CODECS[storage].require_encoder()
