"""Evaluation: fresh networks are trained on a set, and guess the classes of real clips."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism.artifacts.clips import Clips
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.evaluation.options import EvaluateConfig
from prism.evaluation.protocols import PROTOCOLS, EvaluationProtocol
from prism.evaluation.trial import Examination
from prism.evaluation.trials import RENAMED, Trials, run_trials
from prism.machine.progress import Advance
from prism.machine.randomness import generator
from prism.machine.run import Run, split_options
from prism.networks.network import Network
from prism.networks.training import Draw, check_outputs, outputs_of, top_k, train


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
    `prism.evaluation.trials.Trials` describes `condensed`, `data`, `train_store`, `label` and `workers`.

    Args:
        condensed: the set, or its file. None with `train_store`.
        data: the store whose `config.split` is scored; its training pixels fix the normalisation.
        config: network, schedule and protocol.
        run: how it runs; its output is the result file, which is written after every seed.
        options: fields of `config` and of `prism.machine.run.Run`.

    Raises:
        ConfigError: the set and the data do not fit each other, the network or the protocol, or training
            would take more memory than there is.
        OutputError: the output exists, cannot be written, or another run is writing it.
        ArtifactError: `resume` finds the result of another run.
        Interrupted: Ctrl-C or SIGTERM; the output has the networks that are done.
    """
    config, run = split_options(EvaluateConfig, config, run, options, RENAMED)
    return run_trials(Trials(condensed, data, train_store, label, workers), Classification, config, run)


@dataclass(frozen=True)
class Classification(Examination):
    """A network is trained to tell the classes apart, and scored by its guesses."""

    TASK = "classification"
    DOING = "Evaluating"
    config: EvaluateConfig

    @property
    def protocol(self) -> EvaluationProtocol:
        """The protocol that the options name."""
        return PROTOCOLS[self.config.protocol]

    def check(self) -> None:
        """Refuse a store that lacks the clips of the protocol."""
        self.protocol.passes(self.store, self.config.split)

    @property
    def chance(self) -> dict[str, float]:
        """The scores of random guesses."""
        return {f"top{k}": min(1.0, k / len(self.store.classes)) for k in (1, 5)}

    @property
    def batch_size(self) -> int:
        """Clips of a training step."""
        return min(self.config.batch_size, self.num_clips)

    def judge(
        self, network: Network, clips: Clips | Draw, seed: int, advance: Advance
    ) -> tuple[float, dict[str, float]]:
        """Train the network, then score it once."""
        store, config, protocol = self.store, self.config, self.protocol
        passes, normalisation = protocol.passes(store, config.split), protocol.standardisation(store)
        flip = self.training_flip(seed)
        loss = train(network, clips, normalisation, config.schedule, seed=seed, flip=flip, advance=advance)
        # In batches no larger than those of training, so that scoring takes no memory that was not counted; but
        # where a batch is standardised, its size is part of the protocol.
        size, flips = protocol.test_batch or self.batch_size, protocol.flips(store, seed)
        outputs = torch.cat([outputs_of(network, shown, normalisation, size, flips) for shown in passes])
        check_outputs(outputs, seed, config.schedule)
        labels = torch.cat([shown.labels for shown in passes])
        return loss, {f"top{k}": top_k(outputs, labels, k) for k in (1, 5)}

    def training_flip(self, seed: int) -> bool | Tensor:
        """Which training clips are mirrored, as `prism.networks.training.train` takes it."""
        when = self.config.flip
        if when == "protocol":
            is_set = self.subject.kind == "condensed"
            when = self.protocol.flip_of_sets if is_set else self.protocol.flip_of_stores
        if not self.store.flip or when == "never":
            return False
        if when == "always":
            return True
        return torch.rand(self.num_clips, generator=generator(seed, "fixed flip")) < 0.5
