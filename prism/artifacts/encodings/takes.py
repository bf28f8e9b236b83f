"""Takes: several clips for each video of a set, one of which is drawn whenever the video is rendered."""

from dataclasses import dataclass, field
from math import prod
from threading import Lock
from typing import Any, ClassVar

import torch
from torch import Tensor

from prism.artifacts.clips import Normalisation
from prism.artifacts.encodings.encoding import Encoding
from prism.artifacts.encodings.images import Images
from prism.errors import CondensedError
from prism.machine.free_memory import available_memory_bytes


@dataclass(frozen=True)
class Takes(Encoding):
    """A wrapper of an encoding, which holds the clips that a video stands for side by side.

    A file holds the tensors of the wrapped encoding, and `takes` in its metadata.

    Attributes:
        encoding: holds the clips.
        takes: clips of each video.
    """

    is_random: ClassVar[bool] = True

    encoding: Encoding
    takes: int
    _decoded: dict[Normalisation, Tensor | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.takes < 1:
            raise CondensedError(f"a video must stand for one take or more, got {self.takes}.")

    def __reduce__(self) -> tuple[Any, ...]:
        # Decoded clips may be many times as large as the encoding: they are decoded again where it arrives.
        return Takes, (self.encoding, self.takes)

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> "Takes":
        """Not by itself: a file names the wrapped encoding, which `CondensedSet.load` wraps."""
        raise NotImplementedError

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the wrapped encoding."""
        return self.encoding.tensors()

    def metadata(self) -> dict[str, Any]:
        """The entries of the wrapped encoding, and the number of takes where it is not one."""
        return self.encoding.metadata() | ({"takes": self.takes} if self.takes != 1 else {})

    def problem(self, num_videos: int) -> str | None:
        """The first thing that is wrong with it for a set of so many videos, or None."""
        return self.encoding.problem(num_videos * self.takes)

    @property
    def name(self) -> str:
        """The name of the wrapped encoding."""
        return self.encoding.name

    @property
    def storage(self) -> str:
        """Number format of the stored images, or their codec."""
        return self.encoding.storage

    @property
    def clip_shape(self) -> tuple[int, int, int]:
        """Frames, height and width of a rendered clip."""
        return self.encoding.clip_shape

    @property
    def num_values(self) -> int:
        """Numbers that are stored for all takes."""
        return self.encoding.num_values

    @property
    def mask(self) -> Tensor:
        """(V, T) bool, True at frames of each video's first take that are stored as they are."""
        return self.encoding.mask[:: self.takes]

    @property
    def keyframe_counts(self) -> Tensor:
        """(V,) int64, colour images stored for all takes of each video."""
        return self.encoding.keyframe_counts.view(-1, self.takes).sum(dim=1)

    @property
    def stored_clips(self) -> int:
        """All takes of all videos."""
        return self.encoding.stored_clips

    @property
    def contents(self) -> str:
        """Its videos in a few words."""
        counts = self.keyframe_counts
        return f"{len(counts)} videos of {self.takes} takes, {int(counts.sum())} key-frames"

    @property
    def shown(self) -> Images | None:
        """The stored pixels of all takes, if no clip shows what lies outside their range."""
        return self.encoding.shown

    @property
    def apart(self) -> Encoding:
        """The wrapped encoding: every take is a video."""
        return self.encoding

    def render(self, videos: Tensor, normalisation: Normalisation, generator: torch.Generator | None) -> Tensor:
        """The drawn take of each video, or its first without a generator.

        All videos take part in the draw, so that a video's take does not depend on which others are rendered.
        """
        firsts = torch.arange(0, len(self.encoding.keyframe_counts), self.takes)
        if generator is None:
            return self.encoding.render(firsts[videos], normalisation, None)
        places = (firsts + torch.randint(self.takes, firsts.shape, generator=generator))[videos]
        # Who draws once will draw again, in the next epoch: then every take is worth being decoded once, unless
        # takes are draws themselves, or would fill more than a quarter of the memory.
        # Networks that are trained side by side ask at the same time: the first decodes for all.
        with self._lock:
            if normalisation not in self._decoded:
                every = torch.arange(len(self.encoding.keyframe_counts))
                num_bytes = len(every) * 4 * 3 * prod(self.clip_shape)
                room = (available_memory_bytes(torch.device("cpu")) or 0) / 4
                keep = num_bytes <= room and not self.encoding.is_random
                # Asked once: with them in memory there is less room.
                self._decoded[normalisation] = self.encoding.render(every, normalisation, None) if keep else None
            decoded = self._decoded[normalisation]
        return self.encoding.render(places, normalisation, generator) if decoded is None else decoded[places]
