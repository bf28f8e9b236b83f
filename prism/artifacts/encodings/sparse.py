"""Videos sparse in time: their key-frames as numbers, or as one stream of H.264 each (paper, section 3.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import torch
from torch import Tensor

from prism.artifacts.clips import Normalisation
from prism.artifacts.encodings import (
    Encoding,
    are_finite,
    as_numbers,
    from_numbers,
    h264,
    level_ranges,
)
from prism.artifacts.keyframes import enlarge, render
from prism.errors import ArtifactError
from prism.machine.devices import deterministic

MAX_SCALE = 16


class KeyFrameEncoding(Encoding):
    """Key-frames as numbers, and linear interpolation between them (paper, section 3.1).

    Tensors: `keyframes` of all videos, one video after another; `times`, the frame index of each, from 0 to T − 1
    within every video; `offsets`: video v has the key-frames offsets[v]..offsets[v + 1].
    """

    NAME: ClassVar[str] = "keyframes"
    TENSORS: ClassVar[Mapping[str, tuple[torch.dtype | None, int]]] = {
        "keyframes": (None, 4),
        "times": (torch.int32, 1),
        "offsets": (torch.int64, 1),
    }
    number_format: ClassVar[str | None] = "float32"

    def encode(self, frames: Tensor, mask: Tensor, scale: int = 1) -> dict[str, Tensor]:
        return {**as_numbers("keyframes", frames[mask], str(self.number_format)), **_places(mask)}

    @classmethod
    def _joined(cls, parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        counts = torch.cat([tensors["offsets"].diff() for tensors in parts])
        return {**super()._joined(parts), "offsets": _offsets(counts)}

    @property
    def storage(self) -> str:
        return str(self.tensors["keyframes"].dtype).removeprefix("torch.")

    @property
    def num_values(self) -> int:
        return len(self.tensors["times"]) * 3 * prod(self._image_size)

    @property
    def _image_size(self) -> tuple[int, int]:
        return self.size[0] // self.scale, self.size[1] // self.scale

    @property
    def keyframe_counts(self) -> Tensor:
        return self.tensors["offsets"].diff()

    @property
    def mask(self) -> Tensor:
        counts = self.keyframe_counts
        mask = torch.zeros(len(counts), self.num_frames, dtype=torch.bool)
        mask[torch.repeat_interleave(torch.arange(len(counts)), counts), self.tensors["times"].long()] = True
        return mask

    def keyframes(self, videos: Tensor) -> Tensor:
        """The key-frames of some videos, one video after another, float32 (k, 3, h, w)."""
        return from_numbers("keyframes", self.tensors, self._positions(videos))

    def _positions(self, videos: Tensor) -> Tensor:
        offsets = self.tensors["offsets"].tolist()
        return torch.cat([torch.arange(offsets[video], offsets[video + 1]) for video in videos.tolist()])

    def render(self, videos: Tensor, normalisation: Normalisation, generator: torch.Generator | None) -> Tensor:
        row = torch.repeat_interleave(torch.arange(len(videos)), self.keyframe_counts[videos])
        times = self.tensors["times"].long()[self._positions(videos)]
        mask = torch.zeros(len(videos), self.num_frames, dtype=torch.bool)
        mask[row, times] = True
        dense = torch.zeros(*mask.shape, 3, *self._image_size)
        dense[row, times] = self.keyframes(videos)
        with deterministic(dense.device):
            return enlarge(render(dense, mask), self.scale)

    def problem(self, num_videos: int) -> str | None:
        times, offsets, (height, width) = self.tensors["times"].long(), self.tensors["offsets"], self.size
        if not 1 <= self.scale <= MAX_SCALE or height % self.scale or width % self.scale:
            return f"clips of {height}×{width} pixels cannot be {self.scale} times as large as their key-frames"
        if num_videos < 1 or len(offsets) != num_videos + 1:
            return "its tensors do not belong together: labels, offsets, times and key-frames differ in length"
        # The range comes first: offsets could be so far apart that their differences overflow.
        in_range = bool(((offsets >= 0) & (offsets <= len(times))).all())
        if not in_range or offsets[0] != 0 or offsets[-1] != len(times) or offsets.diff().min() < 2:
            return "offsets must run from 0 to the number of key-frames, with two or more for each video"
        # From one video to the next the times fall, from T − 1 to 0.
        steps = times.diff()
        steps[offsets[1:-1] - 1] = 1
        ends = times[offsets[:-1]], times[offsets[1:] - 1] - (self.num_frames - 1)
        if steps.min() < 1 or any(end.any() for end in ends):
            return f"the times of each video's key-frames must increase from 0 to {self.num_frames - 1}"
        return self._image_problem()

    def _image_problem(self) -> str | None:
        wanted = len(self.tensors["times"]), 3, *self._image_size
        if (found := tuple(self.tensors["keyframes"].shape)) != wanted:
            return f"key-frames must be {wanted} by its metadata, got {found}: another size or length"
        is_finite = are_finite("keyframes", self.tensors)
        return None if is_finite else "a key-frame holds a value that is not finite"


def _places(mask: Tensor) -> dict[str, Tensor]:
    return {"times": mask.nonzero()[:, 1].int(), "offsets": _offsets(mask.sum(dim=1))}


def _offsets(counts: Tensor) -> Tensor:
    """Where each of V videos begins, and the last one ends, from the images of each: (V + 1,) int64."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])


