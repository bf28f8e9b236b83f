"""Initial values of networks, drawn from a given generator: by PyTorch's distributions, or a layer's own."""

import copy
import math

import torch
from torch import nn

from prism.errors import ConfigError


@torch.no_grad()
def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Draw fresh initial values of a network in place; running statistics of normalisation layers start anew.

    A layer with a method `initialise(generator)` draws its own values, PyTorch's layers have PyTorch's
    distributions; a ConfigError for any other layer with values, as for one that draws in `reset_parameters()`.
    The generator is on the CPU: a GPU's numbers depend on how many cores it has.
    """
    if any(value.device.type != "cpu" for value in _held(network)):
        drawn = pinned_copy(network)
        initialise(drawn, generator)
        copy_values(drawn, network)
        return
    layers: list[nn.Module] = []
    network.apply(layers.append)  # Modules come after those inside them; one that is shared comes more than once.
    for layer in dict.fromkeys(layers):
        if callable(own := getattr(layer, "initialise", None)):
            own(generator)
        elif [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]:
            _fill(layer, generator)


def pinned_copy(network: nn.Module) -> nn.Module:
    """A network of the same kind without values, in memory from which a GPU copies while it computes."""
    memory = {id(value): torch.empty(value.shape, dtype=value.dtype, pin_memory=True) for value in _held(network)}
    memory |= {id(one): nn.Parameter(memory[id(one)], one.requires_grad) for one in network.parameters()}
    return copy.deepcopy(network, memory)


@torch.no_grad()
def copy_values(source: nn.Module, target: nn.Module) -> None:
    """Copy all values of a network into another of its kind, those that a state dict leaves out included."""
    for value, given in zip(_held(target), _held(source), strict=True):
        value.copy_(given, non_blocking=True)


def values_of(network: nn.Module) -> torch.Tensor:
    """All values of a network, buffers included, as one float32 vector (P,) on the CPU."""
    return torch.cat([value.detach().flatten().float().cpu() for value in _held(network)])


@torch.no_grad()
def set_values(network: nn.Module, values: torch.Tensor) -> None:
    """Give a network the values (P,) that `values_of` took from another of its kind."""
    held = _held(network)
    for value, given in zip(held, values.split([value.numel() for value in held]), strict=True):
        value.copy_(given.view(value.shape))


def lay_out(network: nn.Module, layout: torch.memory_format) -> None:
    """Set the memory layout of the weights of 3D convolutions, whose outputs then have the same layout."""
    for weight in network.parameters():
        if weight.dim() == 5:
            weight.data = weight.data.to(memory_format=layout)


def _held(network: nn.Module) -> list[torch.Tensor]:
    return [*network.parameters(), *network.buffers()]


def _fill(layer: nn.Module, generator: torch.Generator) -> None:
    """Draw the values of a PyTorch layer like its `reset_parameters`, which uses the global generator."""
    match layer:
        case nn.modules.batchnorm._NormBase() | nn.GroupNorm() | nn.LayerNorm() | nn.RMSNorm() | nn.PReLU():
            # Scale one, shift zero, no statistics yet, the slope of PReLU: nothing random.
            layer.reset_parameters()
        case nn.Module(reset_parameters=reset) if not reset.__module__.startswith("torch."):
            said = f"the layer {type(layer).__name__} draws its values in reset_parameters()"
            raise ConfigError(f"{said}, which no seed repeats. Give it a method initialise(generator) instead.")
        case nn.Linear() | nn.modules.conv._ConvNd():
            _uniform(layer, layer.weight[0].numel(), generator)
        case nn.Bilinear(in1_features=fan) | nn.RNNBase(hidden_size=fan) | nn.RNNCellBase(hidden_size=fan):
            _uniform(layer, fan, generator)
        case nn.Embedding() | nn.EmbeddingBag():
            layer.weight.normal_(generator=generator)
            if layer.padding_idx is not None:
                layer.weight[layer.padding_idx] = 0
        case nn.MultiheadAttention():
            # Its output layer was filled before, as any linear one, and gets a bias of zero here.
            for name, value in layer.named_parameters():
                if name in ("bias_k", "bias_v"):
                    nn.init.xavier_normal_(value, generator=generator)
                elif name.endswith("bias"):
                    nn.init.zeros_(value)
                elif not name.startswith("out_proj"):
                    nn.init.xavier_uniform_(value, generator=generator)
        case _:
            remedy = "Give it a method initialise(generator)."
            raise ConfigError(f"no initial values are known for the layer {type(layer).__name__}. {remedy}")


def _uniform(layer: nn.Module, fan: int, generator: torch.Generator) -> None:
    bound = 1 / math.sqrt(fan)
    for parameter in layer.parameters(recurse=False):
        # In the order of the indices, however the parameter lies in memory: a layout changes no draw.
        values = torch.empty_like(parameter, memory_format=torch.contiguous_format)
        parameter.copy_(values.uniform_(-bound, bound, generator=generator))
