"""Runs: one network for each seed is trained and scored, and the result grows with every one of them."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch

from prism.artifacts.clips import Clips
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.kinds import RESULT, check_output_kind
from prism.artifacts.results import HEADINGS, Data, NetworkRun, Result, relative_to_result
from prism.artifacts.store import ClipStore
from prism.config import as_dict
from prism.errors import ConfigError, DivergedError
from prism.evaluation import training_data
from prism.evaluation.options import ScoreConfig
from prism.evaluation.protocols import CLEAN, EvaluationProtocol
from prism.evaluation.training_data import TrainingData
from prism.machine.devices import deterministic, pick_device
from prism.machine.executors import completed
from prism.machine.files import lock
from prism.machine.progress import Advance, no_progress, note, progress_bar
from prism.machine.provenance import check_same_run, provenance
from prism.machine.run import Run
from prism.machine.text_io import as_text
from prism.machine.threads import end_where_stopped, side_by_side, stoppable
from prism.networks.build import allocate, build_for
from prism.networks.network import Network
from prism.networks.training import Draw, within_memory

STOPPED = "stopped; networks that are done are kept. Run the same command with --resume to continue."
RENAMED = {"train": "train_store"}
"""The option of the command line that is another one in Python, where `train` is a function."""


@dataclass(frozen=True)
class Task(ABC):
    """Training of networks on the clips of `data`, and their scoring on a store.

    Attributes:
        NAME: a key of `results.METRICS`.
        DOING: the verb in the progress bar.
        device: `auto`, `cpu` or `cuda` of the machine that trains the network.
        advance: called after every epoch.
    """

    NAME: ClassVar[str]
    DOING: ClassVar[str]
    store: ClipStore
    config: ScoreConfig
    data: TrainingData
    device: str = "auto"
    advance: Advance = no_progress

    @property
    def protocol(self) -> EvaluationProtocol:
        """How clips are shown."""
        return CLEAN

    @abstractmethod
    def check(self) -> None:
        """Refuse a store that lacks clips to score."""

    @property
    @abstractmethod
    def chance(self) -> dict[str, float]:
        """The scores of random guesses, in 0..1, for each metric of the task."""

    @abstractmethod
    def train_and_score(self, network: Network, clips: Clips | Draw, seed: int) -> tuple[float, dict[str, float]]:
        """Train a network and score it: the mean loss of the last epoch, and each metric, in 0..1."""

    def network(self, device: str = "meta") -> Network:
        """The network, without values on the meta device."""
        config = self.config
        return build_for(self.store, config.model, device, width=config.width, hidden=config.hidden)

    def __call__(self, seed: int) -> NetworkRun | DivergedError:
        """Train and score the network of a seed, here or where an executor computes; or why it diverged."""
        started, device = time.monotonic(), pick_device(self.device)
        with deterministic(device), within_memory():
            network = allocate(self.network(), device)
            end_where_stopped(network, "stopped.")
            try:
                loss, scores = self.train_and_score(network, self.data.clips(seed), seed)
            except DivergedError as error:
                return error  # The other networks are worth having all the same.
        for store in (self.store, self.data.source):
            if isinstance(store, ClipStore):
                store.check_unchanged()
        return NetworkRun(seed, scores, loss, round(time.monotonic() - started, 3))


def run_task(
    task_type: type[Task],
    condensed: CondensedSet | str | Path | None,
    data: ClipStore | str | Path,
    config: ScoreConfig,
    run: Run,
    train_store: ClipStore | str | Path | None,
    label: str | None,
    workers: int | None,
) -> Result:
    """Train a network for each seed and score it; write the result after every one.

    Everything that can be refused is refused before the first network is trained. No seed draws from another
    one, so a resumed result has the runs of an uninterrupted one. On a CPU every network is trained in one thread,
    so neither the number of threads nor that of networks side by side changes a score.

    `prism.evaluation.evaluate.evaluate` describes the arguments and the errors.
    """
    run.check_workers(workers)
    if (condensed is None) == (train_store is None):
        raise ConfigError(
            f"{config.section} needs either a condensed set or a store to train on (--train STORE, in Python "
            "train_store=), and not both."
        )
    if label is not None and not isinstance(label, str):
        raise ConfigError(f"label = {label!r}, but it must be text.")
    store, path = ClipStore.of(data), run.path
    with stoppable(None if path is None else STOPPED), lock(path):
        source = None if train_store is None else _opened(train_store, store)
        if path is not None:
            reads = [condensed, store.path, source and source.path]
            check_output_kind(path, RESULT, run.overwrite or run.resume, reads)
        if condensed is None:
            assert source is not None
            trained_on = training_data.of_store(source, store, config, path)
        else:
            trained_on = training_data.of_set(condensed, store, config, path)
        leaks = trained_on.subject.warn_leaks()
        note(leaks and f"Caution: {leaks}", enabled=run.progress)
        task = task_type(store, config, trained_on, run.device)
        result = _begun(task, label, path)
        if run.resume and path and path.exists():
            result = _resumed(result, path, config)
            if not _missing(result, config):
                return result
        task.check()
        result = replace(result, data=replace(result.data, chance=task.chance))
        # A network that does not fit the clips is refused here, and not by every worker.
        task.network()
        seeds, every = _missing(result, config), config.epochs * config.seeds
        with progress_bar(
            task.DOING, every, "epochs", enabled=run.progress, done=every - config.epochs * len(seeds)
        ) as advance:
            if run.executor is not None:
                # The epochs of an executor are not seen here: those of a network are counted when it is done.
                return _grown(result, completed(run.executor, task, seeds), run, advance, config.epochs)
            # A GPU is busy with one network; a CPU is not, since each of them computes in one thread.
            device = pick_device(run.device)
            most = (workers or workers_for(len(seeds), torch.get_num_threads())) if device.type == "cpu" else 1
            with side_by_side(min(most, len(seeds)), device) as threads:
                return _grown(result, completed(threads, replace(task, advance=advance), seeds), run, advance)


def workers_for(num_networks: int, num_threads: int) -> int:
    """How many networks to train side by side, so that no core is idle at the end.

    Three networks on two cores share them from the first epoch to the last. If the third waited for one of the
    others, a core would be idle while it is trained. More than twice as many networks as cores are trained in
    rounds of equal size.
    """
    rounds = max(1, num_networks // num_threads)
    return -(-num_networks // rounds)


def _opened(given: ClipStore | str | Path, store: ClipStore) -> ClipStore:
    # Opening a store reads all of its clips.
    is_same = isinstance(given, str | Path) and Path(given).absolute() == store.path.absolute()
    return store if is_same else ClipStore.of(given)


def _begun(task: Task, label: str | None, output: Path | None) -> Result:
    """The result before the first network; chance is filled in when the store has been checked."""
    store, subject, split = task.store, task.data.subject, task.protocol.split(task.config.split)
    data = Data(
        path=relative_to_result(store.path, output),
        fingerprint=store.fingerprint,
        split=split,
        num_clips=len(store.positions(split)),
        num_classes=len(store.classes),
        chance={},
        train_float32_bytes=4 * store.clip_bytes * len(store.positions("train")),
        scored_classes=int((store.counts(split) > 0).sum()),
    )
    name = as_text(label or subject.method)
    return Result(
        name, task.NAME, task.protocol.name, subject, data, as_dict(task.config), (), provenance(), output
    )


def _missing(result: Result, config: ScoreConfig) -> list[int]:
    done = {one.seed for one in result.runs}
    return [seed for seed in range(config.seed, config.seed + config.seeds) if seed not in done]


def _resumed(result: Result, path: Path, config: ScoreConfig) -> Result:
    """Result with the runs of its file; a complete file takes the paths of this command, if things were moved."""
    found = Result.load(path)
    check_same_run(f"result '{path}'", found.identity, result.identity)
    grown = replace(result, runs=found.runs)
    if _missing(grown, config):
        return grown
    subject = replace(found.subject, path=result.subject.path or found.subject.path)
    # Where it was stopped when more networks were requested, that was given up.
    asked = result.config if found.num_missing else found.config
    whole = replace(found, config=asked, subject=subject, data=replace(found.data, path=result.data.path))
    if whole != found:
        whole.save(path)
    return whole


def _grown(
    result: Result,
    found: Iterator[tuple[int, NetworkRun | DivergedError]],
    run: Run,
    advance: Advance,
    steps: int = 0,
) -> Result:
    """The result with more runs beside those it has, saved after every one, which moves the bar by `steps`.

    A DivergedError is raised when all others are done.
    """
    lead, diverged = result.metrics[0], list[DivergedError]()
    for _, one in found:
        if isinstance(one, DivergedError):
            diverged.append(one)
            continue
        # Networks that are trained side by side end in any order.
        runs = tuple(sorted([*result.runs, one], key=lambda one: one.seed))
        result = replace(result, runs=runs, provenance=provenance())
        if run.path is not None:
            result.save(run.path)
        advance(steps, **{HEADINGS[lead]: f"{100 * one.scores[lead]:.1f}%"})
    if diverged:
        raise diverged[0]
    return result
