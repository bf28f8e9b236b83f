"""The verb `prism condense`: checks, one run of the loop or one for each class, and the finished set."""

import shutil
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding
from prism.artifacts.store import ClipStore
from prism.condensation.by_class import ClassOrder, condense_on
from prism.condensation.checkpoint import checkpoint_path, run_path, shards_path
from prism.condensation.journal import Journal
from prism.condensation.loop import Condensation
from prism.condensation.options import METHODS, OBJECTIVES, RULES, CondenseConfig, overruled, settled
from prism.condensation.unseen import EVERY, Unseen
from prism.config import as_dict
from prism.errors import ArtifactError, ConfigError, DivergedError
from prism.machine.devices import deterministic, give_back_freed_memory, pick_device
from prism.machine.files import lock
from prism.machine.progress import note, progress_bar
from prism.machine.provenance import check_same_run, versions
from prism.machine.run import Run, split_options
from prism.machine.threads import Stopped, stop_signal
from prism.networks.build import build_for

VIDEO_COPIES = 5
"""Of all synthetic clips as float32: they, their gradients, and what is trained with its gradients and momentum;
within a factor of two of what any method takes."""


def condense(
    store: ClipStore | str | Path,
    config: CondenseConfig | None = None,
    run: Run | None = None,
    *,
    checkpoint_seconds: float = 60.0,
    **options: Any,
) -> CondensedSet:
    """Condense the training clips of a store.

    Args:
        store: a clip store, or its folder.
        config: the method.
        run: the file to write and how: telemetry goes beside it, and a checkpoint while the run lasts. An executor
            condenses the classes side by side, each by itself, to the same set.
        checkpoint_seconds: time between two checkpoints; a kill loses no more than that.
        options: fields of `config` and of `prism.machine.run.Run`, as in `condense(store, vpc=5, output="set")`.

    Returns:
        The condensed set, as it was saved; where `resume` finds it finished, as it is.

    Raises:
        ConfigError: an option does not fit the store, or the whole does not fit into memory.
        OutputError: the output exists or cannot be written.
        ArtifactError: `resume` finds the checkpoint or the set of another run.
        DivergedError: a loss, or a value for the checkpoint, is not finite; the last checkpoint stays.
        EngineError: the executor lost an item that it was to compute; finished classes stay.
        ArtifactError: the store was changed meanwhile; the last checkpoint stays.
        Interrupted: Ctrl-C or SIGTERM; a checkpoint was saved.
    """
    store = ClipStore.of(store)
    config, run = split_options(CondenseConfig, config, run, options)
    for said in overruled(config):
        note(said)
    config = settled(config)
    if not (type(checkpoint_seconds) in (int, float) and 0 <= checkpoint_seconds < float("inf")):
        raise ConfigError(f"checkpoint_seconds = {checkpoint_seconds!r}, but it must be at least 0 and finite.")
    example, source = check_fits(store, config), source_of(store, config)
    if run.resume and not run.overwrite and (done := finished(run.path, source, example)):
        return done
    if run.executor is None:
        return condense_classes(store, config, range(len(store.classes)), run, checkpoint_seconds)
    if run.path is None:
        raise ConfigError("an executor needs an output, beside which the classes are kept until all are done.")
    order = ClassOrder(condense_classes, store, config, run.path, run.device, checkpoint_seconds)
    return condense_on(order, source, run, example)


def condense_classes(
    store: ClipStore, config: CondenseConfig, classes: range, run: Run, checkpoint_seconds: float
) -> CondensedSet:
    """Condense some classes, given by their labels, in this process; options and errors like in `condense`."""
    device = pick_device(run.device)
    check_memory(store, config, device, len(classes))
    condensation = Condensation(store, config, device, classes)
    source = source_of(store, config) | {"device": device.type}
    is_whole = len(classes) == len(store.classes)
    if not is_whole:
        source["classes"] = [store.classes[label] for label in classes]
    with lock(run.path), Journal.of(condensation, run, source, checkpoint_seconds) as journal:
        unseen = prepared(store, config, run) if is_whole else None
        iterate(condensation, unseen, journal, progress=run.progress)
        try:
            condensed = finish(condensation, unseen, source)
        except DivergedError:
            raise
        except BaseException:
            # A storage may be somebody else's: the iterations are not lost with what is wrong in it.
            if journal is not None:
                journal.save_checkpoint()
            raise
        if journal is not None:
            journal.finish(condensed)
    return condensed


