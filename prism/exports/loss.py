"""The loss of an export: how far the clips that its readers see are from those of the set."""

import math
from dataclasses import dataclass

from torch import Tensor

HALF_LEVEL = 1 / 510
"""Half a step of 8-bit pixels, in units of [0, 1]: rounding in storage is no reason to speak of clipping."""
ROUNDING = 1e-12
"""A mean squared error below is that of float32 arithmetic: half a level in one pixel of a million is more."""


@dataclass
class Loss:
    """Sums over all values that were compared."""

    num_values: int = 0
    num_outside: int = 0
    squares: float = 0.0

    def add(self, clip: Tensor, shown: Tensor) -> None:
        """Compare a clip with what readers see of it, both (T, 3, H, W) in units of [0, 1]."""
        self.num_values += clip.numel()
        self.num_outside += int(((clip < -HALF_LEVEL) | (clip > 1 + HALF_LEVEL)).sum())
        self.squares += float((clip - shown).double().square().sum())

    @property
    def psnr(self) -> float:
        """Peak signal-to-noise ratio in dB, of a peak of 1; infinite where nothing is lost."""
        error = self.squares / max(1, self.num_values)
        return math.inf if error < ROUNDING else -10 * math.log10(error)

    @property
    def share_outside(self) -> float:
        """Share of the set's values that lie outside [0, 1], in 0..1."""
        return self.num_outside / max(1, self.num_values)

    def __str__(self) -> str:
        if self.psnr == math.inf:
            return "Nothing is lost."
        said = f"The PSNR to the clips of the set is {self.psnr:.1f} dB"
        if self.num_outside:
            said += f"; {100 * self.share_outside:.2g} % of these values lie outside 0..1 and are clipped"
        return f"{said}."
