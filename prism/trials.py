"""Trials: what is trained on, once for each seed, and the result that grows with every one of them."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from prism.clips import Clips
from prism.condensed import CondensedSet
from prism.config import EvaluateConfig, RetrieveConfig, as_dict
from prism.errors import ConfigError
from prism.progress import progress_bar
from prism.results import HEADINGS, METRICS, Data, Result, Run, Subject, relative_to_result
from prism.runtime import check_output_file, generator, pick_device, provenance
from prism.store import ClipStore
from prism.train import Draw

PROTOCOL = "clean"
TASKS = {"evaluate": "classification", "retrieve": "retrieval"}
"""Verb: its task, a key of `results.METRICS`."""

Config = EvaluateConfig | RetrieveConfig


@dataclass(frozen=True)
class Trainee:
    """Clips to train on for one seed, what the result says of them, and the store that they are in, if any."""

    clips: Clips | Draw
    subject: Subject
    store: ClipStore | None = None


@dataclass(frozen=True)
class Examination:
    """How one verb judges what it is given; made for a store and a device before anything is trained.

    Attributes:
        chance: for each metric of the task what guessing at random scores, in 0..1.
        train: trains on clips from a seed and returns the mean loss of the last epoch.
        score: the trained network's score for each metric, in 0..1.
    """

    chance: dict[str, float]
    train: Callable[[Clips | Draw, int], float]
    score: Callable[[], dict[str, float]]


def run_trials(
    verb: str,
    config: Config,
    prepare: Callable[[ClipStore, torch.device, int], Examination],
    condensed: CondensedSet | str | Path | None,
    data: ClipStore | str | Path,
    *,
    train_store: ClipStore | str | Path | None,
    output: str | Path | None,
    label: str | None,
    overwrite: bool,
    device: str,
    progress: bool,
) -> Result:
    """Train on a set, or on real clips, once for each seed; write the result after every one.

    Everything that can be refused is refused before the first network is trained.

    Args:
        verb: a key of `TASKS`.
        config: its `seeds`, `seed`, `split` and `train_vpc` are used here.
        prepare: makes the examination, from the store, the device and the number of clips to train on.
        condensed: the set, or its file. None with `train_store`.
        data: the store whose `config.split` is scored.
        train_store: train on real clips of this store instead: all of them, or `config.train_vpc` random
            ones of each class, anew for each seed.
        output: the result file. None: no file.
        label: the row's name in tables; the method by default.
        overwrite: replace an output.
        device: `auto`, `cpu` or `cuda`.
        progress: show a progress bar.

    Raises:
        ConfigError: the set and the data do not fit each other.
        StoreError: the split is empty, or a store was changed meanwhile.
        OutputError: the output exists or cannot be written.
    """
    task = TASKS[verb]
    store = data if isinstance(data, ClipStore) else ClipStore.open(data)
    if (condensed is None) == (train_store is None):
        raise ConfigError(f"{verb} needs either a condensed set or --train STORE, and not both.")
    if output is not None:
        check_output_file(Path(output), overwrite)
    trainees = _trainees(condensed, train_store, store, config, output, verb)
    first = next(trainees)
    examination = prepare(store, pick_device(device), first.subject.num_videos)
    scored = _data(store, config, output, examination.chance)
    lead = METRICS[task][0]
    runs: list[Run] = []
    result: Result | None = None
    with progress_bar(f"{verb[:-1].title()}ing", config.seeds, "seeds", enabled=progress) as advance:
        for seed, trainee in enumerate(itertools.chain([first], trainees), config.seed):
            started = time.monotonic()
            loss = examination.train(trainee.clips, seed)
            runs.append(Run(seed, examination.score(), loss, round(time.monotonic() - started, 3)))
            for read in (store, trainee.store):
                if read is not None:
                    read.check_unchanged()
            name, subject = label or trainee.subject.method, trainee.subject
            result = Result(name, task, PROTOCOL, subject, scored, as_dict(config), tuple(runs), provenance())
            if output is not None:
                result.save(output)
            advance(1, **{HEADINGS[lead]: f"{100 * runs[-1].scores[lead]:.1f}%"})
    assert result is not None
    return result


def _data(store: ClipStore, config: Config, output: str | Path | None, chance: dict[str, float]) -> Data:
    train_bytes = 4 * store.clip_bytes * len(store.positions("train"))
    num_clips = len(store.positions(config.split))
    path = relative_to_result(store.path, output)
    return Data(path, store.fingerprint, config.split, num_clips, len(store.classes), chance, train_bytes)


def _trainees(
    condensed: CondensedSet | str | Path | None,
    train_store: ClipStore | str | Path | None,
    store: ClipStore,
    config: Config,
    output: str | Path | None,
    verb: str,
) -> Iterator[Trainee]:
    if condensed is not None:
        return _of_set(condensed, store, config, output, verb)
    assert train_store is not None
    opened = train_store if isinstance(train_store, ClipStore) else ClipStore.open(train_store)
    return _of_store(opened, store, config, output, verb)


def _of_set(
    condensed: CondensedSet | str | Path, store: ClipStore, config: Config, output: str | Path | None, verb: str
) -> Iterator[Trainee]:
    path = "" if isinstance(condensed, CondensedSet) else relative_to_result(condensed, output)
    condensed = condensed if isinstance(condensed, CondensedSet) else CondensedSet.load(condensed)
    _check_same_shape(condensed, store, "the condensed set")
    if config.train_vpc:
        raise ConfigError(f"{verb}.train_vpc needs --train STORE; a condensed set is trained on as a whole.")
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
    source: ClipStore, store: ClipStore, config: Config, output: str | Path | None, verb: str
) -> Iterator[Trainee]:
    _check_same_shape(source, store, "the store to train on")
    source.require_vpc(max(1, config.train_vpc), f"{verb}.train_vpc")
    everything = source.clips("train")
    path = relative_to_result(source.path, output)

    def subject(method: str, clips: Clips) -> Subject:
        num_bytes = len(clips) * source.clip_bytes
        num_frames = len(clips) * source.num_frames
        return Subject("store", path, method, len(clips), num_frames, num_bytes, 4 * num_bytes, {})

    def trainee(seed: int) -> Trainee:
        if not config.train_vpc:
            return Trainee(everything, subject("full", everything), source)
        clips = everything.subset(source.sample(config.train_vpc, generator(seed, "subset")))
        return Trainee(clips, subject("subset", clips), source)

    return (trainee(config.seed + i) for i in range(config.seeds))


def _check_same_shape(source: CondensedSet | ClipStore, store: ClipStore, what: str) -> None:
    for name in ("classes", "num_frames", "size"):
        ours, theirs = getattr(source, name), getattr(store, name)
        if ours != theirs:
            raise ConfigError(f"{what} has {name} = {ours}, but the data '{store.path}' has {theirs}.")
