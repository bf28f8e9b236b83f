"""Gradient descent with momentum: what trains networks, and what moves synthetic videos."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.sgd import sgd


class Descent:
    """Stochastic gradient descent with momentum, in place: v ← momentum · v + gradient, then x ← x − rate · v.

    PyTorch's function computes it. Its class `torch.optim.SGD` would import PyTorch's compiler when it is made,
    which takes a second of every command.

    Args:
        groups: leaves, each of them once; those of a group move at one rate.
        momentum: at least 0 and below 1.
        weight_decay: multiple of x that is added to its gradient.

    Attributes:
        velocities: v of each tensor, from its first step on.

    Raises:
        ValueError: a tensor could not be moved, or would be moved twice.
    """

    def __init__(self, groups: Sequence[Sequence[Tensor]], momentum: float, weight_decay: float = 0.0) -> None:
        tensors = [tensor for group in groups for tensor in group]
        if not all(tensor.is_leaf for tensor in tensors) or len({*tensors}) < len(tensors):
            raise ValueError("what is trained must be leaves, and each of them once.")
        self.groups = groups
        self.momentum, self.weight_decay = momentum, weight_decay
        self.velocities: dict[Tensor, Tensor] = {}

    def forget(self) -> None:
        """Drop the gradients. A tensor without one rests: its momentum does not move it."""
        for group in self.groups:
            for tensor in group:
                tensor.grad = None

    @torch.no_grad()
    def step(self, rates: Sequence[float]) -> None:
        """Move every tensor that has a gradient, at the rate of its group."""
        for group, rate in zip(self.groups, rates, strict=True):
            moved = [(tensor, tensor.grad) for tensor in group if tensor.grad is not None]
            tensors, gradients = [tensor for tensor, _ in moved], [gradient for _, gradient in moved]
            velocities = [self.velocities.get(tensor) for tensor in tensors]
            sgd(
                *(tensors, gradients, velocities),
                weight_decay=self.weight_decay, momentum=self.momentum, lr=rate,
                dampening=0.0, nesterov=False, maximize=False,
            )  # fmt: skip
            found = zip(tensors, velocities, strict=True)
            self.velocities |= {tensor: velocity for tensor, velocity in found if velocity is not None}
