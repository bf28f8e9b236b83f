"""Trials: what is trained on, once for each seed, and the result that grows with every one of them."""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

import torch
from torch import Tensor

from prism.artifacts.clips import Clips
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import HEADINGS, Data, Result, Run, Subject, relative_to_result
from prism.artifacts.store import ClipStore
from prism.config import as_dict
from prism.errors import CondensedError, ConfigError, Interrupted, ResultError
from prism.evaluation.options import EvaluateConfig, RetrieveConfig
from prism.evaluation.protocols import Protocol
from prism.machine.devices import in_one_thread, pick_device
from prism.machine.executors import completed
from prism.machine.files import check_output_file
from prism.machine.free_memory import available_memory_bytes
from prism.machine.locks import claim
from prism.machine.progress import progress_bar
from prism.machine.provenance import provenance
from prism.machine.randomness import generator
from prism.machine.texts import first_difference
from prism.networks.build import allocate, build_for
from prism.networks.network import Network
from prism.networks.training import Draw
from prism.networks.training_memory import TrainingMemory, check_memory, num_side_by_side

TASKS = {"evaluate": "classification", "retrieve": "retrieval"}
"""Verb: its task, a key of `results.METRICS`."""

Config = EvaluateConfig | RetrieveConfig


class Material(Interface):
    """What networks are trained on."""

    def clips(self, seed: int) -> Clips | Draw:
        """What is shown to the network of a seed."""
        ...

    def check_unchanged(self) -> None:
        """Refuse clips that were changed since they were opened.

        Raises:
            StoreError: they were.
        """
        ...


class Examination(Interface):
    """How one verb judges what it is given; made for a store before anything is trained."""

    @property
    def chance(self) -> dict[str, float]:
        """For each metric of the task what guessing at random scores, in 0..1."""
        ...

    @property
    def batch_size(self) -> int:
        """Clips of a training step."""
        ...

    def judge(self, network: Network, clips: Clips | Draw, seed: int) -> tuple[float, dict[str, float]]:
        """Train a network on clips from a seed and score it.

        Returns:
            The mean loss of the last epoch, and for each metric the score, in 0..1.
        """
        ...


@dataclass(frozen=True)
class Trial:
    """One network for each seed, trained and scored by itself, here or where an executor computes.

    Attributes:
        config: says which network.
        device: `auto`, `cpu` or `cuda` of the machine that it is trained on.
        stopped: once it is set, training ends at the network's next layer; None where nobody could set it.
    """

    config: Config
    store: ClipStore
    material: Material
    examination: Examination
    device: str
    stopped: threading.Event | None = None

    def __call__(self, seed: int) -> Run:
        """Train and score the network of a seed; the scores depend on nothing but what is above.

        Raises:
            DivergedError: the loss is not finite.
            StoreError: a store was changed meanwhile.
            Interrupted: the run was stopped.
        """
        started, device = time.monotonic(), pick_device(self.device)
        network = allocate(self.blank(), device)
        for module in network.modules():
            module.register_forward_pre_hook(self._go_on)
        with in_one_thread(device):
            loss, scores = self.examination.judge(network, self.material.clips(seed), seed)
        run = Run(seed, scores, loss, round(time.monotonic() - started, 3))
        for read in (self.store, self.material):
            read.check_unchanged()
        return run

    def elsewhere(self, seed: int) -> Run:
        """Like a call, on a machine of which it is not known yet whether the training fits into its memory."""
        self.check_memory()
        return self(seed)

    def check_memory(self) -> TrainingMemory:
        """What training one network takes.

        Raises:
            ConfigError: that is more than this machine has.
        """
        return check_memory(self.blank(), self.examination.batch_size, pick_device(self.device))

    def blank(self) -> Network:
        """The network on the meta device."""
        config = self.config
        return build_for(self.store, config.model, "meta", width=config.width, hidden=config.hidden)

    def _go_on(self, *_: object) -> None:
        if self.stopped and self.stopped.is_set():
            raise Interrupted("stopped.")


