"""How far a step may go: the largest curvature of the loss, which bounds the learning rate of any size of videos.

The loss sums over the features of an embedding, and a clip's pixels reach them through everything in between: the
resolution of its key-frames, the width of the network, the number of videos whose mean is matched. So a learning
rate that fits one setting fits no other. The curvature takes all of that in: gradient descent on a quadratic with
the largest curvature λ diverges from a rate of 2/λ on.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from prism.machine.devices import deterministic
from prism.machine.randomness import generator

PROBED = 10
"""Classes on which it is measured, at most, where classes are independent."""
NUM_NETWORKS = 3
"""Networks that are asked. Each has steep directions of its own: one direction for all of them would be less steep
than any of theirs, the more so the more pixels a clip has."""
STEPS = 4
"""Steps of the power iteration under each network."""
REACH = 0.01
"""Length of the step over which a gradient's change is measured, as a share of the videos' norm."""


@torch.no_grad()
def largest_curvature(tensors: list[Tensor], gradients: Callable[[int], list[Tensor]], seed: int) -> float:
    """The largest curvature of a loss under one network, by power iterations on differences of gradients.

    Args:
        tensors: what is trained; moved meanwhile, and put back.
        gradients: those of the loss of an iteration, given by its number, with respect to the tensors as they are.
        seed: of the directions that it begins with.

    Returns:
        λ, the mean over the networks under which the loss depends on the tensors; 0 where it does under none.
    """
    before = [tensor.clone() for tensor in tensors]
    reach, found = REACH * max(_norm(before), 1e-6), []
    for network in range(NUM_NETWORKS):
        draw = generator(seed, "curvature", network)
        direction = [torch.randn(tensor.shape, generator=draw).to(tensor.device) for tensor in tensors]
        here = gradients(network)
        for _ in range(STEPS):
            if (length := _norm(direction)) == 0:
                break
            for tensor, old in zip(tensors, before, strict=True):
                # Each is freed once it is used: of whole key-frames a direction is as large as the videos.
                torch.add(old, direction.pop(0), alpha=reach / length, out=tensor)
            direction = [(b - a) / reach for a, b in zip(here, gradients(network), strict=True)]
        for tensor, old in zip(tensors, before, strict=True):
            tensor.copy_(old)
        # Under a dead network, which embeds all clips alike, the loss is flat.
        if curvature := _norm(direction):
            found.append(curvature)
    return sum(found) / len(found) if found else 0.0


def _norm(tensors: list[Tensor]) -> float:
    with deterministic(tensors[0].device):
        return math.hypot(*(_norm_of(tensor) for tensor in tensors))


def _norm_of(tensor: Tensor) -> float:
    """In float64, without a copy that has it."""
    return float(torch.linalg.vector_norm(tensor.detach(), dtype=torch.promote_types(tensor.dtype, torch.float64)))