def prepared(store: ClipStore, config: CondenseConfig, run: Run) -> Unseen:
    """Do what comes before the first iteration of a whole set; returns what judges its videos."""
    OBJECTIVES.make(config.objective, config).ahead(store, config, run)
    return Unseen(store, config, run)


def iterate(run: Condensation, unseen: Unseen | None, journal: Journal | None, *, progress: bool) -> None:
    """Do the remaining iterations, with or without a journal of them.

    Args:
        run: the condensation.
        unseen: judges the videos every so often; None for a part of the classes.
        journal: records every iteration, and saves checkpoints. Without one there is nothing to save when a
            signal comes, so signals are left alone.
        progress: show a bar.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; a checkpoint was saved.
    """
    total, shown = run.num_iterations, dict[str, str]()
    bar = progress_bar("Condensing", total, "it", enabled=progress, done=run.iteration)
    with stop_signal() if journal else nullcontext(Stopped()) as stopped, bar as advance:
        while run.iteration < total:
            if unseen is not None and run.iteration % EVERY == 0:
                likeness = unseen.measure(run.render())
                if journal is not None:
                    journal.telemetry.write("unseen", iteration=run.iteration, **asdict(likeness))
                shown = {"alignment": f"{likeness.alignment:.2f}", "nearest": f"{likeness.nearest:.0%}"}
            step = run.step()
            if journal is not None:
                journal.record(step)
            advance(1, **(shown or {"loss": f"{step.loss:.3g}"}), keyframes=f"{step.keyframes:.1f}")
            if journal is not None:
                journal.keep_up(stop=stopped.signal is not None)


def finish(run: Condensation, unseen: Unseen | None, source: dict[str, Any]) -> CondensedSet:
    """The finished set, judged where all classes are in it."""
    run.store.check_unchanged()
    # Storing the videos takes memory, for which their last gradients make room, and all that the networks had.
    run.optimizer.zero_grad()
    give_back_freed_memory()
    # A method of one's own may render its frames for the last time here.
    with deterministic(run.device):
        condensed = run.videos.condensed(run.store, run.config, source)
    return condensed if unseen is None else unseen.judged(condensed)


def source_of(store: ClipStore, config: CondenseConfig) -> dict[str, Any]:
    """The record in a set of how it was made, but for the device."""
    recorded = as_dict(config)
    return {
        "method": recorded["method"],
        "config": recorded,
        "versions": versions(),
        "store": store.fingerprint,
    }


def finished(output: Path | None, source: dict[str, Any], example: Encoding) -> CondensedSet | None:
    """The set of a run that `source` identifies, where it has ended; None where it has not.

    Raises:
        ArtifactError: the set is that of another run.
        ArtifactError: it cannot be read.
    """
    if output is None or not output.exists() or any(kept(output).exists() for kept in (checkpoint_path, run_path)):
        return None
    found = CondensedSet.load(output, [type(example)])
    known = {key: found.source.get(key) for key in source}
    check_same_run(f"set '{output}'", known, source, ArtifactError)
    # A kill may have left some, after what they were made for had gone.
    shutil.rmtree(shards_path(output), ignore_errors=True)
    return found


def check_memory(store: ClipStore, config: CondenseConfig, device: torch.device, num_classes: int) -> None:
    """Refuse, before anything long, videos of so many classes that plainly cannot fit into memory.

    Raises:
        ConfigError: they take more than twice what the device has free.
    """
    give_back_freed_memory()
    needs, free = VIDEO_COPIES * num_classes * config.vpc * 4 * store.clip_bytes, free_bytes(device)
    if free is not None and needs > 2 * free:
        raise ConfigError(
            f"{config.vpc} videos for each of {num_classes} classes, with gradients and momentum, take about "
            f"{needs / 2**30:,.1f} GiB, and {device.type} has {free / 2**30:,.1f} GiB free. Pass a smaller --vpc, "
            "or ingest smaller clips."
        )


def free_bytes(device: torch.device) -> int | None:
    """Memory that a device can still give, in bytes; None where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    with suppress(OSError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
    return None


def check_fits(store: ClipStore, config: CondenseConfig) -> Encoding:
    """Refuse options that the store or a chosen part cannot satisfy, before the first expensive step.

    Returns:
        One video as the finished set will hold it.
    """
    store.require_vpc(config.vpc, "condense.vpc")
    build_for(store, config.model, "meta", width=config.width)
    rule = RULES.make(config.insertion, config)
    method = METHODS.make(config.method, config)
    method.check(store, config)
    rule.check(store, config)
    return method.example(store, config)
