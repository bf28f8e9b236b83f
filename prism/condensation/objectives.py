"""Objectives: comparisons of real and synthetic clips (paper, section 3.4), their curvature, held-out networks.

Videos have more pixels than networks have features, and may fit only their own networks: held-out ones score them.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from prism.condensation.random_networks import Chunk, RandomNetworks, between_class_energy
from prism.errors import ConfigError, DivergedError
from prism.machine.devices import deterministic, send
from prism.machine.randomness import generator
from prism.networks.network import Network

SCORED_EVERY = 100
"""Iterations between two held-out scores, each of which takes as long as two iterations: 2 % of the time."""
NUM_PROBES, POWER_STEPS = 3, 4
"""Networks under which the curvature is measured, as each has its own steep directions; power steps for each."""
REACH = 0.01
"""Length of the step over which a gradient's change is measured, as a share of the videos' norm."""


@dataclass(frozen=True)
class MatchLoss:
    """Losses of the synthetic clips of an iteration, and their gradients.

    Attributes:
        losses: (C,) one for each class; the telemetry has their sum.
        gradients: of the summed losses with respect to the clips, in the shape and number format of the clips.
        recorded: further numbers for the telemetry.
    """

    losses: Tensor
    gradients: Tensor
    recorded: dict[str, Any] = field(default_factory=dict)


class Objective:
    """Comparison of real and synthetic clips; the base of custom objectives.

    The fields of an objective are its options. Most objectives override `loss`, many `real` as well. An objective
    whose classes depend on each other, or which computes gradients itself, overrides `match`.

    Attributes:
        independent_classes: whether the loss of a class reads only its own synthetic clips; allows an executor.
        reads_class_means: whether `real` reads the class means of every iteration, which are then computed ahead.
        trained: number of networks to train on all training clips before the run, for `networks.trained(number)`.
        epochs: passes over the training clips in their training.
    """

    independent_classes: ClassVar[bool] = True
    reads_class_means: ClassVar[bool] = True
    trained: int = 0
    epochs: int = 0

    def real(self, networks: RandomNetworks, iteration: int) -> Any:
        """Statistics of the real clips of an iteration, (C, …); by default their mean embeddings (C, D).

        Args:
            networks: `networks.draw(iteration)` is the network, `networks.real_clips(iteration)` gives the real
                clips (n, C, T, H, W), one class after the other. `networks.class_means(iteration)` is kept in the
                store, and shared by later runs.
            iteration: counted from 0. Random draws must depend on nothing else, so that a run can be resumed.
        """
        return networks.class_means(iteration)

    def loss(self, real: Tensor, embeddings: Tensor) -> Tensor:
        """(c,) losses of some classes.

        Args:
            real: (c, …) rows of these classes in the result of the method `real`.
            embeddings: (c, vpc, D) of the synthetic clips of these classes, differentiable.
        """
        raise ConfigError("the objective has neither loss(…) nor match(…). docs/extending.md shows one.")

    def match(self, network: Network, real: Any, clips: Tensor, chunk: Chunk) -> MatchLoss:
        """Losses of the synthetic clips of an iteration and their gradients; by default those of `loss`.

        Args:
            network: network of this iteration, which embeds clips (N, C, T, H, W).
            real: the result of the method `real`.
            clips: (V, T, C, H, W) normalised synthetic clips, grouped by class, equally many of each; read-only.
            chunk: how many clips go through the network together.
        """

        def losses(classes: slice, shown: Tensor) -> Tensor:
            embeddings = network.embed(shown)
            return self.loss(real[classes], embeddings.view(classes.stop - classes.start, -1, embeddings.shape[1]))

        return matched_by_class(len(real), losses, clips, chunk)


def matched_by_class(
    num: int, losses: Callable[[slice, Tensor], Tensor], clips: Tensor, chunk: Chunk
) -> MatchLoss:
    """Losses and gradients of clips (V, T, C, H, W) of `num` classes, each loss a function of its class's clips.

    `losses` maps a slice of c classes, and their clips in a network's order (n, C, T, H, W), to losses (c,).
    """
    if not num or (vpc := len(clips) // num) < 1:
        raise ConfigError(f"an objective's real(…) must give a row for each class, got {num:,}.")

    def of_classes(first: int, last: int) -> tuple[Tensor, Tensor]:
        part = clips[first * vpc : last * vpc].detach().requires_grad_()
        found = losses(slice(first, last), part.transpose(1, 2))
        if not (isinstance(found, Tensor) and found.requires_grad and found.shape == (last - first,)):
            promise = f"a tensor ({last - first},) with its gradient, a loss for each class"
            raise ConfigError(f"an objective's loss(…) must give {promise}, got {found!r:.200}.")
        (gradient,) = torch.autograd.grad(found.sum(), part)
        return found.detach(), gradient

    found, gradients = zip(*chunk.map(num, of_classes, clips=vpc), strict=True)
    return MatchLoss(torch.cat(found), torch.cat(gradients))


class DistributionMatching(Objective):
    """The squared distance between the mean embeddings of each class (paper, equation 8)."""

    def loss(self, real: Tensor, embeddings: Tensor) -> Tensor:
        return (real - embeddings.mean(dim=1)).square().sum(dim=1)

    def match(self, network: Network, real: Any, clips: Tensor, chunk: Chunk) -> MatchLoss:
        recorded = {"between_class": between_class_energy(real)} if len(real) == network.num_classes else {}
        return replace(super().match(network, real, clips, chunk), recorded=recorded)


@dataclass(frozen=True)
class CrossEntropy(DistributionMatching):
    """Class means under random networks, and cross-entropy under networks that were trained on the real clips.

        ‖mean f(x) − mean f(s)‖² + weight · E · mean CE(g(s), c)

    f is the random network of an iteration, E the between-class energy of its real class means, so that one weight
    suits every network, and g one of a few networks trained on all training clips, in turn.

    Attributes:
        weight: of the cross-entropy; with 0 only the class means are matched.
    """

    weight: float = 0.3
    trained: int = 4
    epochs: int = 32

    def __post_init__(self) -> None:
        if not (self.weight >= 0 and all(type(one) is int and one >= 1 for one in (self.trained, self.epochs))):
            needs = "weight ≥ 0, whole numbers trained ≥ 1 and epochs ≥ 1"
            raise ConfigError(f"cross-entropy needs {needs}, got {self.weight}, {self.trained} and {self.epochs}.")

    def real(self, networks: RandomNetworks, iteration: int) -> tuple[Tensor, Tensor, Tensor, Network]:
        """Means (C, D) and labels (C,), the energy between all classes, and a trained network."""
        means, own = networks.whole.class_means(iteration), networks.classes
        labels = send(torch.arange(own.start, own.stop), networks.device)
        trained = networks.trained(networks.number_of(iteration) % self.trained)
        return means[own.start : own.stop], labels, between_class_energy(means), trained

    def match(self, network: Network, real: Any, clips: Tensor, chunk: Chunk) -> MatchLoss:
        means, labels, energy, trained = real
        matched = super().match(network, means, clips, chunk)

        def losses(classes: slice, shown: Tensor) -> Tensor:
            wanted = labels[classes, None].expand(-1, len(shown) // (classes.stop - classes.start))
            found = functional.cross_entropy(trained(shown), wanted.flatten(), reduction="none")
            return self.weight * energy * found.view(wanted.shape).mean(dim=1)

        entropy = matched_by_class(len(labels), losses, clips, chunk)
        recorded = matched.recorded | {"cross_entropy": entropy.losses.sum()}
        return MatchLoss(matched.losses + entropy.losses, matched.gradients + entropy.gradients, recorded)


@dataclass(frozen=True)
class MatchScore:
    """Nearness of the mean embeddings of synthetic clips to the real class means, on average over networks.

    Attributes:
        loss: summed squared distance of the means, divided by the between-class energy: 1 where every synthetic
            mean is the mean of all real class means.
        alignment: Σ_c ⟨f_c − f̄, μ_c − μ̄⟩ / Σ_c ‖μ_c − μ̄‖² of synthetic means f and real means μ; 1 is ideal, at 0
            the synthetic means do not follow the classes.
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
        """The mean of each number, rounded to four decimals."""
        rows = zip(*(asdict(score).values() for score in scores), strict=True)
        return cls(*(round(math.fsum(row) / len(scores), 4) for row in rows))


