"""Format: how the videos of a set are written for other tools, and the loss of its readers."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from prism.artifacts.clips import num_clipped
from prism.artifacts.condensed import CondensedSet

Shown = tuple[Tensor, Tensor]
"""A clip (T, 3, H, W) as the set renders it, float32 in units of [0, 1], and as readers of the export see it."""


@dataclass
class Loss:
    """Distance of the clips that readers see from those of the set, as sums over all values."""

    num_values: int = 0
    num_outside: int = 0
    squares: float = 0.0

    def add(self, clip: Tensor, shown: Tensor) -> None:
        """Compare a clip with what readers see of it."""
        self.num_values += clip.numel()
        self.num_outside += num_clipped(clip)
        self.squares += float((clip - shown).double().square().sum())

    @property
    def psnr(self) -> float:
        """Peak signal-to-noise ratio in dB, of a peak of 1; infinite where nothing is lost."""
        error = self.squares / max(1, self.num_values)
        # Half a level in one pixel of a million is more than this, the error of float32 arithmetic less.
        return math.inf if error < 1e-12 else -10 * math.log10(error)

    def __str__(self) -> str:
        if self.psnr == math.inf:
            return "Nothing is lost."
        said, share = f"The PSNR to the clips of the set is {self.psnr:.1f} dB", self.num_outside / self.num_values
        return f"{said}; {share:.2%} of these values lie outside 0..1 and are clipped." if share else f"{said}."


class Format(ABC):
    """Base of all export formats. This custom one keeps every video as a NumPy file:

        @dataclass(frozen=True)
        class Arrays(Format):
            def write(self, condensed, path):
                for video in range(len(condensed)):
                    clip = condensed.render(torch.tensor([video]))[0]
                    np.save(path / f"{video}.npy", clip.numpy())
                    yield clip, clip

        prism.export(condensed, "arrays", to=Arrays())

    Its fields are its options; `fps`, `quality` and `lossless` are those of the verb. On the command line it is
    `--to mymodule:Arrays`.

    Attributes:
        is_folder: whether it fills a folder or writes one file.
        data_files: patterns of the files in the folder that Hugging Face's `datasets` reads.
    """

    is_folder: ClassVar[bool] = True
    data_files: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        """Write the videos of a set.

        Args:
            condensed: the set; every take is a video of its own (`CondensedSet.apart`).
            path: an empty folder, or where `is_folder` is false the file to write.

        Yields:
            For each video its clip, and what a reader will see, from which the loss is measured; nothing for a
            picture that is only to be looked at.
        """
