"""Trials: what is trained on, once for each seed, and the result that grows with every one of them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from prism.clips import Clips
from prism.condensed import CondensedSet
from prism.config import EvaluateConfig, RetrieveConfig, as_dict
from prism.errors import ConfigError, ResultError
from prism.progress import progress_bar
from prism.protocols import Protocol
from prism.results import HEADINGS, Data, Result, Run, Subject, relative_to_result
from prism.runtime import check_output_file, claim, first_difference, generator, pick_device, provenance
from prism.store import ClipStore
from prism.train import Draw

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
        judge: trains on clips from a seed and scores; returns the mean loss of the last epoch, and for each
            metric the score, in 0..1.
    """

    chance: dict[str, float]
    judge: Callable[[Clips | Draw, int], tuple[float, dict[str, float]]]


def run_trials(
    verb: str,
    config: Config,
    protocol: Protocol,
    prepare: Callable[[ClipStore, torch.device, int], Examination],
    condensed: CondensedSet | str | Path | None,
    data: ClipStore | str | Path,
    *,
    train_store: ClipStore | str | Path | None,
    output: str | Path | None,
    label: str | None,
    resume: bool,
    overwrite: bool,
    device: str,
    progress: bool,
) -> Result:
    """Train on a set, or on real clips, once for each seed; write the result after every one.

    Everything that can be refused is refused before the first network is trained. A seed draws nothing from
    the seeds before it, so a resumed result has the runs of an uninterrupted one.

    Args:
        verb: a key of `TASKS`.
        config: its `seeds`, `seed`, `split` and `train_vpc` are used here.
        protocol: its name goes into the result, and it says which clips are scored.
        prepare: makes the examination, from the store, the device and the number of clips to train on.
        condensed: the set, or its file. None with `train_store`.
        data: the store whose `config.split` is scored.
        train_store: train on real clips of this store instead: all of them, or `config.train_vpc` random
            ones of each class, anew for each seed.
        output: the result file. None: no file.
        label: the row's name in tables; the method by default.
        resume: keep the runs of the result that is there and train the seeds that it lacks.
        overwrite: replace an output.
        device: `auto`, `cpu` or `cuda`.
        progress: show a progress bar.

    Raises:
        ConfigError: the set and the data do not fit each other.
        StoreError: the split is empty, or a store was changed meanwhile.
        ResultError: `resume` finds the result of another run.
        OutputError: the output exists, cannot be written, or another run is writing it.
    """
    task = TASKS[verb]
    store = data if isinstance(data, ClipStore) else ClipStore.open(data)
    if (condensed is None) == (train_store is None):
        raise ConfigError(f"{verb} needs either a condensed set or --train STORE, and not both.")
    if resume and output is None:
        raise ConfigError("resume needs the result to go on with. Name it with --output.")
    with claim(output):
        if output is not None:
            check_output_file(Path(output), overwrite or resume)
        trainee = _trainees(condensed, train_store, store, config, output, verb)
        first = trainee(config.seed)
        name, scored = label or first.subject.method, _data(store, protocol.split(config.split), output)
        result = Result(name, task, protocol.name, first.subject, scored, as_dict(config), (), provenance())
        found = _found(Path(output), result) if resume and output and Path(output).exists() else None
        if found and {run.seed for run in found.runs} >= set(_seeds(config)):
            return found
        examination = prepare(store, pick_device(device), first.subject.num_videos)
        runs = found.runs if found else ()
        result = replace(result, data=replace(scored, chance=examination.chance), runs=runs)
        seeds = [seed for seed in _seeds(config) if seed not in {run.seed for run in runs}]
        return _train_on(seeds, result, trainee, examination, store, output, progress)


