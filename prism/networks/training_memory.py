"""The memory that training a network will take, known before a byte of it is allocated."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from prism.errors import ConfigError
from prism.machine.devices import give_back_freed_memory
from prism.machine.free_memory import available_memory_bytes
from prism.networks.network import Network

COPIES = 3
"""SGD with momentum keeps each weight, its gradient and its momentum."""
RECURRENT_COPIES = 2
"""Differentiating a recurrent layer adds up its gradients over time: two more copies for a moment. (Measured
on a CPU: cnn-lstm on 10 clips of 8×64×64 peaks at 10.6 GiB, where this counts 10.5 GiB.)"""


@dataclass(frozen=True)
class TrainingMemory:
    """The memory that training takes, apart from the clips and what small operations need for a moment.

    Attributes:
        num_parameters: trainable values, counted exactly.
        weight_bytes: weights, and as much again for gradients and for momentum.
        recurrent_bytes: copies of weights that the backward pass of a recurrent layer needs for a moment.
        activation_bytes: values that the forward pass of a batch keeps for the backward pass.
    """

    num_parameters: int
    weight_bytes: int
    recurrent_bytes: int
    activation_bytes: int

    @property
    def total_bytes(self) -> int:
        """Everything together."""
        return self.weight_bytes + self.recurrent_bytes + self.activation_bytes


def training_memory(network: Network, batch_size: int) -> TrainingMemory:
    """Count the memory that training takes.

    Args:
        network: on the meta device, e.g. from `build(model, "meta", …)`: nothing is computed.
        batch_size: clips per training step.
    """
    recurrent = sum(_num_bytes(module) for module in network.modules() if isinstance(module, nn.RNNBase))
    return TrainingMemory(
        network.num_parameters,
        COPIES * _num_bytes(network),
        RECURRENT_COPIES * recurrent,
        batch_size * network.kept_bytes(network.train()),
    )


def _num_bytes(module: nn.Module) -> int:
    return sum(parameter.nbytes for parameter in module.parameters())


def embedding_bytes(network: Network) -> int:
    """Bytes that embedding one clip keeps for its own gradient, which takes more than embedding alone.

    Args:
        network: on the meta device; its weights are frozen.
    """
    return network.eval().requires_grad_(False).kept_bytes(network.embed)


def check_memory(network: Network, batch_size: int, device: torch.device, *, remedy: str = "") -> TrainingMemory:
    """Refuse a training that cannot fit into memory before it starts.

    Args:
        network: on the meta device.
        batch_size: clips per training step.
        device: where it is to be trained.
        remedy: the options that the user may lower; by default the network's size and the batch.

    Returns:
        The memory that training will take.

    Raises:
        ConfigError: that is more than the device has free.
    """
    give_back_freed_memory()
    needs, free = training_memory(network, batch_size), available_memory_bytes(device)
    if free is None or needs.total_bytes <= free:
        return needs
    raise ConfigError(
        f"training {network.name} takes {gib(needs.total_bytes)}: "
        f"{gib(needs.weight_bytes + needs.recurrent_bytes)} for {needs.num_parameters:,} weights, their "
        f"gradients and momentum, {gib(needs.activation_bytes)} for a batch of {batch_size} clips. "
        f"{device.type} has {gib(free)} free. Pass a smaller {remedy or _remedy(network)}."
    )


@contextmanager
def within_memory(network: Network, *, remedy: str = "") -> Iterator[None]:
    """Say what to do where a training that was checked runs out of a GPU's memory all the same.

    A GPU takes some for its own, as for the convolutions' work, and others may use it.

    Args:
        network: what is trained.
        remedy: as in `check_memory`.

    Raises:
        ConfigError: it does.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        reason = str(error).split(". ")[0]
        raise ConfigError(
            f"training {network.name} ran out of memory ({reason}). Pass a smaller {remedy or _remedy(network)}."
        ) from None


def _remedy(network: Network) -> str:
    return f"--{network.SHRUNK_BY} or --batch-size" if network.SHRUNK_BY else "--batch-size"


def num_side_by_side(needs: TrainingMemory, device: torch.device, most: int) -> int:
    """How many such trainings fit into memory at a time, in 1..`most`; for one that was checked."""
    free = available_memory_bytes(device)
    return most if free is None else max(1, min(most, free // needs.total_bytes))


def gib(num_bytes: int) -> str:
    """As an error says it: `1.5 GiB`."""
    return f"{num_bytes / 2**30:.1f} GiB"
