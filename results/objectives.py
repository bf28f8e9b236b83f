"""Objectives and a representation that were tried beside the default; `rows.py` has their rows.

With this folder in PYTHONPATH: prism condense STORE -o SET --objective objectives:Differences
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from prism.artifacts.keyframes import enlarge, reduce
from prism.artifacts.store import ClipStore
from prism.condensation import Settings
from prism.condensation.objectives import DistributionMatching, MatchLoss, Objective, matched_by_class
from prism.condensation.random_networks import Chunk, RandomNetworks, between_class_energy
from prism.condensation.videos import Encode, Method, Videos, mean_clips
from prism.machine.randomness import generator
from prism.networks.network import Network
from prism.networks.trained import trained_network


@dataclass(frozen=True)
class Differences(DistributionMatching):
    """Class means of clips and of the differences of their frames, both by their between-class energies.

        ‖mean f(x) − mean f(s)‖² + weight · E / E′ · ‖mean f(Δx) − mean f(Δs)‖²

    Δ is each frame minus the one before it, the first frame 0; E and E′ are the energies between the real class
    means of f(x) and of f(Δx), so that motion counts as much as looks, however faint it is.

    Attributes:
        weight: 0 leaves the class means alone.
    """

    weight: float = 1.0
    independent_classes: ClassVar[bool] = False

    def real(self, networks: RandomNetworks, iteration: int) -> tuple[Tensor, Tensor, Tensor]:
        """Means of clips and of differences (C, D), and the factor of the latter."""
        means, network = networks.class_means(iteration), networks.draw(iteration)
        moved = torch.stack(
            [network.embed(changes(clips)).mean(dim=0) for clips in networks.real_clips(iteration)]
        )
        energy = between_class_energy(means)
        # Nothing moves in still clips.
        return means, moved, self.weight * energy / between_class_energy(moved).clamp_min(1e-3 * energy)

    def match(self, network: Network, real: Any, clips: Tensor, chunk: Chunk) -> MatchLoss:
        means, moved, factor = real
        matched = super().match(network, means, clips, chunk)

        def losses(classes: slice, shown: Tensor) -> Tensor:
            embeddings = network.embed(changes(shown)).view(classes.stop - classes.start, -1, moved.shape[1])
            return factor * self.loss(moved[classes], embeddings)

        found = matched_by_class(len(means), losses, clips, chunk)
        recorded = matched.recorded | {"differences": found.losses.sum()}
        return MatchLoss(matched.losses + found.losses, matched.gradients + found.gradients, recorded)


def changes(clips: Tensor) -> Tensor:
    """Differences of the frames of clips (N, C, T, H, W), of which the first is 0."""
    return clips.diff(dim=2, prepend=clips[:, :, :1])


@dataclass(frozen=True)
class CharacteristicFunctions(Objective):
    """Characteristic functions of embeddings, and cross-entropy, under networks between their start and end.

    After neural characteristic function matching (Wang et al., CVPR 2025): amplitude and phase at random
    frequencies; weights anywhere on the line from a network's initial values to its trained ones; cross-entropy
    under the trained network, times the mean distance of the classes from all clips together.

    Attributes:
        weight: of the cross-entropy.
        amplitude: share of the amplitude, the rest being the phase's.
        frequencies: number that an iteration draws.
    """

    weight: float = 0.3
    amplitude: float = 0.5
    frequencies: int = 1024
    trained: int = 4
    epochs: int = 32
    independent_classes: ClassVar[bool] = False
    reads_class_means: ClassVar[bool] = False

    @torch.no_grad()
    def real(self, networks: RandomNetworks, iteration: int) -> dict[str, Any]:
        config, number = networks.config, iteration % self.trained
        seed = config.network_seed * self.trained + number
        how: dict[str, Any] = {"width": config.width, "epochs": 0, "seed": seed}
        between = trained_network(networks.store, config.model, networks.device, **how)
        end, draw = networks.trained(number), generator(config.network_seed, "between", iteration)
        share = float(torch.rand((), generator=draw))
        for mixed, value in zip(between.parameters(), end.parameters(), strict=True):
            mixed.lerp_(value, share)
        embeddings = torch.stack([between.embed(clips) for clips in networks.real_clips(iteration)])
        spread = (embeddings - embeddings.mean(dim=(0, 1))).square().sum(dim=2).mean().sqrt()
        frequencies = torch.randn(self.frequencies, embeddings.shape[2], generator=draw).to(embeddings) / spread
        classes = characteristic(embeddings, frequencies)
        energy = apart(classes, classes.mean(dim=1, keepdim=True), self.amplitude).mean()
        return {"between": between, "end": end, "at": frequencies, "classes": classes, "energy": energy}

    def match(self, network: Network, real: Any, clips: Tensor, chunk: Chunk) -> MatchLoss:
        def losses(classes: slice, shown: Tensor) -> Tensor:
            embeddings = real["between"].embed(shown).unflatten(0, (classes.stop - classes.start, -1))
            found = apart(real["classes"][:, classes], characteristic(embeddings, real["at"]), self.amplitude)
            labels = torch.arange(classes.start, classes.stop).repeat_interleave(embeddings.shape[1])
            entropy = functional.cross_entropy(real["end"](shown), labels.to(shown.device), reduction="none")
            return found + self.weight * real["energy"] * entropy.view(len(found), -1).mean(dim=1)

        return matched_by_class(real["classes"].shape[1], losses, clips, chunk)


def characteristic(embeddings: Tensor, frequencies: Tensor) -> Tensor:
    """Real and imaginary parts (2, …, K) of the mean of exp(i t·f) over embeddings f (…, N, D); t is (K, D)."""
    angles = embeddings @ frequencies.T
    return torch.stack([angles.cos(), angles.sin()]).mean(dim=-2)


def apart(real: Tensor, other: Tensor, amplitude: float) -> Tensor:
    """Mean distances (…) of characteristic functions (2, …, K), in amplitude and in phase."""
    ours, theirs = ((part.square().sum(dim=0) + 1e-8).sqrt() for part in (real, other))
    phase = 2 * (ours * theirs - (real * other).sum(dim=0))
    squared = amplitude * (ours - theirs).square() + (1 - amplitude) * phase
    return squared.clamp(min=1e-8).sqrt().mean(dim=-1)


class Waves(Videos):
    """Sums of cosines in time (V, K, C, h, w), enlarged."""

    def __init__(self, waves: Tensor, labels: Tensor, num_frames: int, config: Settings, scale: int) -> None:
        super().__init__({"waves": waves}, labels, num_frames, config)
        self.scale = scale

    def small(self) -> Tensor:
        waves = self.parts["waves"]
        return torch.einsum("tk,vkchw->vtchw", cosines(self.mask.shape[1], waves.shape[1]).to(waves), waves)

    def render(self, iteration: int) -> Tensor:
        return enlarge(self.small(), self.scale)

    def stored(self, encode: Encode, iteration: int) -> Any:
        """Every frame, four times the bytes of two waves of eight frames."""
        return encode(self.small(), torch.ones_like(self.mask), self.scale)


def cosines(num_frames: int, num: int) -> Tensor:
    """The lowest frequencies in time, orthonormal, (T, K)."""
    basis = ((torch.arange(num_frames) + 0.5)[:, None] * torch.arange(num) * math.pi / num_frames).cos()
    return basis / basis.norm(dim=0)


@dataclass(frozen=True)
class Frequencies(Method):
    """The lowest frequencies in time of small frames, from mean clips: two have as many numbers as the default."""

    num: int = 2
    scale: int = 4
    fixed: ClassVar[dict[str, Any]] = {
        "init": "mean",
        "initial_keyframes": 0,
        "keyframe_scale": 1,
        "insertion": "never",
    }

    def start(self, store: ClipStore, config: Settings, device: torch.device, classes: range) -> Waves:
        frames = store.normalisation.apply(reduce(mean_clips(store, config, classes), self.scale))
        waves = torch.einsum("tk,vtchw->vkchw", cosines(store.num_frames, self.num), frames)
        labels = torch.tensor(classes).repeat_interleave(config.vpc)
        return Waves(waves.to(device), labels, store.num_frames, config, self.scale)
