"""Gradient descent with momentum, of networks and of synthetic videos."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.sgd import sgd


class SGD:
    """Stochastic gradient descent with momentum, in place: v ← momentum · v + gradient, then x ← x − rate · v.

    A group moves at one rate; `weight_decay` · x is added to the gradient of x. `momentum_buffers` keeps each v.
    """

    # `torch.optim.SGD` would import PyTorch's compiler, which takes a second of every command.
    def __init__(self, groups: Sequence[Sequence[Tensor]], momentum: float, weight_decay: float = 0.0) -> None:
        self.groups, self.momentum, self.weight_decay = groups, momentum, weight_decay
        self.momentum_buffers: dict[Tensor, Tensor] = {}

    def zero_grad(self) -> None:
        """Drop all gradients. A tensor without one stays where it is, whatever its momentum."""
        for group in self.groups:
            for tensor in group:
                tensor.grad = None

    @torch.no_grad()
    def step(self, rates: Sequence[float]) -> None:
        """Move every tensor that has a gradient, at the rate of its group."""
        for group, rate in zip(self.groups, rates, strict=True):
            tensors = [tensor for tensor in group if tensor.grad is not None]
            gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
            buffers = [self.momentum_buffers.get(tensor) for tensor in tensors]
            sgd(
                *(tensors, gradients, buffers), weight_decay=self.weight_decay, momentum=self.momentum, lr=rate,
                dampening=0.0, nesterov=False, maximize=False,
            )  # fmt: skip
            self.momentum_buffers |= {x: v for x, v in zip(tensors, buffers, strict=True) if v is not None}
