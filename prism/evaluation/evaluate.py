"""Evaluation: fresh networks are trained on a set, and guess the classes of real clips."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from prism.artifacts.clips import Clips
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import METRICS, Result
from prism.artifacts.store import ClipStore
from prism.evaluation.options import EvaluateConfig
from prism.evaluation.protocols import PROTOCOLS, EvaluationProtocol
from prism.evaluation.trials import Examination, Trials, run_trials
from prism.machine.run import Run, parted
from prism.networks.network import Network
from prism.networks.training import Draw, outputs_of, top_k, train


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

    Nothing is chosen on the clips that score, unless `config.protocol` is one of earlier work that does.
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
        ResultError: `resume` finds the result of another run.
    """
    config, run = parted(config or EvaluateConfig(), run, options)
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

    def judge(self, network: Network, clips: Clips | Draw, seed: int) -> tuple[float, dict[str, float]]:
        """Train the network and score it when the protocol says so; for each metric the best score counts."""
        store, config, protocol = self.store, self.config, self.protocol
        checkpoints, scores = protocol.checkpoints(config.epochs), []
        passes, normalisation = protocol.passes(store, config.split), protocol.standardisation(store)
        labels = torch.cat([clips.labels for clips in passes])
        # In batches no larger than those of training, so that scoring takes no memory that was not counted; but
        # where a batch is standardised, its size is part of the protocol.
        size = config.batch_size if protocol.standardises_batches else self.batch_size

        def look(epoch: int) -> None:
            if epoch in checkpoints:
                flips = protocol.flips(store, seed, epoch)
                outputs = torch.cat([outputs_of(network, shown, normalisation, size, flips) for shown in passes])
                scores.append({f"top{k}": top_k(outputs, labels, k) for k in (1, 5)})

        loss = train(network, clips, normalisation, config.schedule, seed=seed, flip=store.flip, after_epoch=look)
        return loss, {metric: max(one[metric] for one in scores) for metric in METRICS["classification"]}
