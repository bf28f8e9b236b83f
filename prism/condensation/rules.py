"""Insertion rules: which interpolated frames become key-frames (paper, section 3.2).

A rule scores the gradients g_t of the class loss with respect to the frames of the rendered clip, all against the
key-frames as they stand. It only proposes; the loop inserts.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from prism.artifacts.keyframes import neighbours
from prism.machine.devices import send


@dataclass(frozen=True)
class Conflict:
    """Relation of the gradient of each frame to the gradients of the key-frames around it.

    Attributes:
        products: (V, T, 2) inner products with the key-frame before and after.
        energy: (V, T) squared norm of each frame's gradient.
        anchor_energy: (V, T, 2) squared norm of the gradient of the key-frame before and after.
    """

    products: Tensor
    energy: Tensor
    anchor_energy: Tensor

    @classmethod
    def measure(cls, gradients: Tensor, mask: Tensor) -> "Conflict":
        """The relation for gradients (V, T, C, H, W) of clips and a mask (V, T) of key-frames."""
        flat = gradients.flatten(2)
        gram = torch.bmm(flat, flat.transpose(1, 2))
        energy = gram.diagonal(dim1=1, dim2=2)
        around = torch.stack(neighbours(mask), dim=2)
        return cls(gram.gather(2, around), energy, energy.unsqueeze(2).expand(-1, -1, 2).gather(1, around))

    @cached_property
    def cosines(self) -> Tensor:
        """(V, T, 2) cosines with the key-frame before and after (equations 4 and 5); 0 for a zero gradient."""
        # A root of each energy, not of their product, which leaves the range of float32 too soon.
        norms = self.energy.sqrt().unsqueeze(2) * self.anchor_energy.sqrt()
        return self.products / norms.clamp(min=torch.finfo(norms.dtype).tiny)


@dataclass(frozen=True)
class InsertionState:
    """The state of an iteration from which a rule proposes frames.

    Attributes:
        gradients: (V, T, C, h, w) of the loss with respect to the clips, by class, reduced to key-frame size.
        mask: (V, T) bool, True at the frames that are key-frames already; a copy, which a rule may change.
        conflict: inner products and cosines of each frame's gradient with its key-frames' before and after.
        iteration: counted from 0, after those of `Method.preparation`.
        num_iterations: `config.iterations`, without those of `Method.preparation`.
        generator: of this iteration, on the CPU, for a rule that draws.
    """

    gradients: Tensor
    mask: Tensor
    conflict: Conflict
    iteration: int
    num_iterations: int
    generator: torch.Generator


class InsertionRule(ABC):
    """Choice of the frames that become key-frames; the base of custom rules. Its fields are its options.

    Attributes:
        inserts: False for a rule that never proposes a frame, so that nothing is measured for it.
        independent_classes: True promises that every video is scored by itself, and that a rule that draws draws
            one `torch.rand` of the mask's shape. Then the classes can be condensed on many machines.
    """

    inserts: ClassVar[bool] = True
    independent_classes: ClassVar[bool] = False

    @abstractmethod
    def propose(self, state: InsertionState) -> Tensor:
        """The frames to insert now, (V, T) bool on the device of the mask; key-frames among them are ignored."""


class Never(InsertionRule):
    """No frame (paper, ablation A)."""

    inserts = False
    independent_classes = True

    def propose(self, state: InsertionState) -> Tensor:
        return torch.zeros_like(state.mask)


@dataclass(frozen=True)
class GradientConflict(InsertionRule):
    """Frames whose cosines with both neighbours are below ε (paper, equation 6)."""

    epsilon: float = 0.0
    independent_classes = True

    def propose(self, state: InsertionState) -> Tensor:
        return (state.conflict.cosines < self.epsilon).all(dim=2) & ~state.mask


class RandomPositions(GradientConflict):
    """Random frames, as many of each video as `GradientConflict` proposes (paper, ablation B)."""

    def propose(self, state: InsertionState) -> Tensor:
        count = super().propose(state).sum(dim=1, keepdim=True)
        draw = send(torch.rand(state.mask.shape, generator=state.generator), state.mask.device)
        rank = torch.where(state.mask, 2.0, draw).argsort(dim=1).argsort(dim=1)
        return (rank < count) & ~state.mask


@dataclass(frozen=True)
class L2Distance(InsertionRule):
    """Frames whose gradient is far from both neighbours' (paper, ablation C).

    A distance is far above √(2(1 − ε)) times the root mean square of the gradient norms in the video: for
    gradients of equal norm this is exactly a cosine below ε.
    """

    epsilon: float = 0.0
    independent_classes = True

    def propose(self, state: InsertionState) -> Tensor:
        conflict = state.conflict
        distance = conflict.energy.unsqueeze(2) + conflict.anchor_energy - 2 * conflict.products
        threshold = 2 * (1 - self.epsilon) * conflict.energy.mean(dim=1)
        return (distance > threshold[:, None, None]).all(dim=2) & ~state.mask
