"""Evaluation: fresh networks are trained on a set, and guess the classes of real clips."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism.artifacts.clips import Clips
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result, metrics_of
from prism.artifacts.store import ClipStore
from prism.evaluation.options import EvaluateConfig
from prism.evaluation.protocols import PROTOCOLS, EvaluationProtocol
from prism.evaluation.runs import RENAMED, Task, run_task
from prism.machine.randomness import generator
from prism.machine.run import Run, split_options
from prism.networks.network import Network
from prism.networks.training import Draw, check_outputs, outputs_of, top_k, train

GUESSES = {"top1": 1, "top5": 5}


def evaluate(
    condensed: CondensedSet | str | Path | None,
    data: ClipStore | str | Path,
    config: EvaluateConfig | None = None,
    run: Run | None = None,
    *,
    train_store: ClipStore | str | Path | None = None,
    label: str | None = None,
    workers: int | None = None,
    **options: Any,
) -> Result:
    """Train fresh networks on a set and score them by their guesses of each real clip's class.

    Nothing is chosen on the clips that score: every network is scored once, after its last epoch.

    Args:
        condensed: the set, or its file. None with `train_store`.
        data: the store, or its folder, whose `config.split` is scored; its training pixels fix the normalisation.
        config: network, schedule and protocol.
        run: how it runs; its output is the result file, which is written after every seed.
        train_store: train on real clips of this store instead: on all of them (the ceiling), or on
            `config.train_vpc` random ones of each class, drawn anew for each seed (the floor).
        label: the row's name in tables; the method by default.
        workers: networks that are trained side by side at most, by default as many as keep all cores busy. On a
            GPU it is always one, and an executor has workers of its own. The scores do not depend on it.
        options: fields of `config` and of `prism.machine.run.Run`.

    Raises:
        ConfigError: the set, the data, the network, the protocol and a GPU's memory do not fit each other.
        ArtifactError: the split is empty, a store was changed meanwhile, or `resume` finds the result of another
            run.
        OutputError: the output exists, cannot be written, or another run is writing it.
        Interrupted: Ctrl-C or SIGTERM; the output has the networks that are done.
    """
    config, run = split_options(EvaluateConfig, config, run, options, RENAMED)
    return run_task(Classification, condensed, data, config, run, train_store, label, workers)


@dataclass(frozen=True)
class Classification(Task):
    """A network is trained to tell the classes apart, and scored by its guesses."""

    NAME = "classification"
    DOING = "Evaluating"
    config: EvaluateConfig

    @property
    def protocol(self) -> EvaluationProtocol:
        return PROTOCOLS[self.config.protocol]

    def check(self) -> None:
        self.protocol.passes(self.store, self.config.split)

    @property
    def chance(self) -> dict[str, float]:
        return {metric: GUESSES[metric] / len(self.store.classes) for metric in self._metrics}

    @property
    def _metrics(self) -> tuple[str, ...]:
        return metrics_of(self.NAME, len(self.store.classes))

    def train_and_score(self, network: Network, clips: Clips | Draw, seed: int) -> tuple[float, dict[str, float]]:
        store, config, protocol = self.store, self.config, self.protocol
        passes, normalisation = protocol.passes(store, config.split), protocol.standardisation(store)
        flip, schedule = self.training_flip(seed), config.schedule
        loss = train(network, clips, normalisation, schedule, seed=seed, flip=flip, advance=self.advance)
        # In batches no larger than those of training, so that scoring takes no more memory; but where a batch is
        # standardised, its size is part of the protocol.
        size = protocol.test_batch or min(config.batch_size, self.data.subject.num_videos)
        flips = protocol.flips(store, seed)
        outputs = torch.cat([outputs_of(network, shown, normalisation, size, flips) for shown in passes])
        check_outputs(outputs, seed, schedule)
        labels = torch.cat([shown.labels for shown in passes])
        return loss, {metric: top_k(outputs, labels, GUESSES[metric]) for metric in self._metrics}

    def training_flip(self, seed: int) -> bool | Tensor:
        """Which training clips are mirrored, as `prism.networks.training.train` takes it."""
        when, subject = self.config.flip, self.data.subject
        if when == "protocol":
            when = self.protocol.flip_of_sets if subject.kind == "condensed" else self.protocol.flip_of_stores
        if not self.store.flip or when == "never":
            return False
        if when == "always":
            return True
        return torch.rand(subject.num_videos, generator=generator(seed, "fixed flip")) < 0.5
