"""Objectives: comparisons of real and synthetic clips of a class (paper, section 3.4), and held-out networks.

Videos have more pixels than the networks of a training have features, so they can satisfy these and no other.
"""

import math
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from prism.condensation.networks import Chunk, RandomNetworks, between_class_energy
from prism.errors import ConfigError, DivergedError
from prism.machine.devices import deterministic
from prism.networks.network import Network

NUM_HELD_OUT = 6
SCORED_EVERY = 100
"""Iterations between two scores: six networks that embed cost two iterations, so 2 % of the time."""


@dataclass(frozen=True)
class MatchLoss:
    """The losses of an iteration's synthetic clips.

    Attributes:
        losses: (C,) one for each class; the telemetry has their sum.
        gradients: of that sum with respect to the clips, of the same shape and number format.
        recorded: further numbers for the telemetry.
    """

    losses: Tensor
    gradients: Tensor
    recorded: dict[str, Any] = field(default_factory=dict)


class Objective:
    """Comparison of real and synthetic clips; the base of custom objectives.

    An objective is a value: its fields are its options. Most override `loss`, many `real` as well. One whose
    classes depend on each other, or that has gradients of its own, overrides `match`.

    Attributes:
        independent_classes: whether the loss of a class depends on the clips of that class only. Then the classes
            can be condensed on many machines.
    """

    independent_classes: ClassVar[bool] = True

    def real(self, networks: RandomNetworks, iteration: int) -> Any:
        """Statistics of the real clips of an iteration, (C, …); by default their mean embeddings (C, D).

        Args:
            networks: `networks.draw(iteration)` is the network, `networks.real_clips(iteration)` gives the real
                clips (n, C, T, H, W), one class after the other. `networks.class_means(iteration)` is kept in the
                store, and shared by later runs.
            iteration: counted from 0. What is drawn must depend on nothing else, so that a run can be resumed.
        """
        return networks.class_means(iteration)

    def loss(self, real: Tensor, embeddings: Tensor) -> Tensor:
        """(c,) losses of some classes.

        Args:
            real: (c, …) their rows of `real`.
            embeddings: (c, vpc, D) of their synthetic clips, differentiable.
        """
        raise ConfigError("the objective has neither loss(…) nor match(…). docs/extending.md shows one.")

    def match(self, network: Network, real: Any, clips: Tensor, chunk: Chunk) -> MatchLoss:
        """Losses of the synthetic clips of an iteration and their gradients; by default those of `loss`.

        Args:
            network: of this iteration; it embeds (N, C, T, H, W).
            real: what `real` gave.
            clips: (V, T, C, H, W) normalised synthetic clips, grouped by class, equally many of each. They are not
                to be changed.
            chunk: how many clips go through the network together.
        """
        vpc = len(clips) // len(real)

        # The loss of a class needs all its clips, and no other's, so classes go through the network apart.
        def of_classes(first: int, last: int) -> tuple[Tensor, Tensor]:
            part = clips[first * vpc : last * vpc].detach().requires_grad_()
            embeddings = network.embed(part.transpose(1, 2))
            losses = self.loss(real[first:last], embeddings.view(last - first, vpc, -1))
            (gradient,) = torch.autograd.grad(losses.sum(), part)
            return losses.detach(), gradient

        losses, gradients = zip(*chunk.map(len(real), of_classes, clips=vpc), strict=True)
        return MatchLoss(torch.cat(losses), torch.cat(gradients))


class DistributionMatching(Objective):
    """The squared distance between the mean embeddings of each class (paper, equation 8)."""

    def loss(self, real: Tensor, embeddings: Tensor) -> Tensor:
        return (real - embeddings.mean(dim=1)).square().sum(dim=1)

    def match(self, network: Network, real: Tensor, clips: Tensor, chunk: Chunk) -> MatchLoss:
        found, is_whole = super().match(network, real, clips, chunk), len(real) == network.num_classes
        recorded = {"between_class": between_class_energy(real) if is_whole else None}
        return MatchLoss(found.losses, found.gradients, recorded)


@dataclass(frozen=True)
class MatchScore:
    """Nearness of the mean embeddings of synthetic clips to the real class means, on average over networks.

    Attributes:
        loss: the summed squared distance, as a multiple of the energy between the classes: the common mean of all
            clips in the place of every video has 1.
        alignment: Σ_c ⟨f_c − f̄, μ_c − μ̄⟩ / Σ_c ‖μ_c − μ̄‖² of synthetic means f and real means μ; 1 is ideal, 0
            says nothing of the classes.
        nearest: share of the classes whose synthetic mean is nearer to their own real mean than to any other.
    """

    loss: float
    alignment: float
    nearest: float

    @classmethod
    def of(cls, synthetic: Tensor, real: Tensor) -> "MatchScore":
        """The score of class means (C, D) under one network."""
        energy = max(float(between_class_energy(real)), 1e-30)
        apart, own = real - real.mean(dim=0), synthetic - synthetic.mean(dim=0)
        found = torch.cdist(synthetic, real, compute_mode="donot_use_mm_for_euclid_dist").argmin(dim=1)
        right = (found == torch.arange(len(real), device=found.device)).float().mean()
        with deterministic(real.device):
            loss, aligned = (synthetic - real).square().sum(), (own * apart).sum()
        return cls(float(loss) / energy, float(aligned) / energy, float(right))

    @classmethod
    def mean(cls, scores: list["MatchScore"]) -> "MatchScore":
        """The mean of every number, to four digits behind the point."""
        rows = zip(*(asdict(score).values() for score in scores), strict=True)
        return cls(*(round(math.fsum(row) / len(scores), 4) for row in rows))


class HeldOutNetworks:
    """Networks, numbered from 0, that score the videos of a run and that it is never trained on."""

    def __init__(self, networks: RandomNetworks) -> None:
        self.networks, self.chunk = networks, Chunk.of(networks.store, networks.device, differentiated=True)
        self.real = [networks.class_means(number) for number in range(NUM_HELD_OUT)]

    @torch.no_grad()
    def score(self, clips: Tensor) -> MatchScore:
        """The score of normalised clips (V, T, C, H, W), grouped by class; DivergedError if it is not finite."""
        clips, found = clips.detach(), []
        for number, real in enumerate(self.real):
            network = self.networks.draw(number)
            parts = self.chunk.map(len(clips), lambda a, b, f=network: f.embed(clips[a:b].transpose(1, 2)))
            synthetic = torch.cat(parts).view(len(real), len(clips) // len(real), -1).mean(dim=1)
            found.append(MatchScore.of(synthetic, real))
        if not all(math.isfinite(value) for score in found for value in asdict(score).values()):
            if not all(real.isfinite().all() for real in self.real):
                raise DivergedError("the mean embeddings of real clips are not finite. Look at the network.")
            raise DivergedError(
                "the videos have grown so far that their mean embeddings are not finite. The learning rate is too "
                "high: start again with a lower one and --overwrite."
            )
        return MatchScore.mean(found)
