"""Trials: one network for each seed is trained and scored, and the result grows with every one of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from prism.artifacts import results
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.kinds import RESULT, check_output_kind
from prism.artifacts.results import HEADINGS, Data, Result, Subject, relative_to_result
from prism.artifacts.store import ClipStore
from prism.config import as_dict
from prism.errors import ArtifactError, ConfigError
from prism.evaluation.materials import TRAIN_STORE, set_material, store_material
from prism.evaluation.options import JudgeConfig
from prism.evaluation.trial import Examination, Trial, workers_for
from prism.machine.devices import pick_device
from prism.machine.executors import completed
from prism.machine.files import lock
from prism.machine.progress import Advance, note, progress_bar
from prism.machine.provenance import check_same_run, provenance
from prism.machine.run import Run
from prism.machine.text_io import as_text
from prism.machine.threads import side_by_side, stoppable

STOPPED = "stopped; networks that are done are kept. Run the same command with --resume to continue."
RENAMED = {"train": "train_store"}
"""The option of the command line that is another one in Python, where `train` is a function."""


@dataclass(frozen=True)
class Trials:
    """What networks are trained on and scored on: the arguments that `evaluate` and `retrieve` share.

    Attributes:
        condensed: the set, or its file. None with `train_store`.
        data: the store, or its folder, whose `config.split` is scored.
        train_store: train on real clips of this store instead: on all of them (the ceiling), or on
            `config.train_vpc` random ones of each class, drawn anew for each seed (the floor).
        label: the row's name in tables; the method by default.
        workers: how many networks are trained side by side at most; by default what
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
            raise ConfigError(f"{verb} needs either a condensed set or {TRAIN_STORE}, and not both.")
        if self.label is not None and not isinstance(self.label, str):
            raise ConfigError(f"label = {self.label!r}, but it must be text.")

    def opened(self, data: ClipStore) -> ClipStore | None:
        """The store to train on, if any. Opening one reads all of its clips, so `data` is not opened twice."""
        given = self.train_store
        if isinstance(given, str | Path) and Path(given).absolute() == data.path.absolute():
            return data
        return None if given is None else ClipStore.of(given)


def run_trials(trials: Trials, examination_type: type[Examination], config: JudgeConfig, run: Run) -> Result:
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
        ConfigError: the set and the data do not fit each other, or training takes more memory than there is.
        ArtifactError: the split is empty, or a store was changed meanwhile.
        ArtifactError: `run.resume` finds the result of another run.
        OutputError: the output exists, cannot be written, or another run is writing it.
        Interrupted: Ctrl-C or SIGTERM; the output has the networks that are done.
    """
    trials.check(config.section, run)
    store, path = ClipStore.of(trials.data), run.path
    seeds = range(config.seed, config.seed + config.seeds)
    with stoppable(None if path is None else STOPPED), lock(path):
        source = trials.opened(store)
        if path is not None:
            reads = [trials.condensed, store.path, source and source.path]
            check_output_kind(path, RESULT, run.overwrite or run.resume, reads)
        if source is not None:
            material, subject = store_material(source, store, config, path)
        else:
            assert trials.condensed is not None
            material, subject = set_material(trials.condensed, store, config, path)
        note(subject.said_of_leaks and f"Caution: {subject.said_of_leaks}", enabled=run.progress)
        examination = examination_type(store, config, subject)
        result = _without_runs(examination, subject, as_text(trials.label or subject.method), path)
        if run.resume and path and path.exists():
            found = Result.load(path)
            check_same_run(f"result '{path}'", found.identity, result.identity, ArtifactError)
            if {one.seed for one in found.runs} >= set(seeds):
                # Where it was stopped when more were asked for, that was given up. What was moved lies here now.
                asked = result.config if found.num_missing else found.config
                data = replace(found.data, path=result.data.path)
                subject = replace(found.subject, path=result.subject.path or found.subject.path)
                whole = replace(found, config=asked, data=data, subject=subject)
                if whole != found:
                    whole.save(path)
                return whole
            result = replace(result, runs=found.runs)
        examination.check()
        result = replace(result, data=replace(result.data, chance=examination.chance))
        seeds = [seed for seed in seeds if seed not in {one.seed for one in result.runs}]
        trial = Trial(material, examination, run.device)
        total, done = config.epochs * config.seeds, config.epochs * len(result.runs)
        with progress_bar(examination.DOING, total, "epochs", enabled=run.progress, done=done) as advance:
            if run.executor is not None:
                # Nobody here sees the epochs of an executor: those of a network are counted when it is done.
                found = completed(run.executor, trial, seeds)
                return _grown(result, found, run, advance, config.epochs)
            most = trials.workers or workers_for(len(seeds), torch.get_num_threads())
            trial = replace(trial, advance=advance)
            device = pick_device(run.device)
            # A GPU is busy with one network; a CPU is not, since each of them computes in one thread.
            with side_by_side(most if device.type == "cpu" else 1, device) as threads:
                return _grown(result, completed(threads, trial, seeds), run, advance)


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
    result: Result, found: Iterator[tuple[int, results.NetworkRun]], run: Run, advance: Advance, steps: int = 0
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
