"""What an export format is, and the folder that it may fill."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prism.artifacts.condensed import CondensedSet

Shown = tuple[Tensor, Tensor]
"""A clip (T, 3, H, W) as the set renders it, float32 in units of [0, 1], and as readers of the export see it."""


class Format(ABC):
    """Base of all export formats: how the videos of a set are written for other tools.

    Write one for a tool that wants its own files. This one keeps every video as a NumPy file:

        @dataclass(frozen=True)
        class Arrays(Format):
            def write(self, condensed, path):
                for video in range(len(condensed)):
                    clip = condensed.render(torch.tensor([video]))[0]
                    np.save(path / f"{video}.npy", clip.numpy())
                    yield clip, clip

        prism.export(condensed, "arrays", to=Arrays())

    Its fields are its options; `fps`, `quality`, `lossless`, `shard_videos` and `video` are those of the verb. On
    the command line it is `--to mymodule:Arrays`.

    Attributes:
        is_folder: whether it fills a folder, which gets a card, or writes one file.
        data_files: patterns of the files in the folder that hold the data, for the card; none where `datasets` of
            Hugging Face does not read the format.
        reading: a program that reads the folder, for the card; FOLDER stands for it.
    """

    is_folder: ClassVar[bool] = True
    data_files: ClassVar[tuple[str, ...]] = ()
    reading: ClassVar[str] = ""

    def check(self, condensed: CondensedSet) -> None:  # noqa: B027
        """Refuse a set that cannot be written, before anything is.

        Raises:
            ConfigError: this set does not fit the format.
        """

    @abstractmethod
    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        """Write the videos of a set.

        Args:
            condensed: the set; every take is a video of its own (`CondensedSet.apart`).
            path: an empty folder, or where `is_folder` is false the file to write.

        Yields:
            For each video that is written its clip, and what a reader will see. From the two the loss is
            measured. A picture that is only to be looked at yields nothing.

        Raises:
            CondensedError: compressed images are not what the set says of them.
            OutputError: a file cannot be written, or the disk is full.
        """


def as_levels(clip: Tensor) -> NDArray[np.uint8]:
    """A clip (T, 3, H, W) in units of [0, 1] as 8-bit pixels (T, H, W, 3); what lies outside is clipped."""
    return clip.clamp(0, 1).mul(255).round().byte().permute(0, 2, 3, 1).numpy()
