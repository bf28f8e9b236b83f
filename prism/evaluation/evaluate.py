"""Evaluation: fresh networks are trained on a set, and guess the classes of real clips."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism.artifacts.clips import BatchStandardisation, Clips
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Data, NetworkRun, Result, Subject, by_recording, metrics_of, relative_to_result
from prism.artifacts.store import ClipStore
from prism.config import as_dict
from prism.errors import ConfigError, DivergedError
from prism.evaluation.options import EvaluateConfig
from prism.machine.devices import deterministic, pick_device, plain_torch
from prism.machine.executors import completed, computing, end_where_stopped, stoppable
from prism.machine.files import check_output_file, lock, write_atomically
from prism.machine.progress import Advance, no_progress, note, progress_bar
from prism.machine.provenance import check_same_run, provenance
from prism.machine.randomness import generator
from prism.machine.run import Run, split_options
from prism.machine.text_io import as_text
from prism.networks.build import allocate, build_for
from prism.networks.network import Network
from prism.networks.training import Draw, diverged, guessed_right, outputs_of, train, within_memory

STOPPED = "stopped; networks that are done are kept. Run the same command with --resume to continue."
GUESSES = {"top1": 1, "top5": 5}
NUM_WINDOWS, TEST_BATCH = 3, 64
"""Protocol wang2024: number of random windows that are scored of each test video, and clips per scored batch."""


@plain_torch()
def evaluate(
    condensed: CondensedSet | str | Path | None,
    data: ClipStore | str | Path,
    config: EvaluateConfig | None = None,
    run: Run | None = None,
    *,
    train: ClipStore | str | Path | None = None,
    label: str | None = None,
    workers: int | None = None,
    **options: Any,
) -> Result:
    """Train fresh networks on a set and score them by their guesses of each real clip's class.

    Nothing is chosen on the scored clips: every network is scored once, after its last epoch. Seeds share no
    random draws, so a resumed result has the runs of an uninterrupted one.

    Args:
        condensed: the set, or its file. None with `train`.
        data: the store, or its folder, whose `config.split` is scored; its training pixels fix the normalisation.
        config, run: network, schedule and protocol, and how it runs; the output is written after every seed.
        train: train on real clips of this store instead: on all of them (the ceiling), or on `config.train_vpc`
            random ones of each class, drawn anew for each seed (the floor).
        label: the row's name in tables; the method by default.
        workers: networks that are trained side by side at most, by default as many as keep all cores busy. On a
            GPU it is always one, and an executor has workers of its own. The scores do not depend on it.
        options: fields of `config` and of `prism.machine.run.Run`.

    Raises:
        ConfigError: the set, the data, the network, the protocol and a GPU's memory do not fit each other.
        ArtifactError: the split is empty, a store was changed meanwhile, or `resume` finds another run.
        OutputError: the output exists, cannot be written, or another run is writing it.
        DivergedError: a network diverged; the output has all others.
        Interrupted: Ctrl-C; the output has the networks that are done.
    """
    config, run = split_options(EvaluateConfig, config, run, options)
    run.check_workers(workers)
    if (condensed is None) == (train is None):
        raise ConfigError("evaluate needs either a condensed set or a store to --train on, and not both.")
    store, path = ClipStore.of(data), run.path
    with stoppable(STOPPED) if path else nullcontext(), lock(path):
        if path is not None:
            reads = [condensed, store.path, getattr(train, "path", train)]
            check_output_file(path, run.overwrite or run.resume, reads)
        if condensed is None:
            # Opening a store reads all of its clips.
            source = store if train is None or train == data else ClipStore.of(train)
            subject = subject_of_store(source, relative_to_result(source.path, path), store, config)
        elif isinstance(condensed, CondensedSet):
            source, subject = condensed, subject_of_set(condensed, "", store, config)
        else:
            source = CondensedSet.load(condensed)
            subject = subject_of_set(source, relative_to_result(condensed, path), store, config)
        task = Evaluation(store, config, source, subject, run.device)
        if not source.flip and task.training_flip(config.seed) is not False:
            said = f"mirroring keeps the labels of '{store.path}', but not those of the clips to train on"
            remedy = "Ingest both with the same --flip" if task.is_wang2024 else "Pass --flip never"
            raise ConfigError(f"{said}. {remedy}.")
        leaks = subject.leak_caution()
        note(leaks and f"Caution: {leaks}", enabled=run.progress)
        result = task.result(label, path)
        if run.resume and not run.overwrite and path and path.exists():
            found = Result.load(path)
            check_same_run(f"result '{path}'", found.identity, result.identity)
            result = replace(result, runs=found.runs)
            if not task.missing(result):
                # It has all requested seeds. If it lacks others, which an earlier run requested, leave those out.
                return found.of_seeds(config.all_seeds) if found.num_missing else found
        # Clips or a network that do not fit are refused once here, and not by every worker.
        passes(store, config)
        task.network()
        return task.complete(result, run, workers)


def subject_of_set(condensed: CondensedSet, path: str, store: ClipStore, config: EvaluateConfig) -> Subject:
    """A condensed set as a result records it; refused where it does not fit the store that scores."""
    _check_same_shape(condensed, store, "the condensed set")
    if config.train_vpc:
        raise ConfigError("evaluate.train_vpc needs a store to --train on; a set is trained on as a whole.")
    made_by, made_from = condensed.source.get("config"), condensed.source.get("store")
    return Subject(
        kind="condensed",
        path=path,
        method=str(condensed.source.get("method", "unknown")),
        num_videos=len(condensed),
        num_keyframes=condensed.num_keyframes,
        num_bytes=condensed.num_bytes,
        float32_bytes=condensed.float32_bytes,
        config=made_by if isinstance(made_by, dict) else {},
        fingerprint=condensed.fingerprint,
        stored_clips=condensed.stored_clips,
        # A set of another tool does not say where its clips are from.
        made_from=made_from if isinstance(made_from, str) and made_from != store.fingerprint else "",
        videos=replace(condensed, source={}).fingerprint,
    )


def subject_of_store(source: ClipStore, path: str, store: ClipStore, config: EvaluateConfig) -> Subject:
    """Training clips of a store as a result records them; refused where they do not fit the store that scores."""
    _check_same_shape(source, store, "the store to train on")
    source.require_vpc(config.train_vpc, "evaluate.train_vpc")
    num_clips = config.train_vpc * len(source.classes) or len(source.positions("train"))
    num_bytes = num_clips * source.clip_bytes
    # Videos are compared by class, path and length, which do not change when the splits are cut otherwise.
    trained, scored = (
        {(one.label, one.path, one.video_frames) for one in map(some.sources.__getitem__, some.positions(split))}
        for some, split in ((source, "train"), (store, config.split))
    )
    return Subject(
        kind="store",
        path=path,
        method="subset" if config.train_vpc else "full",
        num_videos=num_clips,
        num_keyframes=num_clips * source.num_frames,
        num_bytes=num_bytes,
        float32_bytes=4 * num_bytes,
        config={},
        fingerprint=source.fingerprint,
        stored_clips=num_clips,
        shared_videos=0 if source.fingerprint == store.fingerprint else len(trained & scored),
    )


def _check_same_shape(source: CondensedSet | ClipStore, store: ClipStore, what: str) -> None:
    if source.classes != store.classes:
        # Labels are positions in the order of the classes.
        how, differ = "their classes in other orders", sorted(set(source.classes) ^ set(store.classes))
        if differ:
            how = f"different classes: only one of them has '{differ[0]}'"
        raise ConfigError(f"{what} and the data '{store.path}' have {how}. Name the store of {what} with --data.")
    options = {"num_frames": f"--num-frames {source.num_frames}", "size": f"--size {source.size[0]}"}
    for name, option in options.items():
        if (ours := getattr(source, name)) != (theirs := getattr(store, name)):
            differ = f"{what} has {name} = {ours}, but the data '{store.path}' has {theirs}"
            raise ConfigError(f"{differ}. Ingest the data again with {option}.")


def passes(store: ClipStore, config: EvaluateConfig) -> list[Clips]:
    """The clips to score, one pass after the other, each sorted by class; refused where the store lacks them."""
    if config.protocol != "wang2024":
        return [store.clips(config.split)]
    if (found := store.num_passes) != NUM_WINDOWS:
        said = f"protocol wang2024 scores {NUM_WINDOWS} random windows of each test video, but '{store.path}'"
        raise ConfigError(f"{said} has {found}. Ingest it with --random-test-windows {NUM_WINDOWS}.")
    return store.passes()


@dataclass(frozen=True)
class Evaluation:
    """Training of one network per seed on `source`, and its scoring on clips of `store`; called with the seed."""

    store: ClipStore
    config: EvaluateConfig
    source: CondensedSet | ClipStore | Clips | Draw
    subject: Subject
    device: str = "auto"
    advance: Advance = no_progress

    @property
    def is_wang2024(self) -> bool:
        return self.config.protocol == "wang2024"

    def network(self) -> Network:
        """The network, without values."""
        config = self.config
        return build_for(self.store, config.model, "meta", width=config.width, hidden=config.hidden)

    def __call__(self, seed: int) -> NetworkRun | DivergedError:
        started, device = time.monotonic(), pick_device(self.device)
        with deterministic(device), within_memory():
            network = allocate(self.network(), device)
            end_where_stopped(network)
            try:
                loss, right = self.train_and_score(network, seed)
            except DivergedError as error:
                return error  # The other networks are worth having all the same.
        for store in (self.store, self.source):
            if isinstance(store, ClipStore):
                store.check_unchanged()
        scores = {metric: float(found.double().mean()) for metric, found in right.items()}
        hits = by_recording(self.recordings, right[next(iter(right))].int().tolist())
        return NetworkRun(seed, scores, loss, round(time.monotonic() - started, 3), hits)

    @property
    def recordings(self) -> list[tuple[str, str]]:
        """Class and recording of each clip that is scored."""
        return self.store.recordings(self.config.split) * (NUM_WINDOWS if self.is_wang2024 else 1)

    def train_and_score(self, network: Network, seed: int) -> tuple[float, dict[str, Tensor]]:
        """The mean training loss of the last epoch, and for each metric (N,) whether it counts a clip as right."""
        store, config, every = self.store, self.config, passes(self.store, self.config)
        normalisation = BatchStandardisation() if self.is_wang2024 else store.normalisation
        clips, flip, schedule = self.training_clips(seed), self.training_flip(seed), config.schedule
        loss = train(network, clips, normalisation, schedule, seed=seed, flip=flip, advance=self.advance)
        # In batches no larger than those of training, so that scoring takes no more memory; but where a batch is
        # standardised, its size is part of the protocol.
        size = TEST_BATCH if self.is_wang2024 else min(config.batch_size, self.subject.num_videos)
        flips = generator(seed, "test flip") if self.is_wang2024 and store.flip else None
        outputs = torch.cat([outputs_of(network, shown, normalisation, size, flips) for shown in every])
        if not outputs.isfinite().all():
            # It diverged in its last step, which no loss shows.
            raise diverged(f"the outputs of the network of seed {seed} are not finite", schedule)
        labels, metrics = torch.cat([shown.labels for shown in every]), metrics_of(len(store.classes))
        return loss, {metric: guessed_right(outputs, labels, GUESSES[metric]) for metric in metrics}

    def rendered(self) -> ClipStore | Clips | Draw:
        """The store to train on, or the clips of a set; those of a random set are drawn anew in every epoch."""
        if isinstance(self.source, CondensedSet):
            return self.source.clips if self.source.is_random else self.source.clips()
        return self.source

    def training_clips(self, seed: int) -> Clips | Draw:
        source, vpc = self.rendered(), self.config.train_vpc
        if not isinstance(source, ClipStore):
            return source
        clips = source.clips("train")
        return clips.subset(source.sample(vpc, generator(seed, "subset"))) if vpc else clips

    def training_flip(self, seed: int) -> bool | Tensor:
        """The training clips to mirror, False for none: `flip` of `prism.networks.training.train`."""
        when, subject = self.config.flip, self.subject
        if when == "protocol":
            of_earlier_work = "never" if subject.kind == "condensed" else "once"
            when = of_earlier_work if self.is_wang2024 else "always"
        if when == "once" and self.store.flip:
            return torch.rand(subject.num_videos, generator=generator(seed, "fixed flip")) < 0.5
        return when == "always" and self.store.flip

    def missing(self, result: Result) -> list[int]:
        """Seeds of the networks that a result lacks."""
        return sorted({*self.config.all_seeds} - {one.seed for one in result.runs})

    def complete(self, result: Result, run: Run, workers: int | None) -> Result:
        """The result with the networks that it lacks, saved after each; a DivergedError comes after all others."""
        seeds, epochs, diverged = self.missing(result), self.config.epochs, list[DivergedError]()
        total, done = epochs * self.config.seeds, epochs * (self.config.seeds - len(seeds))
        with progress_bar("Evaluating", total, "epochs", enabled=run.progress, done=done) as advance:
            # The epochs of an executor's workers are not seen here, so they are counted when a network is done.
            steps = epochs if run.executor else 0
            # Networks side by side share the rendered clips. An executor is sent the set, which is smaller.
            task = self if run.executor else replace(self, source=self.rendered(), advance=advance)
            with computing(run, len(seeds), workers) as executor:
                for _, one in completed(executor, task, seeds):
                    if isinstance(one, DivergedError):
                        diverged.append(one)
                        continue
                    # Networks that are trained side by side end in any order.
                    runs = tuple(sorted([*result.runs, one], key=lambda one: one.seed))
                    result = replace(result, runs=runs, provenance=provenance(self.device))
                    if run.path is not None:
                        write_atomically(run.path, result.to_json().encode())
                    lead = result.metrics[0]
                    advance(steps, **{lead: f"{100 * one.scores[lead]:.1f}%"})
        if diverged:
            raise diverged[0]
        return result

    def result(self, label: str | None, output: Path | None) -> Result:
        """The result before any network is scored."""
        store, subject, recordings = self.store, self.subject, self.recordings
        split = "test-random" if self.is_wang2024 else self.config.split
        data = Data(
            path=relative_to_result(store.path, output),
            fingerprint=store.fingerprint,
            split=split,
            num_clips=len(store.positions(split)),
            num_classes=len(store.classes),
            chance={metric: GUESSES[metric] / len(store.classes) for metric in metrics_of(len(store.classes))},
            train_float32_bytes=4 * store.clip_bytes * len(store.positions("train")),
            scored_classes=int((store.counts(split) > 0).sum()),
            recordings=by_recording(recordings, [1] * len(recordings)),
        )
        name, config = as_text(subject.method if label in (None, "") else str(label)), as_dict(self.config)
        return Result(name, self.config.protocol, subject, data, config, (), provenance(self.device), file=output)
