"""What synthetic clips say of their classes to networks that they were never trained on.

A loss under the networks of the training says little: there are more pixels than equations, so a set can satisfy
those networks and no other.
"""

import math
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.store import ClipStore
from prism.condensation.ahead import ClassMeans, keep_ahead
from prism.condensation.chunk import Chunk, threads_for
from prism.condensation.class_means import between_class_energy, whole_clips
from prism.condensation.options import METHODS, CondenseConfig
from prism.condensation.stream import DrawnNetwork, NetworkStream
from prism.errors import DivergedError
from prism.machine.devices import deterministic, pick_device
from prism.machine.run import Run
from prism.networks.network import Network

NUM_NETWORKS = 6
MOST_REAL_CLIPS = 64
"""Real clips of each class, at most, that class means are taken over."""
EVERY = 100
"""Iterations between two measurements: six networks that embed cost two iterations, so 2 % of the time."""
LOW_ALIGNMENT = 0.3


@dataclass(frozen=True)
class Likeness:
    """How near the mean embeddings of synthetic clips are to the real class means, on average over the networks.

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
    def of(cls, synthetic: Tensor, real: Tensor) -> "Likeness":
        """The likeness of class means (C, D) under one network."""
        energy = max(float(between_class_energy(real)), 1e-30)
        apart, own = real - real.mean(dim=0), synthetic - synthetic.mean(dim=0)
        found = torch.cdist(synthetic, real, compute_mode="donot_use_mm_for_euclid_dist").argmin(dim=1)
        right = (found == torch.arange(len(real), device=found.device)).float().mean()
        with deterministic(real.device):
            loss, aligned = (synthetic - real).square().sum(), (own * apart).sum()
        return cls(float(loss) / energy, float(aligned) / energy, float(right))

    @classmethod
    def mean(cls, likenesses: list["Likeness"]) -> "Likeness":
        """The mean of every number, to four digits behind the point."""
        rows = zip(*(asdict(likeness).values() for likeness in likenesses), strict=True)
        return cls(*(round(math.fsum(row) / len(likenesses), 4) for row in rows))


def sentence_of(condensed: CondensedSet) -> str:
    """What a finished set says of its classes to networks that it was not trained on."""
    likeness = Likeness(**condensed.source["unseen"])
    said = (
        f"On {NUM_NETWORKS} networks that it was not trained on: alignment {likeness.alignment:.2f} (1 is ideal), "
        f"{likeness.nearest:.0%} of the classes nearest to themselves, loss {likeness.loss:.2f}× between-class."
    )
    if likeness.alignment >= LOW_ALIGNMENT:
        return said
    rates = METHODS.resolve(condensed.source["method"])[0].other_rates
    return f"{said}\nCaution: the videos say little of their classes. Try more --iterations or {rates}."


class Unseen:
    """The networks that judge a run, with the class means of real clips under each, from the store's cache.

    Args:
        store: the data set; it has at least two classes.
        config: the options of the run, of which only network, width and precision count.
        run: where and by whom the class means are computed.
    """

    def __init__(self, store: ClipStore, config: CondenseConfig, run: Run) -> None:
        judging = replace(config, batch_real=MOST_REAL_CLIPS, network_seed=0)
        stream, device = NetworkStream(store, judging, "unseen", block=1), pick_device(run.device)
        keep_ahead(stream, [(number, whole_clips) for number in range(NUM_NETWORKS)], replace(run, progress=False))
        self.judge = DrawnNetwork(stream, device)
        self.chunk = Chunk.on(device, threads_for(device))
        means = ClassMeans(self.judge)
        self.real = [means.of(number) for number in range(NUM_NETWORKS)]

    @torch.no_grad()
    def measure(self, clips: Tensor) -> Likeness:
        """The likeness of normalised clips (V, T, C, H, W), grouped by class, equally many of each.

        Raises:
            DivergedError: it is not finite.
        """
        found = []
        for number, real in enumerate(self.real):
            synthetic = self._class_means(self.judge.draw(number), clips.detach(), len(real))
            found.append(Likeness.of(synthetic, real))
        if not all(math.isfinite(value) for one in found for value in asdict(one).values()):
            if not all(real.isfinite().all() for real in self.real):
                raise DivergedError("the mean embeddings of real clips are not finite. Look at the network.")
            raise DivergedError(
                "the videos have grown so far that their mean embeddings are not finite. The learning rate is too "
                "high: start again with a lower one and --overwrite."
            )
        return Likeness.mean(found)

    def judged(self, condensed: CondensedSet) -> CondensedSet:
        """A finished set with the likeness of its clips, as they are stored, in its record."""
        clips = condensed.normalisation.apply(condensed.render()).to(self.judge.device)
        return replace(condensed, source=condensed.source | {"unseen": asdict(self.measure(clips))})

    def _class_means(self, network: Network, clips: Tensor, num_classes: int) -> Tensor:
        def embed(first: int, last: int) -> Tensor:
            return network.embed(clips[first:last].transpose(1, 2))

        embeddings = torch.cat(self.chunk.each_exactly(len(clips), embed, is_invariant=network.IS_BATCH_INVARIANT))
        return embeddings.view(num_classes, len(clips) // num_classes, -1).mean(dim=1)