def run_trials(
    verb: str,
    config: Config,
    protocol: Protocol,
    prepare: Callable[[ClipStore, int], Examination],
    condensed: CondensedSet | str | Path | None,
    data: ClipStore | str | Path,
    *,
    train_store: ClipStore | str | Path | None,
    output: str | Path | None,
    label: str | None,
    resume: bool,
    overwrite: bool,
    device: str,
    workers: int | None,
    executor: Executor | None,
    progress: bool,
) -> Result:
    """Train on a set, or on real clips, once for each seed; write the result after every one.

    Everything that can be refused is refused before the first network is trained. A seed draws nothing from
    other seeds, so a resumed result has the runs of an uninterrupted one, and on a CPU, where every network is
    trained in one thread, the number of threads and of networks side by side changes no score.

    Args:
        verb: a key of `TASKS`.
        config: its `seeds`, `seed`, `split` and `train_vpc` are used here.
        protocol: its name goes into the result, and it says which clips are scored.
        prepare: makes the examination, from the store and the number of clips to train on.
        condensed: the set, or its file. None with `train_store`.
        data: the store whose `config.split` is scored.
        train_store: train on real clips of this store instead: all of them, or `config.train_vpc` random
            ones of each class, anew for each seed.
        output: the result file. None: no file.
        label: the row's name in tables; the method by default.
        resume: keep the runs of the result that is there and train the seeds that it lacks.
        overwrite: replace an output.
        device: `auto`, `cpu` or `cuda`.
        workers: networks that are trained side by side, if there are so many and memory suffices; None: as many
            as PyTorch would use threads. On a GPU always one.
        executor: trains them in place of this process, where the folders of store and set are the same.
        progress: show a progress bar.

    Raises:
        ConfigError: the set and the data do not fit each other, or training would take more memory than there is.
        StoreError: the split is empty, or a store was changed meanwhile.
        ResultError: `resume` finds the result of another run.
        OutputError: the output exists, cannot be written, or another run is writing it.
    """
    task = TASKS[verb]
    if workers is not None and (workers < 1 or executor is not None):
        allowed = "at least 1" if executor is None else "left out with an engine, which has workers of its own"
        raise ConfigError(f"workers = {workers}, but it must be {allowed}.")
    store = data if isinstance(data, ClipStore) else ClipStore.open(data)
    if (condensed is None) == (train_store is None):
        raise ConfigError(f"{verb} needs either a condensed set or --train STORE, and not both.")
    if resume and output is None:
        raise ConfigError("resume needs the result to go on with. Name it with --output.")
    with claim(output):
        if output is not None:
            check_output_file(Path(output), overwrite or resume)
        material, subject = _material(condensed, train_store, store, config, output, verb)
        name, scored = label or subject.method, _data(store, protocol.split(config.split), output)
        result = Result(name, task, protocol.name, subject, scored, as_dict(config), (), provenance())
        found = _found(Path(output), result) if resume and output and Path(output).exists() else None
        if found and {run.seed for run in found.runs} >= set(_seeds(config)):
            return found
        examination = prepare(store, subject.num_videos)
        runs = found.runs if found else ()
        result = replace(result, data=replace(scored, chance=examination.chance), runs=runs)
        seeds = [seed for seed in _seeds(config) if seed not in {run.seed for run in runs}]
        trial = Trial(config, store, material, examination, device)
        if executor is None:
            most = min(len(seeds), torch.get_num_threads() if workers is None else workers)
            with _threads(trial, most) as (threads, stoppable):
                return _grown(result, completed(threads, stoppable, seeds), output, progress)
        return _grown(result, completed(executor, trial.elsewhere, seeds), output, progress)


def _grown(result: Result, found: Iterator[tuple[int, Run]], output: str | Path | None, progress: bool) -> Result:
    """The result with more runs beside those it has, saved after every one."""
    lead, total, done = result.metrics[0], result.config["seeds"], len(result.runs)
    what = "Evaluating" if result.task == "classification" else "Retrieving"
    with progress_bar(what, total, "seeds", enabled=progress, done=done) as advance:
        for _, run in found:
            runs = tuple(sorted([*result.runs, run], key=lambda run: run.seed))
            result = replace(result, runs=runs, provenance=provenance())
            if output is not None:
                result.save(output)
            advance(1, **{HEADINGS[lead]: f"{100 * run.scores[lead]:.1f}%"})
    return result


@contextlib.contextmanager
def _threads(trial: Trial, most: int) -> Iterator[tuple[Executor | None, Trial]]:
    """Threads that train networks side by side, and what they call; None where one is trained after the other.

    PyTorch computes without Python's lock, so threads are about as fast as processes would be.
    """
    needs, device = trial.check_memory(), pick_device(trial.device)
    num = num_side_by_side(needs, device, most) if device.type == "cpu" else 1
    if num == 1:
        yield None, trial
        return
    stopped = threading.Event()
    with in_one_thread(device), ThreadPoolExecutor(num, "prism-trial") as executor:
        try:
            yield executor, replace(trial, stopped=stopped)
        finally:
            # Before the threads are waited for: Ctrl-C must not wait for the ends of their trainings.
            stopped.set()


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


def _material(
    condensed: CondensedSet | str | Path | None,
    train_store: ClipStore | str | Path | None,
    store: ClipStore,
    config: Config,
    output: str | Path | None,
    verb: str,
) -> tuple[Material, Subject]:
    """What is trained on, and what the result says of it."""
    if condensed is not None:
        return _set_material(condensed, store, config, output, verb)
    assert train_store is not None
    opened = train_store if isinstance(train_store, ClipStore) else ClipStore.open(train_store)
    return _store_material(opened, store, config, output, verb)


