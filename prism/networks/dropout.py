"""Dropout whose randomness is a parameter, like all randomness here."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from prism.errors import ConfigError


@runtime_checkable
class Drawing(Protocol):
    """A layer that draws numbers while it trains, from a generator that training sets."""

    generator: torch.Generator | None


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
    """Let every layer of a network that draws while it trains draw from `generator`.

    Raises:
        ConfigError: one of PyTorch's own would draw from its global generator, so that no seed repeats a training.
    """
    for module in network.modules():
        match module:
            case Drawing():
                module.generator = generator
            case (
                nn.modules.dropout._DropoutNd(p=rate)
                | nn.RNNBase(dropout=rate)
                | nn.MultiheadAttention(dropout=rate)
            ) if rate > 0:
                raise ConfigError(
                    f"dropout = {rate} of the layer {type(module).__name__} does not depend on the seed. "
                    "Set it to 0, or use prism.networks.dropout.Dropout."
                )
            case nn.RReLU() | nn.FractionalMaxPool2d() | nn.FractionalMaxPool3d():
                raise ConfigError(f"what the layer {type(module).__name__} draws does not depend on the seed.")