class HeldOutNetworks:
    """Networks, numbered from 0, that score the videos of a run and never train them."""

    NUM: ClassVar[int] = 6

    def __init__(self, networks: RandomNetworks) -> None:
        self.networks, self.chunk = networks, networks.chunk
        self.real = [networks.class_means(number) for number in range(self.NUM)]

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
            said = "the videos have grown so far that their mean embeddings are not finite"
            advice = "The learning rate is too high: start again with a lower one and --overwrite."
            raise DivergedError(f"{said}. {advice}")
        return MatchScore.mean(found)


@torch.no_grad()
def largest_curvature(tensors: list[Tensor], gradients: Callable[[int], list[Tensor]], seed: int) -> float:
    """The largest curvature λ of a loss; a relative learning rate is a multiple of 1/λ.

    A loss sums over the features of an embedding, so its scale depends on the network, the size of the key-frames
    and the number of videos. λ has the same scale: gradient descent on a quadratic diverges from a learning rate
    of 2/λ on. Power iterations on differences of gradients find λ under each network.

    `gradients(number)` gives the gradients under a network with respect to the tensors, which are moved meanwhile
    and then restored. The result is the mean of λ over the networks with a gradient, or 0 if none has one.
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
                # A direction is as large as the videos, so each part of it is freed once it is used.
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
        # Summed in float64 without a copy in float64.
        return math.hypot(*(float(torch.linalg.vector_norm(t.detach(), dtype=torch.float64)) for t in tensors))
