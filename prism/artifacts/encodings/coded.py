"""Images as packets of H.264: decoded video by video, when they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from prism.artifacts.encodings import h264
from prism.artifacts.encodings.images import Encoded, level_ranges
from prism.errors import CondensedError


@dataclass(frozen=True)
class Coded:
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
    storage: ClassVar[str] = "h264"

    size: tuple[int, int]
    offsets: Tensor
    packets: Tensor
    packet_sizes: Tensor
    scale: Tensor
    minimum: Tensor

    @classmethod
    def encode(cls, frames: Tensor, offsets: Tensor, quality: int) -> "Coded":
        """Compress float frames (K, 3, H, W), those of a video in one range of 256 levels.

        Raises:
            ConfigError: this installation has no encoder.
        """
        packets, ranges = [], []
        for video in frames.split(offsets.diff().tolist()):
            scale, minimum = level_ranges(video.min(), video.max())
            packets += h264.encode(((video - minimum) / scale).clamp(0, 255), quality)
            ranges.append(torch.stack([scale, minimum]))
        sizes = torch.tensor([len(packet) for packet in packets], dtype=torch.int32)
        content = torch.frombuffer(bytearray(b"".join(packets)), dtype=torch.uint8)
        size = frames.shape[2], frames.shape[3]
        return cls(size, offsets, content, sizes, *torch.stack(ranges, dim=1))

    @classmethod
    def join(cls, parts: Sequence["Coded"]) -> "Coded":
        """The images of all parts, one part after another; they have one size."""
        counts = torch.cat([part.offsets.diff() for part in parts])
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        joined = (torch.cat([getattr(part, name) for part in parts]) for name in cls.TENSORS)
        return cls(parts[0].size, offsets, *joined)

    def problem(self) -> str | None:
        """What is wrong with it, or None; whether its packets decode is seen when they are."""
        if not len(self.scale) == len(self.minimum) == len(self.offsets) - 1:
            return "it must hold a scale and a minimum for each video"
        if len(self) < 1 or int(self.packet_sizes.min()) < 1 or int(self.packet_sizes.sum()) != len(self.packets):
            return "the sizes of its packets must be positive and add up to the bytes that it holds"
        return None

    def __len__(self) -> int:
        return len(self.packet_sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """(K, 3, H, W)."""
        return (len(self), 3, *self.size)

    @property
    def is_finite(self) -> bool:
        """Whether every decoded value is a number that float32 can hold."""
        return bool(((255 * self.scale).isfinite() & (255 * self.scale + self.minimum).isfinite()).all())

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Its tensors as a file holds them, whatever `name` the images have."""
        return {key: getattr(self, key) for key in self.TENSORS}

    def decode(self) -> Tensor:
        """All images as float32 (K, 3, H, W)."""
        return self[torch.arange(len(self))].decode()

    def __getitem__(self, where: Tensor | slice) -> Encoded:
        """Some of the images, decompressed.

        Raises:
            CondensedError: the packets of one of their videos do not decode to what the set says.
        """
        wanted = torch.arange(len(self))[where]
        videos = torch.bucketize(wanted, self.offsets[1:], right=True)
        levels = torch.empty(len(wanted), 3, *self.size)
        for video in videos.unique().tolist():
            mine = videos == video
            levels[mine] = self._video(video)[wanted[mine] - self.offsets[video]]
        return Encoded(levels, self.scale[videos], self.minimum[videos])

    def _video(self, video: int) -> Tensor:
        """The levels (n, 3, H, W) of a video's images."""
        first, last = self.offsets[video : video + 2].tolist()
        start = int(self.packet_sizes[:first].sum())
        sizes = self.packet_sizes[first:last].tolist()
        parts = self.packets[start : start + sum(sizes)].split(sizes)
        try:
            return h264.decode([part.numpy().tobytes() for part in parts], self.size)
        except h264.UndecodableError as problem:
            raise CondensedError(f"video {video} cannot be decoded as {self.storage}: {problem}.") from None
