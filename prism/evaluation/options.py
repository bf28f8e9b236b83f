"""The options of `prism evaluate`."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from prism.artifacts.store import Split
from prism.config import RATE, SHARE, Group, OmitDefault, Options, at_least, between
from prism.networks.options import NETWORKS, Schedule

PROTOCOLS = {
    "clean": "The protocol clean normalises and scores every clip by itself.",
    "wang2024": "The protocol wang2024, of earlier work, standardises every batch and scores random windows.",
}
"""Protocols, each with the sentence that pages show of it; both score a network after its last epoch.

For wang2024 note that Wang et al. print the largest mean on the test clips over all checkpoints of a condensation;
here the finished set alone is scored.
"""


@dataclass(frozen=True)
class EvaluateConfig(Options, section="evaluate"):
    """Options of `prism evaluate`; the defaults are the paper's schedule."""

    model: Annotated[str, Group("Networks"), NETWORKS] = "convnet3d"
    """Network to train."""
    width: Annotated[int, between(0, 4096)] = 0
    """Channels of the network's first block; 0 for the published number."""
    hidden: Annotated[int, between(0, 65536)] = 0
    """Hidden size of the recurrent layer of cnn-gru and cnn-lstm; 0 as published (cnn-lstm: gigabytes)."""
    seeds: Annotated[int, at_least(1)] = 3
    """Networks to train, with seeds seed, seed + 1, …"""
    seed: int = 0
    """First seed."""
    epochs: Annotated[int, Group("Training"), at_least(1)] = 500
    """Passes over the training clips; the learning rate drops to a tenth halfway."""
    lr: Annotated[float, RATE] = 0.01
    """Learning rate of SGD with momentum 0.9 and weight decay 5e-4."""
    batch_size: Annotated[int, at_least(1)] = 256
    """Clips per training step."""
    shift: Annotated[float, SHARE] = 0.0
    """Largest random shift of a training clip in time, down and across, as a share of its extent; the paper: 0."""
    max_grad_norm: Annotated[float, between(0, 1e6)] = 0.0
    """Largest norm of a training step's gradient over all weights, to which a longer one is shortened; 0, as in \
the paper's schedule, sets no limit. Networks trained on a handful of clips may die without a limit."""
    train_vpc: Annotated[int, at_least(0)] = 0
    """With --train: train on this many random clips per class, drawn anew for each seed; 0 for all."""
    flip: Annotated[Literal["protocol", "always", "once", "never"], OmitDefault()] = "protocol"
    """Random mirroring of training clips where that keeps the labels: `always` is anew each time that a clip is \
shown, `once` is fixed for a whole training, `never` leaves clips as they are stored. `protocol` does what the \
protocol does: clean always; wang2024 never for a set, once for the clips of --train."""
    split: Annotated[Split, Group("Scoring")] = "test"
    """Real clips to score on; choose settings on val, report test."""
    protocol: Literal["clean", "wang2024"] = "clean"
    """How clips are shown: `clean` normalises and scores every clip by itself; `wang2024`, the protocol of Wang \
et al., gives numbers to compare with theirs. Both score a network after its last epoch."""

    def relations(self) -> Iterator[tuple[str, bool, str]]:
        """Protocol wang2024 scores on test clips only, and fixes when clips are mirrored."""
        is_ours = self.protocol == "clean"
        yield "split", self.split == "test" or is_ours, f"test with protocol {self.protocol}"
        yield "flip", self.flip == "protocol" or is_ours, f"protocol with protocol {self.protocol}"

    @property
    def all_seeds(self) -> range:
        """Seeds of the networks, one of each."""
        return range(self.seed, self.seed + self.seeds)

    @property
    def schedule(self) -> Schedule:
        return Schedule(**{field.name: getattr(self, field.name) for field in fields(Schedule)})
