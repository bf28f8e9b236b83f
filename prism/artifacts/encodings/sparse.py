"""Videos sparse in time: their key-frames (paper, section 3.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from prism.artifacts.clips import Normalisation
from prism.artifacts.encodings.coded import Coded
from prism.artifacts.encodings.encoding import Encoding, checked, extent_problem
from prism.artifacts.encodings.images import Encoded, Images, offsets_of
from prism.artifacts.keyframes import enlarge, render
from prism.machine.devices import deterministic

MAX_SCALE = 16


@dataclass(frozen=True)
class KeyFrameEncoding(Encoding):
    """Videos sparse in time: key-frames, and linear interpolation between them (paper, section 3.1).

    Attributes:
        keyframes: (K, 3, H, W), those of all videos, one video after another.
        times: (K,) int64, the frame index of each key-frame, from 0 to T − 1 within every video.
        offsets: (V + 1,) int64; video v has the key-frames offsets[v]..offsets[v + 1].
        num_frames: frames of a rendered clip (T).
        scale: how many times as high and wide as a key-frame a rendered clip is.
    """

    NAME: ClassVar[str] = "keyframes"
    IMAGES: ClassVar[dict[str, int]] = {"keyframes": 4}
    TENSORS: ClassVar[dict[str, tuple[torch.dtype, int]]] = {
        "times": (torch.int32, 1),
        "offsets": (torch.int64, 1),
    }

    keyframes: Images
    times: Tensor
    offsets: Tensor
    num_frames: int
    scale: int = 1

    @classmethod
    def place(cls, keyframes: Images, mask: Tensor, scale: int = 1) -> Self:
        """The key-frames of all videos, at the times that are marked in `mask` (V, T)."""
        return cls(keyframes, mask.nonzero()[:, 1], offsets_of(mask.sum(dim=1)), mask.shape[1], scale)

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> Self:
        """The encoding in a file; the key-frames say how large they are."""
        scale = checked(metadata.get("scale", 1), int)
        keyframes = Encoded.of(tensors, "keyframes")
        return cls(keyframes, tensors["times"].long(), tensors["offsets"], metadata["num_frames"], scale)

    @classmethod
    def join(cls, parts: Sequence["KeyFrameEncoding"]) -> "KeyFrameEncoding":
        """The videos of all parts, one part after another; they have one length, size, scale and storage."""
        first, held = parts[0], [part.tensors() for part in parts]
        joined = {name: torch.cat([tensors[name] for tensors in held]) for name in held[0]}
        joined["offsets"] = offsets_of(torch.cat([part.keyframe_counts for part in parts]))
        num_frames, *size = first.clip_shape
        return first.from_tensors(joined, {"num_frames": num_frames, "size": size, **first.metadata()})

    def metadata(self) -> dict[str, Any]:
        """The scale, where there is one. Sets of key-frames, the first kind, do not name their encoding."""
        return {"scale": self.scale} if self.scale != 1 else {}

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the file."""
        others = {"times": self.times.to(torch.int32), "offsets": self.offsets.to(torch.int64)}
        return self.keyframes.tensors("keyframes") | others

    def problem(self, num_videos: int) -> str | None:
        """The first thing that is wrong with it for a set of so many videos, or None."""
        shape, num_keyframes = self.keyframes.shape, len(self.times)
        if len(shape) != 4 or shape[1] != 3 or not 1 <= min(shape[2:]) <= max(shape) < 2**31:
            return f"key-frames must be (K, 3, H, W), got {shape}"
        if not 1 <= self.scale <= MAX_SCALE:
            return f"clips must be 1 to {MAX_SCALE} times as large as their key-frames, not {self.scale}"
        if problem := extent_problem(self.clip_shape):
            return problem
        if num_videos < 1 or len(self.offsets) != num_videos + 1 or shape[0] != num_keyframes:
            return "its tensors do not belong together: labels, offsets, times and key-frames differ in length"
        # The range comes first: a stranger's offsets could be so far apart that their differences overflow.
        in_range = bool(((self.offsets >= 0) & (self.offsets <= num_keyframes)).all())
        runs = int(self.offsets[0]) == 0 and int(self.offsets[-1]) == num_keyframes
        if not (in_range and runs and int(self.offsets.diff().min()) >= 2):
            return "offsets must run from 0 to the number of key-frames, with two or more for each video"
        first, last = self.times[self.offsets[:-1]], self.times[self.offsets[1:] - 1]
        if bool((first != 0).any()) or bool((last != self.num_frames - 1).any()):
            return f"each video's key-frames must span its clip, from 0 to {self.num_frames - 1}"
        # From one video to the next the times fall, from T − 1 to 0.
        steps = self.times.diff()
        within = torch.ones(num_keyframes - 1, dtype=torch.bool)
        within[self.offsets[1:-1] - 1] = False
        if bool((steps[within] < 1).any()):
            return "the times of each video's key-frames must increase"
        return None if self.keyframes.is_finite else "a key-frame holds a value that is not finite"

    @property
    def clip_shape(self) -> tuple[int, int, int]:
        """Frames, height and width of a rendered clip."""
        return self.num_frames, self.scale * self.keyframes.shape[2], self.scale * self.keyframes.shape[3]

    @property
    def storage(self) -> str:
        """Number format of the stored key-frames, or their codec."""
        return self.keyframes.storage

    @property
    def num_values(self) -> int:
        """Numbers of all key-frames."""
        return prod(self.keyframes.shape)

    @property
    def keyframe_counts(self) -> Tensor:
        """(V,) int64, key-frames of each video."""
        return self.offsets.diff()

    @property
    def shown(self) -> Images:
        """The key-frames: what lies between two of them lies in their range."""
        return self.keyframes

    @property
    def mask(self) -> Tensor:
        """(V, T) bool, True at key-frames."""
        return self._mask

    @cached_property
    def _mask(self) -> Tensor:
        counts = self.keyframe_counts
        mask = torch.zeros(len(counts), self.num_frames, dtype=torch.bool)
        mask[torch.repeat_interleave(torch.arange(len(counts)), counts), self.times] = True
        return mask

    def render(self, videos: Tensor, normalisation: Normalisation, generator: torch.Generator | None) -> Tensor:
        """The interpolated clips (equation 3), enlarged; nothing about them is random."""
        counts = self.keyframe_counts[videos]
        row = torch.repeat_interleave(torch.arange(len(videos)), counts)
        # The key-frames of these videos, wherever they lie: the place of each video's first, and then one by one.
        within = torch.arange(len(row)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        packed = torch.repeat_interleave(self.offsets[:-1][videos], counts) + within
        dense = torch.zeros(len(videos), self.num_frames, *self.keyframes.shape[1:])
        dense[row, self.times[packed]] = self.keyframes[packed].decode()
        # Several threads round some sizes otherwise than one.
        with deterministic(dense.device):
            return enlarge(render(dense, self.mask[videos]), self.scale)


@dataclass(frozen=True)
class H264Encoding(KeyFrameEncoding):
    """The same videos with the key-frames of each as a stream of H.264.

    Attributes:
        keyframes: the packets, and what they have to decode to.
    """

    NAME: ClassVar[str] = "h264"
    IMAGES: ClassVar[dict[str, int]] = {}
    TENSORS: ClassVar[dict[str, tuple[torch.dtype, int]]] = {**KeyFrameEncoding.TENSORS, **Coded.TENSORS}

    keyframes: Coded

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> Self:
        """The encoding in a file; nothing is decoded.

        Raises:
            ValueError: clips of this size are not so many times as large as anything.
        """
        scale, (height, width) = checked(metadata.get("scale", 1), int), metadata["size"]
        if scale < 1 or height % scale or width % scale:
            raise ValueError(
                f"clips of {height}×{width} pixels cannot be {scale} times as large as their key-frames"
            )
        stored = (tensors[name] for name in Coded.TENSORS)
        keyframes = Coded((height // scale, width // scale), tensors["offsets"], *stored)
        return cls(keyframes, tensors["times"].long(), tensors["offsets"], metadata["num_frames"], scale)

    def metadata(self) -> dict[str, Any]:
        """The name, and the scale where there is one."""
        return {"encoding": self.NAME, **super().metadata()}

    def problem(self, num_videos: int) -> str | None:
        """The first thing that is wrong, or None; a packet may still not decode."""
        return self.keyframes.problem() or super().problem(num_videos)

    def stream(self, video: int) -> list[bytes] | None:
        """The packets of a video if all frames of its clip are stored, in their own size and range."""
        is_whole = self.scale == 1 and int(self.keyframe_counts[video]) == self.num_frames
        return self.keyframes.packets_of(video) if is_whole and self.keyframes.is_plain(video) else None
