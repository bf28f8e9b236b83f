"""A trial: one network is trained from its seed and scored, by itself or beside others."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from prism.artifacts import results
from prism.artifacts.clips import Clips
from prism.artifacts.results import Subject
from prism.artifacts.store import ClipStore
from prism.evaluation.materials import Material
from prism.evaluation.options import JudgeConfig
from prism.evaluation.protocols import CLEAN, EvaluationProtocol
from prism.machine.devices import deterministic, pick_device
from prism.machine.progress import Advance, no_progress
from prism.machine.threads import end_where_stopped
from prism.networks.build import allocate, build_for
from prism.networks.network import Network
from prism.networks.training import Draw, within_memory


@dataclass(frozen=True)
class Examination(ABC):
    """How a verb trains a network and scores it on a store.

    Attributes:
        TASK: a key of `results.METRICS`.
        DOING: the verb in the progress bar.
        store: the clips that are scored.
        config: the options of the verb.
        subject: the clips that a network is trained on.
    """

    TASK: ClassVar[str]
    DOING: ClassVar[str]
    store: ClipStore
    config: JudgeConfig
    subject: Subject

    @property
    def protocol(self) -> EvaluationProtocol:
        """How clips are shown."""
        return CLEAN

    @property
    def num_clips(self) -> int:
        """Clips that a network is trained on in an epoch."""
        return self.subject.num_videos

    @abstractmethod
    def check(self) -> None:
        """Refuse a store that lacks clips to score.

        Raises:
            ConfigError: it does.
            ArtifactError: the split is empty.
        """

    @property
    @abstractmethod
    def chance(self) -> dict[str, float]:
        """The scores of random guesses, in 0..1, for each metric of the task."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """Clips of a training step."""

    @abstractmethod
    def judge(
        self, network: Network, clips: Clips | Draw, seed: int, advance: Advance
    ) -> tuple[float, dict[str, float]]:
        """Train a network on clips from a seed and score it; `advance` is called after every epoch.

        Returns:
            The mean loss of the last epoch, and for each metric the score, in 0..1.
        """


@dataclass(frozen=True)
class Trial:
    """One network for each seed, trained and scored by itself, here or where an executor computes.

    Attributes:
        device: `auto`, `cpu` or `cuda` of the machine that it is trained on.
        advance: called after every epoch.
    """

    material: Material
    examination: Examination
    device: str
    advance: Advance = no_progress

    def __call__(self, seed: int) -> results.NetworkRun:
        """Train and score the network of a seed; the scores depend on nothing but the seed and the fields.

        Raises:
            DivergedError: the loss is not finite.
            ArtifactError: a store was changed meanwhile.
            Interrupted: the threads of `side_by_side` were stopped, of which this is one.
        """
        started, device = time.monotonic(), pick_device(self.device)
        with deterministic(device), within_memory():
            network = allocate(self.blank(), device)
            end_where_stopped(network, "stopped.")
            loss, scores = self.examination.judge(network, self.material.clips(seed), seed, self.advance)
        run = results.NetworkRun(seed, scores, loss, round(time.monotonic() - started, 3))
        for read in (self.examination.store, self.material):
            read.check_unchanged()
        return run

    def blank(self) -> Network:
        """The network on the meta device."""
        config = self.examination.config
        return build_for(self.examination.store, config.model, "meta", width=config.width, hidden=config.hidden)


def workers_for(num_networks: int, num_threads: int) -> int:
    """How many networks to train side by side, so that no core is idle at the end.

    Three networks on two cores share them from the first epoch to the last. If the third waited for one of the
    others, a core would be idle while it is trained. More than twice as many networks as cores are trained in
    rounds of equal size.
    """
    rounds = max(1, num_networks // num_threads)
    return -(-num_networks // rounds)
