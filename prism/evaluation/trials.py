"""Trials: one network for each seed is trained and scored, and the result grows with every one of them."""

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch

from prism.artifacts import results
from prism.artifacts.clips import Clips
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import HEADINGS, Data, Result, Subject, relative_to_result
from prism.artifacts.store import ClipStore
from prism.config import as_dict
from prism.errors import CondensedError, ConfigError, Interrupted, ResultError
from prism.evaluation.options import EvaluateConfig, RetrieveConfig
from prism.evaluation.protocols import CLEAN, EvaluationProtocol
from prism.machine.devices import in_one_thread, pick_device
from prism.machine.executors import completed
from prism.machine.files import check_output_file
from prism.machine.locks import claim
from prism.machine.progress import Advance, progress_bar, still
from prism.machine.provenance import check_same_run, provenance
from prism.machine.randomness import generator
from prism.machine.run import Run
from prism.networks.build import allocate, build_for
from prism.networks.network import Network
from prism.networks.training import Draw
from prism.networks.training_memory import TrainingMemory, check_memory, num_side_by_side

Config = EvaluateConfig | RetrieveConfig


@dataclass(frozen=True)
class Trials:
    """What networks are trained on and scored on: the arguments that `evaluate` and `retrieve` share.

    Attributes:
        condensed: the set, or its file. None with `train_store`.
        data: the store, or its folder, whose `config.split` is scored.
        train_store: train on real clips of this store instead: on all of them (the ceiling), or on
            `config.train_vpc` random ones of each class, drawn anew for each seed (the floor).
        label: the row's name in tables; the method by default.
        workers: how many networks are trained side by side at most, where memory suffices; by default what
            `workers_for` says. On a GPU it is always one, and an executor has workers of its own. The scores do
            not depend on it.
    """

    condensed: CondensedSet | str | Path | None
    data: ClipStore | str | Path
    train_store: ClipStore | str | Path | None = None
    label: str | None = None
    workers: int | None = None

    def check(self, verb: str, run: Run) -> None:
        """Refuse arguments that contradict each other.

        Raises:
            ConfigError: they do.
        """
        run.check_workers(self.workers)
        if (self.condensed is None) == (self.train_store is None):
            raise ConfigError(f"{verb} needs either a condensed set or --train STORE, and not both.")
        if run.resume and run.output is None:
            raise ConfigError("resume needs the result to go on with. Name it with --output.")


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
        """The clips for the network of a seed, the same for all seeds."""
        return self.condensed.clips if self.condensed.is_random else self._rendered

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
        """The clips for the network of a seed."""
        everything = self.store.clips("train")
        if not self.train_vpc:
            return everything
        return everything.subset(self.store.sample(self.train_vpc, generator(seed, "subset")))

    def check_unchanged(self) -> None:
        """Refuse clips that were changed since they were opened.

        Raises:
            StoreError: they were.
        """
        self.store.check_unchanged()


Material = SetMaterial | StoreMaterial
"""The clips that networks are trained on."""


