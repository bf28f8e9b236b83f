"""Dropout whose randomness is a parameter, like all randomness here."""

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Dropout that draws from its own generator, so that training depends on nothing but its seed."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Zero each value with the given probability and scale the others up, while training."""
        if not self.training:
            return x
        kept = torch.rand(x.shape, generator=self.generator, device=x.device) >= self.probability
        return x * kept / (1 - self.probability)


def use_generator(network: nn.Module, generator: torch.Generator) -> None:
    """Let every dropout of a network draw from `generator`."""
    for module in network.modules():
        if isinstance(module, Dropout):
            module.generator = generator
