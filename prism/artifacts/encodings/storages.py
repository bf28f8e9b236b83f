"""Storages: how a set keeps the key-frames of its videos. A method makes the frames, a storage the encoding."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from prism.artifacts.encodings import h264, reading_problem
from prism.artifacts.encodings.coded import Coded
from prism.artifacts.encodings.encoding import Encoding
from prism.artifacts.encodings.images import DTYPES, Encoded
from prism.artifacts.encodings.sparse import H264Encoding, KeyFrameEncoding
from prism.artifacts.options import STORAGES
from prism.errors import ConfigError, PrismError


class Storage(ABC):
    """How a set keeps key-frames: numbers in a format, or pictures at a quality.

    For a storage of your own, write `encode`. Its fields are options: `quality` is that of the verb. It may return
    one of our encodings, which everybody can read, or one of your own (`Encoding`).

    Attributes:
        number_format: a key of `images.DTYPES` if the storage keeps numbers of any kind in that format, as the
            memories of static-dynamic are. None: it keeps pictures at a quality.
        largest: the largest value that it can hold.
    """

    number_format: str | None = None
    largest: float = 1e38

    @abstractmethod
    def encode(self, frames: Tensor, mask: Tensor, scale: int = 1) -> Encoding:
        """Keep the key-frames of dense frames.

        Args:
            frames: (V, T, 3, h, w) float pixels in units of [0, 1] (they may exceed it).
            mask: (V, T) bool, True at key-frames, the first and the last frame among them.
            scale: how many times as high and wide as these frames the clips are.

        Returns:
            An encoding of clips of T frames with `scale` times the height and width.

        Raises:
            ConfigError: this installation cannot encode them.
        """

    def check(self) -> None:  # noqa: B027
        """Refuse to begin what cannot be stored at its end.

        Raises:
            ConfigError: this installation has no encoder.
        """


class Float32(Storage):
    """Key-frames as they were optimised, to the last bit."""

    number_format = "float32"

    def encode(self, frames: Tensor, mask: Tensor, scale: int = 1) -> Encoding:
        """The key-frames in the number format."""
        assert self.number_format in DTYPES
        return KeyFrameEncoding.place(Encoded.encode(frames[mask], self.number_format), mask, scale)


class Float16(Float32):
    """Key-frames in half the bytes, each value with 11 significant bits."""

    number_format = "float16"
    largest = torch.finfo(torch.float16).max


class UInt8(Float32):
    """Key-frames in 256 levels: exact for real clips."""

    number_format = "uint8"


@dataclass(frozen=True)
class H264(Storage):
    """Key-frames as video, one stream for each video of the set.

    Attributes:
        quality: what the compression keeps, in 0..100.
    """

    quality: int = 50

    def encode(self, frames: Tensor, mask: Tensor, scale: int = 1) -> Encoding:
        """The key-frames, compressed."""
        return H264Encoding.place(Coded.encode(frames[mask], mask.sum(dim=1), self.quality), mask, scale)

    def check(self) -> None:
        """Look for the encoder."""
        h264.require_encoder()


def encoded(storage: Storage, frames: Tensor, mask: Tensor, scale: int = 1) -> Encoding:
    """What a storage makes of key-frames, which `Storage.encode` describes.

    Raises:
        ConfigError: the storage fails, or gives something else than these videos.
    """
    name, (height, width) = STORAGES.name_of(storage), frames.shape[3:]
    try:
        encoding = storage.encode(frames, mask, scale)
        wanted = frames.shape[1], height * scale, width * scale
        if not isinstance(encoding, Encoding):
            problem = f"it gives a {type(encoding).__name__}, not an Encoding"
        elif tuple(encoding.clip_shape) != wanted:
            problem = f"it gives clips of {encoding.clip_shape}, not {wanted} frames, height and width"
        else:
            problem = encoding.problem(len(frames)) or reading_problem(encoding)
    except PrismError:
        raise
    except Exception as error:
        # Somebody else's code runs here, whatever it raises.
        raise ConfigError(_unfit(name, f"{type(error).__name__}: {error}", scale)) from error
    if problem:
        raise ConfigError(_unfit(name, problem, scale))
    return encoding


def _unfit(name: str, problem: str, scale: int) -> str:
    said = f"the storage '{name}' cannot store key-frames at scale {scale}: {problem.rstrip('.')}."
    return f"{said} docs/extending.md shows one."
