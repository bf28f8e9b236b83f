"""How far a step may go: the largest curvature of the loss, which bounds the learning rate of any size of videos.

The loss sums over the features of an embedding, and a clip's pixels reach them through everything in between: the
resolution of its key-frames, the width of the network, the number of videos whose mean is matched. So a learning
rate that fits one setting fits no other. The curvature takes all of that in: gradient descent on a quadratic with
the largest curvature λ diverges from a rate of 2/λ on.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from prism.machine.randomness import generator

STEPS = 8
"""Networks that are asked, each by one step of a power iteration."""
AVERAGED = 4
"""The last steps, over whose estimates the mean is taken."""
REACH = 0.01
"""Length of the step over which a gradient's change is measured, as a share of the videos' norm."""


@torch.no_grad()
def largest_curvature(tensors: list[Tensor], gradients: Callable[[int], list[Tensor]], seed: int) -> float:
    """The largest curvature of a loss, by a power iteration on differences of gradients.

    Every step has a network of its own: their dominant directions are about the same, and the estimate is one for
    all of them.

    Args:
        tensors: what is trained; moved meanwhile, and put back.
        gradients: those of the loss of an iteration with respect to the tensors as they are.
        seed: of the direction that it begins with.

    Returns:
        λ, the mean over the last steps; 0 where the loss does not depend on the tensors.
    """
    before = [tensor.clone() for tensor in tensors]
    draw = generator(seed, "curvature")
    direction = [torch.randn(tensor.shape, generator=draw).to(tensor.device) for tensor in tensors]
    reach, estimates = REACH * max(_norm(before), 1e-6), []
    for step in range(STEPS):
        if (length := _norm(direction)) == 0:
            return 0.0
        here = gradients(step)
        for tensor, old, way in zip(tensors, before, direction, strict=True):
            tensor.copy_(old + reach / length * way)
        there = gradients(step)
        for tensor, old in zip(tensors, before, strict=True):
            tensor.copy_(old)
        direction = [(b - a) / reach for a, b in zip(here, there, strict=True)]
        estimates.append(_norm(direction))
    return sum(estimates[-AVERAGED:]) / AVERAGED


def _norm(tensors: list[Tensor]) -> float:
    return float(torch.stack([tensor.double().square().sum() for tensor in tensors]).sum().sqrt())
