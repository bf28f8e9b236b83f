"""Largest curvature of a loss, of which a relative learning rate is a share.

A loss sums over the features of an embedding, so its scale goes with the network, the size of the key-frames and
the number of videos. Its largest curvature λ takes all of that in: gradient descent on a quadratic diverges from a
rate of 2/λ on.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from prism.machine.devices import deterministic
from prism.machine.randomness import generator

NUM_PROBES, POWER_STEPS = 3, 4
"""Networks under which it is measured, each with steep directions of its own, and steps of the power iteration."""
REACH = 0.01
"""Length of the step over which a gradient's change is measured, as a share of the videos' norm."""


@torch.no_grad()
def largest_curvature(tensors: list[Tensor], gradients: Callable[[int], list[Tensor]], seed: int) -> float:
    """The largest curvature λ of a loss, by power iterations on differences of gradients.

    `gradients(step)` are those under network `step` with respect to the tensors, which are moved and put back. λ
    is the mean over the networks under which the loss depends on them; 0 where it does under none.
    """
    before = [tensor.clone() for tensor in tensors]
    reach, found = REACH * max(_norm(before), 1e-6), []
    for network in range(NUM_PROBES):
        draw = generator(seed, "curvature", network)
        direction = [torch.randn(tensor.shape, generator=draw).to(tensor.device) for tensor in tensors]
        here = gradients(network)
        for _ in range(POWER_STEPS):
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
        # In float64, without a copy that has it.
        kinds = (torch.promote_types(tensor.dtype, torch.float64) for tensor in tensors)
        norms = (torch.linalg.vector_norm(t.detach(), dtype=kind) for t, kind in zip(tensors, kinds, strict=True))
        return math.hypot(*map(float, norms))