@dataclass(frozen=True)
class SetMaterial:
    """A condensed set, as a whole for every seed; its clips are drawn anew in every epoch if it is random."""

    condensed: CondensedSet
    path: Path | None

    def __reduce__(self) -> tuple[Any, ...]:
        # A set in a file travels as its place, and is read and compared where it arrives.
        if self.path is None:
            return SetMaterial, (self.condensed, None)
        return _arrived, (self.path.absolute(), self.condensed.fingerprint)

    def clips(self, seed: int) -> Clips | Draw:
        """The same for all seeds."""
        if not self.condensed.is_random:
            return self._rendered
        return self._take if self._has_room else self.condensed.clips

    def _take(self, generator: torch.Generator) -> Clips:
        """What `CondensedSet.clips` draws, of clips that are rendered once rather than in every epoch."""
        frames = self._takes[self.condensed.drawn(generator)]
        return Clips(frames, self.condensed.labels, self.condensed.classes)

    @cached_property
    def _has_room(self) -> bool:
        """Whether all takes, which are no draws themselves, fit into a quarter of the memory, asked once."""
        held, encoding = self.condensed, self.condensed.encoding
        num_bytes = 12 * held.num_frames * math.prod(held.size) * held.takes * len(held)
        room = (available_memory_bytes(torch.device("cpu")) or 0) / 4
        return not encoding.is_random and num_bytes <= room

    @cached_property
    def _takes(self) -> Tensor:
        held = self.condensed
        return held.encoding.render(torch.arange(len(held) * held.takes), held.normalisation, None)

    @cached_property
    def _rendered(self) -> Clips:
        return self.condensed.clips()

    def check_unchanged(self) -> None:
        """Nothing: the set is in memory."""


def _arrived(path: Path, fingerprint: str) -> SetMaterial:
    condensed = CondensedSet.load(path)
    if condensed.fingerprint != fingerprint:
        raise CondensedError(
            f"'{path}' holds another set here than where the run was begun. All machines of a run must see "
            "the same files."
        )
    return SetMaterial(condensed, path)


@dataclass(frozen=True)
class StoreMaterial:
    """The training clips of a store: all, or `train_vpc` random ones of each class, anew for each seed."""

    store: ClipStore
    train_vpc: int

    def clips(self, seed: int) -> Clips:
        """Those of a seed."""
        everything = self.store.clips("train")
        if not self.train_vpc:
            return everything
        return everything.subset(self.store.sample(self.train_vpc, generator(seed, "subset")))

    def check_unchanged(self) -> None:
        """Refuse a store that was changed since it was opened."""
        self.store.check_unchanged()


def _set_material(
    condensed: CondensedSet | str | Path, store: ClipStore, config: Config, output: str | Path | None, verb: str
) -> tuple[Material, Subject]:
    file = None if isinstance(condensed, CondensedSet) else Path(condensed)
    condensed = condensed if isinstance(condensed, CondensedSet) else CondensedSet.load(condensed)
    _check_same_shape(condensed, store, "the condensed set")
    if config.train_vpc:
        raise ConfigError(f"{verb}.train_vpc needs --train STORE; a condensed set is trained on as a whole.")
    source, made_by = condensed.source, condensed.source.get("config")
    subject = Subject(
        "condensed",
        relative_to_result(file, output) if file else "",
        str(source.get("method", "unknown")),
        len(condensed),
        condensed.num_keyframes,
        condensed.num_bytes,
        condensed.float32_bytes,
        made_by if isinstance(made_by, dict) else {},
        condensed.fingerprint,
    )
    return SetMaterial(condensed, file), subject


def _store_material(
    source: ClipStore, store: ClipStore, config: Config, output: str | Path | None, verb: str
) -> tuple[Material, Subject]:
    _check_same_shape(source, store, "the store to train on")
    source.require_vpc(max(1, config.train_vpc), f"{verb}.train_vpc")
    material = StoreMaterial(source, config.train_vpc)
    counts = source.counts("train")
    num_clips = int((counts.clamp(max=config.train_vpc) if config.train_vpc else counts).sum())
    num_bytes = num_clips * source.clip_bytes
    subject = Subject(
        "store",
        relative_to_result(source.path, output),
        "subset" if config.train_vpc else "full",
        num_clips,
        num_clips * source.num_frames,
        num_bytes,
        4 * num_bytes,
        {},
        source.fingerprint,
    )
    return material, subject


def _check_same_shape(source: CondensedSet | ClipStore, store: ClipStore, what: str) -> None:
    for name in ("classes", "num_frames", "size"):
        ours, theirs = getattr(source, name), getattr(store, name)
        if ours != theirs:
            raise ConfigError(f"{what} has {name} = {ours}, but the data '{store.path}' has {theirs}.")
