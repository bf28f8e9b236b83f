"""Evaluation: what fresh networks learn from a set, judged by a named protocol."""

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from prism.artifacts.clips import Clips
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import METRICS, Result
from prism.artifacts.store import ClipStore
from prism.config import with_options
from prism.evaluation.options import EvaluateConfig
from prism.evaluation.protocols import PROTOCOLS
from prism.evaluation.trials import Examination, run_trials
from prism.networks.network import Network
from prism.networks.training import Draw, outputs_of, top_k, train


def evaluate(
    condensed: CondensedSet | str | Path | None,
    data: ClipStore | str | Path,
    config: EvaluateConfig | None = None,
    *,
    train_store: ClipStore | str | Path | None = None,
    output: str | Path | None = None,
    label: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
    workers: int | None = None,
    executor: Executor | None = None,
    progress: bool = False,
    **options: Any,
) -> Result:
    """Train fresh networks on a set and score them; nothing is chosen on the clips that score, unless
    `config.protocol` is one of earlier work that does.

    Args:
        condensed: the set, or its file. None with `train_store`.
        data: the store whose `config.split` is scored; its training pixels fix the normalisation.
        config: network and schedule; `options` replace single fields of it.
        train_store: train on real clips of this store instead: all of them (the ceiling), or
            `config.train_vpc` random ones of each class, anew for each seed (the floor).
        output: the result file; it is written after every seed. None: no file.
        label: the row's name in tables; the method by default.
        resume: keep the runs of the result that is there and train the seeds that it lacks.
        overwrite: replace an output.
        device: `auto`, `cpu` or `cuda`.
        workers: networks that are trained side by side, at most; by default as many as PyTorch would use
            threads. The scores do not depend on it.
        executor: trains them in place of this process, each in one item, where it finds store and set under the
            same paths.
        progress: show a progress bar.

    Raises:
        ConfigError: the set and the data do not fit each other, the network or the protocol, or training
            would take more memory than there is.
        OutputError: the output exists, cannot be written, or another run is writing it.
        ResultError: `resume` finds the result of another run.
    """
    config = with_options(config or EvaluateConfig(), options)
    return run_trials(
        "evaluate",
        config,
        PROTOCOLS[config.protocol],
        lambda store, num_clips: _prepare(store, config, num_clips),
        condensed,
        data,
        train_store=train_store,
        output=output,
        label=label,
        resume=resume,
        overwrite=overwrite,
        device=device,
        workers=workers,
        executor=executor,
        progress=progress,
    )


def _prepare(store: ClipStore, config: EvaluateConfig, num_clips: int) -> Examination:
    # What the store lacks is said before anything is trained.
    PROTOCOLS[config.protocol].passes(store, config.split)
    return Classification(store, config, num_clips)


@dataclass(frozen=True)
class Classification:
    """A network is trained to tell the classes apart, and scored by its guesses.

    Attributes:
        num_clips: clips that it is trained on.
    """

    store: ClipStore
    config: EvaluateConfig
    num_clips: int

    @property
    def chance(self) -> dict[str, float]:
        """What guessing at random scores."""
        return {f"top{k}": min(1.0, k / len(self.store.classes)) for k in (1, 5)}

    @property
    def batch_size(self) -> int:
        """Clips of a training step."""
        return min(self.config.batch_size, self.num_clips)

    def judge(self, network: Network, clips: Clips | Draw, seed: int) -> tuple[float, dict[str, float]]:
        """Train the network and score it when the protocol says so; for each metric the best score counts."""
        store, config, protocol = self.store, self.config, PROTOCOLS[self.config.protocol]
        checkpoints, scores = protocol.checkpoints(config.epochs), []

        def look(epoch: int) -> None:
            if epoch in checkpoints:
                scores.append(self._score(network, protocol.flips(store, seed, epoch)))

        normalisation = protocol.standardisation(store)
        loss = train(network, clips, normalisation, config.schedule, seed=seed, flip=store.flip, after_epoch=look)
        return loss, {metric: max(one[metric] for one in scores) for metric in METRICS["classification"]}

    def _score(self, network: Network, flips: torch.Generator | None) -> dict[str, float]:
        protocol = PROTOCOLS[self.config.protocol]
        passes, normalisation = (
            protocol.passes(self.store, self.config.split),
            protocol.standardisation(self.store),
        )
        # In batches no larger than those of training, so that scoring takes no memory that was not counted; but
        # where a batch is standardised, its size is part of the protocol.
        shown = self.config.batch_size if protocol.standardises_batches else self.batch_size
        outputs = torch.cat([outputs_of(network, clips, normalisation, shown, flips) for clips in passes])
        labels = torch.cat([clips.labels for clips in passes])
        return {f"top{k}": top_k(outputs, labels, k) for k in (1, 5)}
