"""Evaluation: what fresh networks learn from a set. Nothing is ever chosen on the clips that score it."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from prism import models
from prism.clips import Clips, Normalisation
from prism.condensed import CondensedSet
from prism.config import EvaluateConfig, as_dict, with_options
from prism.errors import ConfigError
from prism.progress import progress_bar
from prism.results import Data, Result, Run, Subject, relative_to_result
from prism.runtime import check_output_file, generator, pick_device, provenance
from prism.store import ClipStore
from prism.train import Draw, logits_of, top_k, train

PROTOCOL = "clean"


@dataclass(frozen=True)
class Trainee:
    """Clips to train on for one seed, and what the result says of them."""

    clips: Clips | Draw
    subject: Subject


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
        OutputError: the output exists or cannot be written.
    """
    store = data if isinstance(data, ClipStore) else ClipStore.open(data)
    config = with_options(EvaluateConfig, "evaluate", config, options)
    if (condensed is None) == (train_store is None):
        raise ConfigError("evaluate needs either a condensed set or --train STORE, and not both.")
    if output is not None:
        check_output_file(Path(output), overwrite)
    test = store.clips(config.split)
    trainees = _of_set(condensed, store, config, output) if condensed is not None else None
    if trainees is None:
        assert train_store is not None
        opened = train_store if isinstance(train_store, ClipStore) else ClipStore.open(train_store)
        trainees = _of_store(opened, store, config, output)
    first = next(trainees)
    network = _network(store, config, min(config.batch_size, first.subject.num_videos), pick_device(device))
    runs: list[Run] = []
    result: Result | None = None
    with progress_bar("Evaluating", config.seeds, "seeds", enabled=progress) as advance:
        for seed, trainee in enumerate(itertools.chain([first], trainees), config.seed):
            runs.append(_run(network, trainee.clips, test, store.normalisation, config, seed, store.flip))
            result = Result(
                label or trainee.subject.method,
                PROTOCOL,
                trainee.subject,
                _data(store, config, output),
                as_dict(config),
                tuple(runs),
                provenance(),
            )
            if output is not None:
                result.save(output)
            advance(1, top1=f"{100 * runs[-1].top1:.1f}%")
    assert result is not None
    return result


def _network(store: ClipStore, config: EvaluateConfig, batch_size: int, device: torch.device) -> models.Network:
    """The network to train, if the device has the memory for it."""
    network = models.build(
        config.model,
        "meta",
        num_classes=len(store.classes),
        num_frames=store.num_frames,
        size=store.size,
        width=config.width,
        hidden=config.hidden,
    )
    models.check_memory(network, batch_size, device)
    return network.to_empty(device=device)


def _run(
    network: models.Network,
    clips: Clips | Draw,
    test: Clips,
    normalisation: Normalisation,
    config: EvaluateConfig,
    seed: int,
    flip: bool,
) -> Run:
    started = time.monotonic()
    loss = train(network, clips, normalisation, config, seed=seed, flip=flip)
    logits = logits_of(network, test, normalisation, config.batch_size)
    top1, top5 = (top_k(logits, test.labels, k) for k in (1, 5))
    return Run(seed, top1, top5, loss, round(time.monotonic() - started, 3))


def _data(store: ClipStore, config: EvaluateConfig, output: str | Path | None) -> Data:
    train_bytes = 4 * store.clip_bytes * len(store.positions("train"))
    num_clips = len(store.positions(config.split))
    path = relative_to_result(store.path, output)
    return Data(path, store.fingerprint, config.split, num_clips, len(store.classes), train_bytes)


def _of_set(
    condensed: CondensedSet | str | Path, store: ClipStore, config: EvaluateConfig, output: str | Path | None
) -> Iterator[Trainee]:
    path = "" if isinstance(condensed, CondensedSet) else relative_to_result(condensed, output)
    condensed = condensed if isinstance(condensed, CondensedSet) else CondensedSet.load(condensed)
    _check_same_shape(condensed, store, "the condensed set")
    if config.train_vpc:
        raise ConfigError("evaluate.train_vpc needs --train STORE; a condensed set is trained on as a whole.")
    source, made_by = condensed.source, condensed.source.get("config")
    subject = Subject(
        "condensed",
        path,
        str(source.get("method", "unknown")),
        len(condensed),
        condensed.num_keyframes,
        condensed.num_bytes,
        condensed.float32_bytes,
        made_by if isinstance(made_by, dict) else {},
    )
    clips = condensed.clips if condensed.is_random else condensed.clips()
    return iter([Trainee(clips, subject)] * config.seeds)


def _of_store(
    source: ClipStore, store: ClipStore, config: EvaluateConfig, output: str | Path | None
) -> Iterator[Trainee]:
    _check_same_shape(source, store, "the store to train on")
    source.require_vpc(max(1, config.train_vpc), "evaluate.train_vpc")
    everything = source.clips("train")
    path = relative_to_result(source.path, output)

    def subject(method: str, clips: Clips) -> Subject:
        num_bytes = len(clips) * source.clip_bytes
        num_frames = len(clips) * source.num_frames
        return Subject("store", path, method, len(clips), num_frames, num_bytes, 4 * num_bytes, {})

    def trainee(seed: int) -> Trainee:
        if not config.train_vpc:
            return Trainee(everything, subject("full", everything))
        clips = everything.subset(source.sample(config.train_vpc, generator(seed, "subset")))
        return Trainee(clips, subject("subset", clips))

    return (trainee(config.seed + i) for i in range(config.seeds))


def _check_same_shape(source: CondensedSet | ClipStore, store: ClipStore, what: str) -> None:
    for name in ("classes", "num_frames", "size"):
        ours, theirs = getattr(source, name), getattr(store, name)
        if ours != theirs:
            raise ConfigError(f"{what} has {name} = {ours}, but the data '{store.path}' has {theirs}.")
