"""Videos as mp4 files: the streams of a set in H.264 as they are, all others encoded.

A copied stream and an encoded one have the same colours (`docs/formats.md`): BT.601 in full range. The packets of
a set do not say so, but other decoders have to be told.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import av
import numpy as np
import torch
from av.bitstream import BitStreamFilterContext
from av.codec.codec import UnknownCodecError
from av.error import FFmpegError
from torch import Tensor

from prism.artifacts.clips import as_levels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import h264
from prism.errors import ArtifactError, ConfigError
from prism.exports.format import Format, Shown
from prism.machine.files import write_synced

if TYPE_CHECKING:
    from av.container import InputContainer

COLOURS = (
    "h264_metadata=video_full_range_flag=1:matrix_coefficients=6:colour_primaries=1:transfer_characteristics=13:"
    "chroma_sample_loc_type=1"
)
"""Full range, the matrix of BT.601; primaries and transfer of sRGB, chroma between its four pixels."""
EXACT = {"qp": "0", "preset": "veryfast", "threads": "1", "mbtree": "0"}
"""x264 without loss; the last two for the same bytes every time (`artifacts/encodings/h264.py`)."""


@dataclass(frozen=True)
class Mp4s(Format):
    """Base of the formats that hold videos as mp4.

    Attributes:
        fps: frames per second, in 0.1..240.
        quality: of the videos that are encoded, in 0..100.
        lossless: keep every 8-bit pixel.
    """

    fps: float = 8.0
    quality: int = 65
    lossless: bool = False

    def check(self, condensed: CondensedSet) -> None:
        """Refuse sizes that 4:2:0 pictures do not have."""
        height, width = condensed.size
        if not self.lossless and not h264.holds_exactly((height, width)):
            raise ConfigError(
                f"mp4 videos of {height}×{width} pixels would get an edge, since compression wants an even height "
                "and width of 16 or more. Choose --lossless or --to tensors."
            )

    def mp4(self, condensed: CondensedSet, video: int) -> tuple[bytes, Shown]:
        """The file of a video, its clip, and what other decoders see.

        Raises:
            ArtifactError: its packets are not the pictures that the set claims.
            ConfigError: this installation has no encoder.
        """
        clip, rate = condensed.render(torch.tensor([video]))[0], Fraction(self.fps).limit_denominator(1000)
        packets = None if self.lossless else condensed.encoding.stream(video)
        if not self.lossless and packets is None:
            packets = h264.encode(clip.clamp(0, 1) * 255, self.quality)
        try:
            data = encoded_exactly(clip, rate) if packets is None else muxed(packets, condensed.size, rate)
            return data, (clip, decoded(data))
        except (FFmpegError, h264.UndecodableError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ArtifactError(f"video {video} cannot be written as mp4: {reason}.") from None


@dataclass(frozen=True)
class OneVideo(Mp4s):
    """One video as an mp4 file.

    Attributes:
        video: its position in the set.
    """

    is_folder: ClassVar[bool] = False

    video: int = 0

    def check(self, condensed: CondensedSet) -> None:
        """Refuse a video that the set does not have."""
        super().check(condensed)
        if self.video >= len(condensed):
            raise ConfigError(
                f"export.video = {self.video}, but the set has {len(condensed)} videos, counted from 0. "
                "Choose a smaller number."
            )

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        """Write the video."""
        data, shown = self.mp4(condensed, self.video)
        write_synced(path, data)
        yield shown


def muxed(packets: Sequence[bytes], size: tuple[int, int], rate: Fraction) -> bytes:
    """An mp4 file of packets of H.264, which stay as they are but for the colours that they announce.

    Args:
        packets: one for each picture, in the order of decoding.
        size: height and width of the pictures.
        rate: pictures per second.

    Raises:
        UndecodableError: the packets do not hold one picture each.
        FFmpegError: they cannot be written.
    """
    places, content = h264.places(packets, size), io.BytesIO()
    with _stream_of(packets) as told:
        announcing = BitStreamFilterContext(COLOURS, told.streams.video[0])
        coloured = [bytes(out) for packet in packets for out in announcing.filter(av.Packet(packet))]
    # No picture may be decoded after it is shown, so the clock of decoding starts early.
    delay = max(number - place for number, place in enumerate(places))
    with _stream_of(coloured) as told, av.open(content, "w", format="mp4") as container:
        stream = container.add_stream_from_template(told.streams.video[0])
        stream.time_base = 1 / rate
        for number, (data, place) in enumerate(zip(coloured, places, strict=True)):
            packet = av.Packet(data)
            packet.stream, packet.time_base, packet.duration = stream, 1 / rate, 1
            packet.pts, packet.dts = place, number - delay
            packet.is_keyframe = number == 0
            container.mux(packet)
    return content.getvalue()


def _stream_of(packets: Sequence[bytes]) -> "InputContainer":
    return av.open(io.BytesIO(b"".join(packets)), "r", format="h264")


def encoded_exactly(clip: Tensor, rate: Fraction) -> bytes:
    """An mp4 file of a clip (T, 3, H, W), every 8-bit pixel kept.

    Raises:
        ConfigError: this installation has no encoder.
    """
    content = io.BytesIO()
    with av.open(content, "w", format="mp4") as container:
        try:
            stream = container.add_stream("libx264rgb", rate=rate, options=EXACT)
        except UnknownCodecError:
            raise ConfigError("PyAV was built here without libx264rgb. Leave out --lossless.") from None
        stream.height, stream.width = clip.shape[2:]
        stream.pix_fmt = "rgb24"
        for frame in as_levels(clip):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return content.getvalue()


def decoded(data: bytes) -> Tensor:
    """The frames of an mp4 file as FFmpeg shows them: (T, 3, H, W) float32 in units of [0, 1]."""
    with av.open(io.BytesIO(data), "r") as container:
        frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    return torch.from_numpy(frames).permute(0, 3, 1, 2) / 255
