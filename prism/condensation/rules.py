"""Insertion rules: which interpolated frames become key-frames (paper, section 3.2).

Every rule judges the gradients g_t of the class loss with respect to the frames of the rendered clip.
All that it needs of them are their inner products, one (T, T) Gram matrix for each video:

- reading `slot`: a key-frame's gradient is g_k, that of its own frame;
- reading `parameter`: it is p_k = Σ_t weights[t, k] g_t, what the optimiser sees.

Both follow from the Gram matrix alone. A rule only proposes; the loop inserts. All frames of an
iteration are judged against the key-frames as they stood, so proposals do not influence each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from prism.artifacts.keyframes import interpolation_weights, neighbours
from prism.condensation.budget import best_first
from prism.condensation.options import CondenseConfig


@dataclass(frozen=True)
class Conflict:
    """How the gradient of each frame relates to those of the key-frames around it.

    Attributes:
        mask: (V, T) bool, the key-frames as they stand.
        products: (V, T, 2) inner products with the key-frame before and after.
        energy: (V, T) squared norm of each frame's gradient.
        anchor_energy: (V, T, 2) squared norm of the gradient of the key-frame before and after.
    """

    mask: Tensor
    products: Tensor
    energy: Tensor
    anchor_energy: Tensor

    @classmethod
    def measure(cls, gradients: Tensor, mask: Tensor, reading: str) -> "Conflict":
        """Compare gradients with their neighbouring key-frames'.

        Args:
            gradients: (V, T, C, H, W) of the loss with respect to the rendered clips.
            mask: (V, T) bool, True at key-frames.
            reading: `slot` or `parameter`.
        """
        flat = gradients.flatten(2)
        gram = torch.bmm(flat, flat.transpose(1, 2))
        if reading == "parameter":
            weights = interpolation_weights(mask, gram.dtype)
            with_anchors = torch.bmm(gram, weights)
            of_anchors = (weights * with_anchors).sum(dim=1)
        else:
            with_anchors, of_anchors = gram, gram.diagonal(dim1=1, dim2=2)
        around = torch.stack(neighbours(mask), dim=2)
        return cls(
            mask,
            with_anchors.gather(2, around),
            gram.diagonal(dim1=1, dim2=2),
            of_anchors.unsqueeze(2).expand(-1, -1, 2).gather(1, around),
        )

    @cached_property
    def cosines(self) -> Tensor:
        """(V, T, 2) cosines with the key-frame before and after (equations 4 and 5); 0 for a zero gradient."""
        # A root of each energy, not of their product, which leaves the range of float32 too soon.
        norms = self.energy.clamp(min=0).sqrt().unsqueeze(2) * self.anchor_energy.clamp(min=0).sqrt()
        return self.products / norms.clamp(min=torch.finfo(norms.dtype).tiny)


@dataclass(frozen=True)
class Occasion:
    """What a rule may look at.

    Attributes:
        gradients: (V, T, C, H, W) of the loss with respect to the rendered clips, grouped by class.
        conflict: what they say of the key-frames as they stand.
        epsilon: threshold ε of the cosines.
        num_classes: V is a multiple of it.
        allowed: key-frames that a class may have after this iteration.
        generator: for a rule that draws.
    """

    gradients: Tensor
    conflict: Conflict
    epsilon: float
    num_classes: int
    allowed: int
    generator: torch.Generator


Rule = Callable[[Occasion], Tensor]


def gradient_conflict(occasion: Occasion) -> Tensor:
    """Frames whose cosines with both neighbours are below ε (paper, equation 6)."""
    conflict = occasion.conflict
    return (conflict.cosines < occasion.epsilon).all(dim=2) & ~conflict.mask


def never(occasion: Occasion) -> Tensor:
    """No frame (paper, ablation A)."""
    return torch.zeros_like(occasion.conflict.mask)


def random_positions(occasion: Occasion) -> Tensor:
    """As many frames of each video as `gradient_conflict` proposes, at random places (paper, ablation B)."""
    mask, generator = occasion.conflict.mask, occasion.generator
    count = gradient_conflict(occasion).sum(dim=1, keepdim=True)
    draw = torch.rand(mask.shape, generator=generator, device=generator.device).to(mask.device)
    rank = torch.where(mask, 2.0, draw).argsort(dim=1).argsort(dim=1)
    return (rank < count) & ~mask


def l2_distance(occasion: Occasion) -> Tensor:
    """Frames whose gradient is far from both neighbours' (paper, ablation C).

    Far is √(2(1 − ε)) times the video's root mean square gradient: for gradients of equal norm that is
    exactly a cosine below ε.
    """
    conflict, epsilon = occasion.conflict, occasion.epsilon
    distance = conflict.energy.unsqueeze(2) + conflict.anchor_energy - 2 * conflict.products
    threshold = 2 * (1 - epsilon) * conflict.energy.mean(dim=1)
    return (distance > threshold[:, None, None]).all(dim=2) & ~conflict.mask


def largest_gain(occasion: Occasion) -> Tensor:
    """The frames that lower the loss most, as far as the budget goes (docs/method.md)."""
    return best_first(occasion.gradients, occasion.conflict.mask, occasion.num_classes, occasion.allowed)


RULES: dict[str, Rule] = {
    "gradient": gradient_conflict,
    "never": never,
    "random": random_positions,
    "l2": l2_distance,
    "budget": largest_gain,
}


def inserts_at(iteration: int, config: CondenseConfig) -> bool:
    """Whether insertion is on: after the warm-up and before the cool-down (paper, section 3.3)."""
    first, last = config.insertion_span
    return config.insertion != "never" and first <= iteration < last
