"""Evaluation: what fresh networks learn from a set. Nothing is ever chosen on the clips that score it."""

from pathlib import Path
from typing import Any

import torch

from prism import models
from prism.clips import Clips
from prism.condensed import CondensedSet
from prism.config import EvaluateConfig, with_options
from prism.results import Result
from prism.runtime import claim
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
    overwrite: bool = False,
    device: str = "auto",
    progress: bool = False,
    **options: Any,
) -> Result:
    """Train fresh networks on a set and score each once, after its last epoch.

    Args:
        condensed: the set, or its file. None with `train_store`.
        data: the store whose `config.split` is scored; its training pixels fix the normalisation.
        config: network and schedule; `options` replace single fields of it.
        train_store: train on real clips of this store instead: all of them (the ceiling), or
            `config.train_vpc` random ones of each class, anew for each seed (the floor).
        output: the result file; it is written after every seed. None: no file.
        label: the row's name in tables; the method by default.
        overwrite: replace an output.
        device: `auto`, `cpu` or `cuda`.
        progress: show a progress bar.

    Raises:
        ConfigError: the set and the data do not fit each other, or the network, or training would take
            more memory than there is.
        OutputError: the output exists, cannot be written, or another run is writing it.
    """
    config = with_options(EvaluateConfig, "evaluate", config, options)
    with claim(output):
        return run_trials(
            "evaluate",
            config,
            lambda store, where, num_clips: _prepare(store, config, where, num_clips),
            condensed,
            data,
            train_store=train_store,
            output=output,
            label=label,
            overwrite=overwrite,
            device=device,
            progress=progress,
        )


def _prepare(store: ClipStore, config: EvaluateConfig, device: torch.device, num_clips: int) -> Examination:
    scored, normalisation, num_classes = store.clips(config.split), store.normalisation, len(store.classes)
    network = models.build_for(store, config.model, "meta", width=config.width, hidden=config.hidden)
    models.check_memory(network, min(config.batch_size, num_clips), device)
    network.to_empty(device=device)

    def train_on(clips: Clips | Draw, seed: int) -> float:
        return train(network, clips, normalisation, config, seed=seed, flip=store.flip)

    def score() -> dict[str, float]:
        logits = outputs_of(network, scored, normalisation, config.batch_size)
        return {f"top{k}": top_k(logits, scored.labels, k) for k in (1, 5)}

    return Examination({f"top{k}": min(1.0, k / num_classes) for k in (1, 5)}, train_on, score)
