"""Initial values: PyTorch's own where a layer has no others, drawn from a generator that the caller names."""

import math

import torch
from torch import nn

from prism.networks.residual import HeConv3d


@torch.no_grad()
def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Give a network the initial values it is published with, drawn from `generator`, in place.

    Nothing of what it was before is left, running statistics of normalisation layers included.
    """
    for module in network.modules():
        if isinstance(module, HeConv3d):
            module.reset_parameters(generator)
        elif isinstance(module, nn.Conv2d | nn.Conv3d | nn.Linear):
            _fill(module, 1 / math.sqrt(module.weight[0].numel()), generator)
        elif isinstance(module, nn.RNNBase):
            _fill(module, 1 / math.sqrt(module.hidden_size), generator)
        elif isinstance(module, nn.GroupNorm | nn.BatchNorm3d):
            # Scale one, shift zero, no statistics yet: nothing random.
            module.reset_parameters()
        elif any(True for _ in module.parameters(recurse=False)):
            raise NotImplementedError(f"no initial values are known for {type(module).__name__}")


def _fill(module: nn.Module, bound: float, generator: torch.Generator) -> None:
    for parameter in module.parameters(recurse=False):
        # In the order of the indices, however the parameter lies in memory: a layout changes no draw.
        values = torch.empty_like(parameter, memory_format=torch.contiguous_format)
        parameter.copy_(values.uniform_(-bound, bound, generator=generator))
