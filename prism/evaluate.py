"""Evaluation: what fresh networks learn from a set, judged by a named protocol."""

from pathlib import Path
from typing import Any

import torch

from prism.clips import Clips
from prism.condensed import CondensedSet
from prism.config import EvaluateConfig, with_options
from prism.models import Network
from prism.protocols import PROTOCOLS
from prism.results import METRICS, Result
from prism.store import ClipStore
from prism.train import Draw, outputs_of, top_k, train
from prism.trials import Examination, run_trials


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
        progress: show a progress bar.

    Raises:
        ConfigError: the set and the data do not fit each other, the network or the protocol, or training
            would take more memory than there is.
        OutputError: the output exists, cannot be written, or another run is writing it.
        ResultError: `resume` finds the result of another run.
    """
    config = with_options(EvaluateConfig, "evaluate", config, options)
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
        progress=progress,
    )


def _prepare(store: ClipStore, config: EvaluateConfig, num_clips: int) -> Examination:
    protocol, num_classes = PROTOCOLS[config.protocol], len(store.classes)
    passes, normalisation = protocol.passes(store, config.split), protocol.standardisation(store)
    labels, checkpoints = torch.cat([clips.labels for clips in passes]), protocol.checkpoints(config.epochs)
    batch_size = min(config.batch_size, num_clips)

    # In batches no larger than those of training, so that scoring takes no memory that was not counted; but where
    # a batch is standardised, its size is part of the protocol.
    shown = config.batch_size if protocol.standardises_batches else batch_size

    def score(network: Network, flips: torch.Generator | None) -> dict[str, float]:
        outputs = [outputs_of(network, clips, normalisation, shown, flips) for clips in passes]
        return {f"top{k}": top_k(torch.cat(outputs), labels, k) for k in (1, 5)}

    def judge(network: Network, clips: Clips | Draw, seed: int) -> tuple[float, dict[str, float]]:
        scores: list[dict[str, float]] = []

        def look(epoch: int) -> None:
            if epoch in checkpoints:
                scores.append(score(network, protocol.flips(store, seed, epoch)))

        loss = train(network, clips, normalisation, config, seed=seed, flip=store.flip, after_epoch=look)
        return loss, {metric: max(one[metric] for one in scores) for metric in METRICS["classification"]}

    return Examination({f"top{k}": min(1.0, k / num_classes) for k in (1, 5)}, batch_size, judge)