@dataclass(frozen=True)
class Examination(ABC):
    """How a verb trains a network and scores it on a store.

    Attributes:
        TASK: a key of `results.METRICS`.
        DOING: the verb in the progress bar.
        store: the clips that are scored.
        config: the options of the verb.
        subject: the clips that a network is trained on.
    """

    TASK: ClassVar[str]
    DOING: ClassVar[str]
    store: ClipStore
    config: Config
    subject: Subject

    @property
    def protocol(self) -> EvaluationProtocol:
        """How clips are shown."""
        return CLEAN

    @property
    def num_clips(self) -> int:
        """Clips that a network is trained on in an epoch."""
        return self.subject.num_videos

    @abstractmethod
    def check(self) -> None:
        """Refuse a store that lacks clips to score.

        Raises:
            ConfigError: it does.
            StoreError: the split is empty.
        """

    @property
    @abstractmethod
    def chance(self) -> dict[str, float]:
        """The scores of random guesses, in 0..1, for each metric of the task."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """Clips of a training step."""

    @abstractmethod
    def judge(
        self, network: Network, clips: Clips | Draw, seed: int, advance: Advance
    ) -> tuple[float, dict[str, float]]:
        """Train a network on clips from a seed and score it; `advance` is called after every epoch.

        Returns:
            The mean loss of the last epoch, and for each metric the score, in 0..1.
        """


@dataclass(frozen=True)
class Trial:
    """One network for each seed, trained and scored by itself, here or where an executor computes.

    Attributes:
        device: `auto`, `cpu` or `cuda` of the machine that it is trained on.
        stopped: once it is set, training ends at the network's next layer; None where nobody could set it.
        advance: called after every epoch.
    """

    material: Material
    examination: Examination
    device: str
    stopped: threading.Event | None = None
    advance: Advance = still

    def __call__(self, seed: int) -> results.Run:
        """Train and score the network of a seed; the scores depend on nothing but the seed and the fields.

        Raises:
            DivergedError: the loss is not finite.
            StoreError: a store was changed meanwhile.
            Interrupted: the run was stopped.
        """
        started, device = time.monotonic(), pick_device(self.device)
        network = allocate(self.blank(), device)
        # Python cannot end a thread from outside, so a stopped training looks for itself, before every layer.
        for module in network.modules():
            module.register_forward_pre_hook(self._go_on)
        with in_one_thread(device):
            loss, scores = self.examination.judge(network, self.material.clips(seed), seed, self.advance)
        run = results.Run(seed, scores, loss, round(time.monotonic() - started, 3))
        for read in (self.examination.store, self.material):
            read.check_unchanged()
        return run

    def elsewhere(self, seed: int) -> results.Run:
        """Like a call, on a machine whose memory was not asked before."""
        self.check_memory()
        return self(seed)

    def check_memory(self) -> TrainingMemory:
        """The memory that training one network takes.

        Raises:
            ConfigError: that is more than this machine has.
        """
        return check_memory(self.blank(), self.examination.batch_size, pick_device(self.device))

    def blank(self) -> Network:
        """The network on the meta device."""
        config = self.examination.config
        return build_for(self.examination.store, config.model, "meta", width=config.width, hidden=config.hidden)

    def _go_on(self, *_: object) -> None:
        if self.stopped and self.stopped.is_set():
            raise Interrupted("stopped.")


def run_trials(trials: Trials, examination_type: type[Examination], config: Config, run: Run) -> Result:
    """Train a network for each seed and score it; write the result after every one.

    Everything that can be refused is refused before the first network is trained. No seed draws from another
    one, so a resumed result has the runs of an uninterrupted one. On a CPU every network is trained in one thread,
    so neither the number of threads nor that of networks side by side changes a score.

    Args:
        trials: what networks are trained on and scored on.
        examination_type: how the verb trains and scores.
        config: options of the verb.
        run: how it runs.

    Raises:
        ConfigError: the set and the data do not fit each other, or training would take more memory than there is.
        StoreError: the split is empty, or a store was changed meanwhile.
        ResultError: `run.resume` finds the result of another run.
        OutputError: the output exists, cannot be written, or another run is writing it.
    """
    trials.check(config.section, run)
    store, path = ClipStore.of(trials.data), run.path
    seeds = range(config.seed, config.seed + config.seeds)
    with claim(path):
        if path is not None:
            check_output_file(path, run.overwrite or run.resume, [trials.condensed])
        if trials.condensed is not None:
            material, subject = set_material(trials.condensed, store, config, path)
        else:
            assert trials.train_store is not None
            material, subject = store_material(ClipStore.of(trials.train_store), store, config, path)
        examination = examination_type(store, config, subject)
        result = _without_runs(examination, subject, trials.label or subject.method, path)
        if run.resume and path and path.exists():
            found = Result.load(path)
            check_same_run(f"result '{path}'", found.identity, result.identity, ResultError)
            if {one.seed for one in found.runs} >= set(seeds):
                return found
            result = replace(result, runs=found.runs)
        examination.check()
        result = replace(result, data=replace(result.data, chance=examination.chance))
        seeds = [seed for seed in seeds if seed not in {one.seed for one in result.runs}]
        trial = Trial(material, examination, run.device)
        total, done = config.epochs * config.seeds, config.epochs * len(result.runs)
        with progress_bar(examination.DOING, total, "epochs", enabled=run.progress, done=done) as advance:
            if run.executor is not None:
                # Nobody here sees the epochs of an executor: those of a network are counted when it is done.
                found = completed(run.executor, trial.elsewhere, seeds)
                return _grown(result, found, run, advance, config.epochs)
            most = trials.workers or workers_for(len(seeds), torch.get_num_threads())
            stopped = threading.Event()
            trial = replace(trial, stopped=stopped, advance=advance)
            with side_by_side(trial.check_memory(), pick_device(run.device), most) as threads:
                try:
                    return _grown(result, completed(threads, trial, seeds), run, advance)
                finally:
                    # Before the threads are waited for: Ctrl-C must not wait for the ends of their trainings.
                    stopped.set()


def workers_for(num_networks: int, num_threads: int) -> int:
    """How many networks to train side by side, so that no core is idle at the end.

    Three networks on two cores share them from the first epoch to the last. If the third waited for one of the
    others, a core would be idle while it is trained. More than twice as many networks as cores are trained in
    rounds of equal size.
    """
    rounds = max(1, num_networks // num_threads)
    return -(-num_networks // rounds)


def _without_runs(examination: Examination, subject: Subject, label: str, output: Path | None) -> Result:
    """The result before the first network; chance is filled in when the store has been checked."""
    store, protocol = examination.store, examination.protocol
    data = data_of(store, protocol.split(examination.config.split), {}, output)
    config = as_dict(examination.config)
    return Result(label, examination.TASK, protocol.name, subject, data, config, (), provenance())


def data_of(store: ClipStore, split: str, chance: dict[str, float], output: Path | None) -> Data:
    """The clips of a split, as the result at `output` records that networks are scored on them."""
    return Data(
        relative_to_result(store.path, output),
        store.fingerprint,
        split,
        len(store.positions(split)),
        len(store.classes),
        chance,
        4 * store.clip_bytes * len(store.positions("train")),
    )


def _grown(
    result: Result, found: Iterator[tuple[int, results.Run]], run: Run, advance: Advance, steps: int = 0
) -> Result:
    """The result with more runs beside those it has, saved after every one, which moves the bar by `steps`."""
    lead = result.metrics[0]
    for _, one in found:
        # Networks that are trained side by side end in any order.
        runs = tuple(sorted([*result.runs, one], key=lambda one: one.seed))
        result = replace(result, runs=runs, provenance=provenance())
        if run.path is not None:
            result.save(run.path)
        advance(steps, **{HEADINGS[lead]: f"{100 * one.scores[lead]:.1f}%"})
    return result


@contextlib.contextmanager
def side_by_side(needs: TrainingMemory, device: torch.device, most: int) -> Iterator[Executor | None]:
    """Threads that train up to `most` networks, as far as memory suffices; None for one after the other.

    PyTorch releases Python's lock while it computes, so threads are about as fast as processes would be, and
    they share the clips.
    """
    # A GPU is busy with one network; a CPU is not, since each of them computes in one thread.
    num = num_side_by_side(needs, device, most) if device.type == "cpu" else 1
    if num <= 1:
        yield None
        return
    # A thread takes over PyTorch's number of threads when it first computes, so one is set before the pool begins.
    # The trials set it as well; they find one, and so put back one while others still compute.
    with in_one_thread(device), ThreadPoolExecutor(num, "prism-trial") as threads:
        try:
            yield threads
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def set_material(
    condensed: CondensedSet | str | Path, store: ClipStore, config: Config, output: Path | None
) -> tuple[SetMaterial, Subject]:
    """A condensed set as networks are trained on it, and as the result at `output` records it.

    Raises:
        ConfigError: the set does not fit the store or the options.
    """
    file = None if isinstance(condensed, CondensedSet) else Path(condensed)
    condensed = condensed if isinstance(condensed, CondensedSet) else CondensedSet.load(condensed)
    _check_same_shape(condensed, store, "the condensed set")
    if config.train_vpc:
        raise ConfigError(
            f"{config.section}.train_vpc needs --train STORE; a condensed set is trained on as a whole."
        )
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
        condensed.stored_clips,
    )
    return SetMaterial(condensed, file), subject


def store_material(
    source: ClipStore, store: ClipStore, config: Config, output: Path | None
) -> tuple[Material, Subject]:
    """The training clips of a store, and as the result at `output` records them.

    Raises:
        ConfigError: they do not fit the store that is scored, or the options.
    """
    _check_same_shape(source, store, "the store to train on")
    source.require_vpc(max(1, config.train_vpc), f"{config.section}.train_vpc")
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
    if set(source.classes) != set(store.classes):
        other = min(set(source.classes) ^ set(store.classes))
        raise ConfigError(
            f"{what} and the data '{store.path}' have different classes: only one of them has '{other}'. "
            f"Name the store that {what} belongs to with --data."
        )
    for name in ("num_frames", "size"):
        ours, theirs = getattr(source, name), getattr(store, name)
        if ours != theirs:
            option = f"--{name.replace('_', '-')} {source.size[0] if name == 'size' else ours}"
            raise ConfigError(
                f"{what} has {name} = {ours}, but the data '{store.path}' has {theirs}. "
                f"Ingest the data again with {option}."
            )