def _train_on(
    seeds: list[int],
    result: Result,
    trainee: Callable[[int], Trainee],
    examination: Examination,
    store: ClipStore,
    output: str | Path | None,
    progress: bool,
) -> Result:
    """The result with a run for each of these seeds beside those it has, saved after every one."""
    lead, total = result.metrics[0], result.config["seeds"]
    what = "Evaluating" if result.task == "classification" else "Retrieving"
    with progress_bar(what, total, "seeds", enabled=progress, done=total - len(seeds)) as advance:
        for seed in seeds:
            shown, started = trainee(seed), time.monotonic()
            loss, scores = examination.judge(shown.clips, seed)
            run = Run(seed, scores, loss, round(time.monotonic() - started, 3))
            runs = tuple(sorted([*result.runs, run], key=lambda run: run.seed))
            result = replace(result, runs=runs, provenance=provenance())
            for read in filter(None, (store, shown.store)):
                read.check_unchanged()
            if output is not None:
                result.save(output)
            advance(1, **{HEADINGS[lead]: f"{100 * run.scores[lead]:.1f}%"})
    return result


def _seeds(config: Config) -> range:
    return range(config.seed, config.seed + config.seeds)


def _found(path: Path, wanted: Result) -> Result:
    """The result that an earlier run left, if that run was the wanted one."""
    found = Result.load(path)
    if found.identity != wanted.identity:
        raise ResultError(
            f"result '{path}' belongs to another run: {first_difference(found.identity, wanted.identity)}. "
            "Repeat that run's options, or start again with --overwrite in place of --resume."
        )
    return found


def _data(store: ClipStore, split: str, output: str | Path | None) -> Data:
    """What is scored on; its chance is known to the examination only."""
    train_bytes = 4 * store.clip_bytes * len(store.positions("train"))
    num_clips = len(store.positions(split))
    path = relative_to_result(store.path, output)
    return Data(path, store.fingerprint, split, num_clips, len(store.classes), {}, train_bytes)


def _trainees(
    condensed: CondensedSet | str | Path | None,
    train_store: ClipStore | str | Path | None,
    store: ClipStore,
    config: Config,
    output: str | Path | None,
    verb: str,
) -> Callable[[int], Trainee]:
    """What is trained on for a seed."""
    if condensed is not None:
        return _of_set(condensed, store, config, output, verb)
    assert train_store is not None
    opened = train_store if isinstance(train_store, ClipStore) else ClipStore.open(train_store)
    return _of_store(opened, store, config, output, verb)


def _of_set(
    condensed: CondensedSet | str | Path, store: ClipStore, config: Config, output: str | Path | None, verb: str
) -> Callable[[int], Trainee]:
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
        condensed.fingerprint,
    )
    trainee = Trainee(condensed.clips if condensed.is_random else condensed.clips(), subject)
    return lambda seed: trainee


def _of_store(
    source: ClipStore, store: ClipStore, config: Config, output: str | Path | None, verb: str
) -> Callable[[int], Trainee]:
    _check_same_shape(source, store, "the store to train on")
    source.require_vpc(max(1, config.train_vpc), f"{verb}.train_vpc")
    everything = source.clips("train")
    path = relative_to_result(source.path, output)

    def subject(method: str, clips: Clips) -> Subject:
        num_bytes = len(clips) * source.clip_bytes
        num_frames = len(clips) * source.num_frames
        costs = (len(clips), num_frames, num_bytes, 4 * num_bytes)
        return Subject("store", path, method, *costs, {}, source.fingerprint)

    def trainee(seed: int) -> Trainee:
        if not config.train_vpc:
            return Trainee(everything, subject("full", everything), source)
        clips = everything.subset(source.sample(config.train_vpc, generator(seed, "subset")))
        return Trainee(clips, subject("subset", clips), source)

    return trainee


def _check_same_shape(source: CondensedSet | ClipStore, store: ClipStore, what: str) -> None:
    for name in ("classes", "num_frames", "size"):
        ours, theirs = getattr(source, name), getattr(store, name)
        if ours != theirs:
            raise ConfigError(f"{what} has {name} = {ours}, but the data '{store.path}' has {theirs}.")