class Float32(KeyFrameEncoding):
    """Key-frames as they were optimised, to the last bit."""


class Float16(KeyFrameEncoding):
    """Key-frames in half the bytes, each value with 11 significant bits."""

    number_format: ClassVar[str | None] = "float16"
    largest: ClassVar[float] = torch.finfo(torch.float16).max


class UInt8(KeyFrameEncoding):
    """Key-frames in 256 levels: exact for real clips."""

    number_format: ClassVar[str | None] = "uint8"


@dataclass(frozen=True)
class H264(KeyFrameEncoding):
    """The key-frames of each video as a stream of H.264, decoded when they are needed.

    `packets` are the bytes of all packets, one for each key-frame, and `packet_sizes` the bytes of each. A
    key-frame of video v is `scale[v] * level + minimum[v]`, where levels lie in 0..255. The quality is in 0..100.
    """

    NAME: ClassVar[str] = "h264"
    TENSORS: ClassVar[Mapping[str, tuple[torch.dtype | None, int]]] = {
        "times": (torch.int32, 1),
        "offsets": (torch.int64, 1),
        "packets": (torch.uint8, 1),
        "packet_sizes": (torch.int32, 1),
        "scale": (torch.float32, 1),
        "minimum": (torch.float32, 1),
    }
    number_format: ClassVar[str | None] = None

    quality: int = 50

    def encode(self, frames: Tensor, mask: Tensor, scale: int = 1) -> dict[str, Tensor]:
        packets, ranges = [], []
        # A video is so small that several threads wait for each other six times as long as one computes.
        with deterministic(frames.device):
            # One range for a video, not for an image: a jump between ranges would look like motion to the codec.
            for video in frames[mask].split(mask.sum(dim=1).tolist()):
                step, minimum = level_ranges(video.min(), video.max())
                packets += h264.encode(((video - minimum) / step).clamp(0, 255), self.quality)
                ranges.append(torch.stack([step, minimum]))
        steps, minima = torch.stack(ranges, dim=1)
        sizes = torch.tensor([len(packet) for packet in packets], dtype=torch.int32)
        content = torch.frombuffer(bytearray(b"".join(packets)), dtype=torch.uint8)
        coded = {"packets": content, "packet_sizes": sizes, "scale": steps, "minimum": minima}
        return {**_places(mask), **coded}

    def check(self) -> None:
        h264.require_encoder()

    @property
    def storage(self) -> str:
        return self.NAME

    def keyframes(self, videos: Tensor) -> Tensor:
        """The key-frames of some videos, decoded; ArtifactError if the packets are not what the set says."""
        images = list[Tensor]()
        with deterministic(videos.device):
            for video in videos.tolist():
                try:
                    levels = h264.decode(self._packets_of(video), self._image_size)
                except h264.UndecodableError as problem:
                    raise ArtifactError(f"video {video} cannot be decoded as h264: {problem}.") from None
                images.append(levels * self.tensors["scale"][video] + self.tensors["minimum"][video])
        return torch.cat(images)

    def _packets_of(self, video: int) -> list[bytes]:
        first, last = self.tensors["offsets"][video : video + 2].tolist()
        sizes = self.tensors["packet_sizes"]
        start, own = int(sizes[:first].sum()), sizes[first:last].tolist()
        packets = self.tensors["packets"][start : start + sum(own)].split(own)
        return [packet.numpy().tobytes() for packet in packets]

    def _image_problem(self) -> str | None:
        sizes, packets = self.tensors["packet_sizes"], self.tensors["packets"]
        if len(sizes) != len(self.tensors["times"]) or sizes.min() < 1 or int(sizes.sum()) != len(packets):
            return "the sizes of its packets must be positive and add up to the bytes that it holds"
        if not len(self.tensors["scale"]) == len(self.tensors["minimum"]) == len(self.keyframe_counts):
            return "it must hold a scale and a minimum for each video"
        return None if are_finite("keyframes", self.tensors) else "a key-frame holds a value that is not finite"
