"""Images as packets of H.264: decoded video by video, when they are asked for."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from prism.artifacts.encodings import h264
from prism.artifacts.encodings.images import Encoded, Images, level_ranges, levels_are_finite, offsets_of
from prism.errors import ArtifactError
from prism.machine.devices import deterministic


@dataclass(frozen=True)
class Coded(Images):
    """The images of V videos as one packet each; an image k of video v is `scale[v] * level + minimum[v]`.

    Levels lie in 0..255. Scale and minimum are 1/255 and 0 for a video inside [0, 1], as real clips are, else
    its own range. All images of a video are decoded together, and nothing of another.

    Attributes:
        size: height and width of an image.
        offsets: (V + 1,) int64; video v has the images offsets[v]..offsets[v + 1].
        packets: (B,) uint8, the bytes of all packets, one after another.
        packet_sizes: (K,) int32, the bytes of each.
        scale: (V,) float32.
        minimum: (V,) float32.
    """

    TENSORS: ClassVar[dict[str, tuple[torch.dtype, int]]] = {
        "packets": (torch.uint8, 1),
        "packet_sizes": (torch.int32, 1),
        "scale": (torch.float32, 1),
        "minimum": (torch.float32, 1),
    }
    """Name in a file, number format and rank, in the order of the attributes."""

    size: tuple[int, int]
    offsets: Tensor
    packets: Tensor
    packet_sizes: Tensor
    scale: Tensor
    minimum: Tensor

    @classmethod
    def encode(cls, frames: Tensor, counts: Tensor, quality: int) -> "Coded":
        """Compress the images of videos, those of one video in one range of 256 levels.

        Args:
            frames: (K, 3, H, W) float.
            counts: (V,) int64, images of each video.
            quality: in 0..100.

        Raises:
            ConfigError: this installation has no encoder.
        """
        packets, ranges = [], []
        # A video is so small that several threads wait for each other six times as long as one computes.
        with deterministic(frames.device):
            # One range for a video, not for an image: a jump between ranges would look like motion to the codec.
            for video in frames.split(counts.tolist()):
                scale, minimum = level_ranges(video.min(), video.max())
                packets += h264.encode(((video - minimum) / scale).clamp(0, 255), quality)
                ranges.append(torch.stack([scale, minimum]))
        sizes = torch.tensor([len(packet) for packet in packets], dtype=torch.int32)
        content = torch.frombuffer(bytearray(b"".join(packets)), dtype=torch.uint8)
        size = frames.shape[2], frames.shape[3]
        return cls(size, offsets_of(counts), content, sizes, *torch.stack(ranges, dim=1))

    def problem(self) -> str | None:
        """The first thing that is wrong with it, or None; whether its packets decode is seen when they are."""
        if not len(self.scale) == len(self.minimum) == len(self.offsets) - 1:
            return "it must hold a scale and a minimum for each video"
        if len(self) < 1 or int(self.packet_sizes.min()) < 1 or int(self.packet_sizes.sum()) != len(self.packets):
            return "the sizes of its packets must be positive and add up to the bytes that it holds"
        return None

    @property
    def shape(self) -> tuple[int, ...]:
        """(K, 3, H, W)."""
        return (len(self.packet_sizes), 3, *self.size)

    @property
    def storage(self) -> str:
        """The codec."""
        return "h264"

    @property
    def is_finite(self) -> bool:
        """Whether every decoded value is a number that float32 can hold."""
        return levels_are_finite(self.scale, self.minimum)

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of `TENSORS`, whatever the images are called."""
        return {key: getattr(self, key) for key in self.TENSORS}

    def __getitem__(self, where: Tensor | slice) -> Encoded:
        """Some of the images, decompressed.

        Raises:
            ArtifactError: the packets of one of their videos do not decode to what the set says.
        """
        wanted = torch.arange(len(self))[where]
        videos = torch.bucketize(wanted, self.offsets[1:], right=True)
        levels = torch.empty(len(wanted), 3, *self.size)
        with deterministic(levels.device):
            for video in videos.unique().tolist():
                try:
                    images = h264.decode(self.packets_of(video), self.size)
                except h264.UndecodableError as problem:
                    raise ArtifactError(f"video {video} cannot be decoded as {self.storage}: {problem}.") from None
                mine = videos == video
                levels[mine] = images[wanted[mine] - self.offsets[video]]
        return Encoded(levels, self.scale[videos], self.minimum[videos])

    def packets_of(self, video: int) -> list[bytes]:
        """The packets of a video, in the order of decoding."""
        first, last = self.offsets[video : video + 2].tolist()
        start, sizes = int(self.packet_sizes[:first].sum()), self.packet_sizes[first:last].tolist()
        return [part.numpy().tobytes() for part in self.packets[start : start + sum(sizes)].split(sizes)]

    def is_plain(self, video: int) -> bool:
        """Whether the pictures of a video are its images: no edge is cut off, and a level is a pixel."""
        scale, minimum = level_ranges(torch.tensor(0.0), torch.tensor(1.0))
        return h264.holds_exactly(self.size) and bool(
            (self.scale[video] == scale) & (self.minimum[video] == minimum)
        )
