"""Objectives: how the real and the synthetic clips of a class compare (paper, section 3.4)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from prism.artifacts.store import ClipStore
from prism.condensation.ahead import ClassMeans, keep_ahead
from prism.condensation.chunk import Chunk, threads_for
from prism.condensation.class_means import View, between_class_energy
from prism.condensation.options import CondenseConfig
from prism.condensation.stream import DrawnNetwork, NetworkStream, Numbers
from prism.machine.run import Run
from prism.networks.network import Network


@dataclass(frozen=True)
class Compared:
    """What an objective says of the synthetic clips of an iteration.

    Attributes:
        losses: (C,) one for each class; the telemetry has their sum.
        gradients: of that sum with respect to the clips, of the same shape and number format.
        recorded: further numbers for the telemetry; those in a tensor are read together with the loss, so that a
            GPU is waited for once. `between_class` is the energy between the classes, which the page draws beside
            the loss. Where classes are condensed apart, nobody knows how to join these numbers: they are left out.
    """

    losses: Tensor
    gradients: Tensor
    recorded: dict[str, Any] = field(default_factory=dict)


class Compare(Protocol):
    """An objective at work on one data set."""

    def __call__(self, clips: Tensor, iteration: int, generator: torch.Generator, view: View) -> Compared:
        """Compare the synthetic clips of an iteration with real ones.

        Args:
            clips: (V, T, C, H, W) normalised synthetic clips, grouped by class, equally many of each. They are not
                to be changed.
            iteration: counted from 0. What it draws must depend on nothing else, so that a run can be resumed.
            generator: randomness of this iteration.
            view: how real clips are to be shown: whole, or as held frames.
        """
        ...


class Objective(ABC):
    """How real and synthetic clips compare; the base of your own.

    An objective is a value: its fields are its options. `start` prepares it for one data set, and returns the
    function that the loop calls in every iteration.

    Attributes:
        independent_classes: whether the loss of a class depends on the clips of that class only. Then the classes
            can be condensed on many machines.
    """

    independent_classes: ClassVar[bool] = True

    @abstractmethod
    def start(self, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range) -> Compare:
        """The comparison with the training clips of a store.

        Args:
            store: the data set.
            config: the options of the run.
            device: where networks run.
            classes: the labels that are condensed.
        """

    def ahead(self, store: ClipStore, config: CondenseConfig, run: Run) -> None:  # noqa: B027
        """Compute and keep, before the first iteration, what later runs can share; by default nothing."""


@dataclass(frozen=True)
class DistributionMatching(Objective):
    """The squared distance between the mean embeddings of each class under random networks (paper, equation 8)."""

    def start(self, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range) -> Compare:
        """A network of its own for every iteration, from a stream that all sets share."""
        drawn, numbers = DrawnNetwork(NetworkStream(store, config), device), Numbers(config)
        means = ClassMeans(drawn, classes)
        chunk = Chunk.on(device, min(len(classes), threads_for(device)))

        def compare(clips: Tensor, iteration: int, generator: torch.Generator, view: View) -> Compared:
            number = numbers.of(iteration)
            drawn.draw(number)
            real = means.of(number, view)
            losses, gradients = match(drawn.network, real, clips, squared_distance, chunk=chunk)
            is_whole = len(classes) == len(store.classes)
            return Compared(losses, gradients, {"between_class": between_class_energy(real) if is_whole else None})

        return compare

    def ahead(self, store: ClipStore, config: CondenseConfig, run: Run) -> None:
        """The class means of the networks of all iterations, which are kept in the store."""
        keep_ahead(NetworkStream(store, config), Numbers(config).needs(), run)


def squared_distance(real: Tensor, syn: Tensor) -> Tensor:
    """Squared distance between the mean embeddings of each class (paper, equation 8).

    Args:
        real: (C, D) mean embedding of the real clips of each class.
        syn: (C, D) mean embedding of its synthetic clips.

    Returns:
        (C,) losses; their sum is minimised.
    """
    return (real - syn).square().sum(dim=1)


def match(
    network: Network, real: Tensor, clips: Tensor, loss_of: Callable[[Tensor, Tensor], Tensor], *, chunk: Chunk
) -> tuple[Tensor, Tensor]:
    """Compare the class means of synthetic clips with those of real ones.

    The loss of a class needs all its clips, and no other's, so classes go through the network apart.

    Args:
        network: the same random network that embedded the real clips.
        real: (C, D) from `real_class_means`.
        clips: (V, T, C, H, W) normalised synthetic clips, grouped by class, V / C for each.
        loss_of: the losses (C,) of real and synthetic means (C, D).
        chunk: clips that go through the network together.

    Returns:
        (C,) losses, and the gradient of their sum with respect to `clips`, of the same shape.
    """
    num_classes = len(real)
    vpc = len(clips) // num_classes

    def compare(first: int, last: int) -> tuple[Tensor, Tensor]:
        part = clips[first * vpc : last * vpc].detach().requires_grad_()
        embeddings = network.embed(part.transpose(1, 2))
        loss = loss_of(real[first:last], embeddings.view(last - first, vpc, -1).mean(dim=1))
        (gradient,) = torch.autograd.grad(loss.sum(), part)
        return loss.detach(), gradient

    parts = chunk.each_exactly(num_classes, compare, clips=vpc, is_invariant=network.IS_BATCH_INVARIANT)
    losses, gradients = zip(*parts, strict=True)
    return torch.cat(losses), torch.cat(gradients)
