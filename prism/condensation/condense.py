"""The verb `prism condense`: checks, one run of the loop or one for each share of the classes, and the set."""

import math
import shutil
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import torch

from prism.artifacts import STORAGES
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.store import ClipStore
from prism.condensation.by_class import ClassOrder, condense_on
from prism.condensation.given import num_lost_keyframes
from prism.condensation.loop import Condensation, Step
from prism.condensation.objectives import SCORED_EVERY, HeldOutNetworks, MatchScore
from prism.condensation.options import METHODS, OBJECTIVES, RULES, CondenseConfig
from prism.condensation.prepare import Setup, check_memory, scored
from prism.condensation.recorder import RunRecorder, check_free, checkpoint_path, run_path, shards_path
from prism.condensation.videos import suggest_lower_lr
from prism.config import chosen
from prism.errors import ConfigError, DivergedError
from prism.machine.devices import deterministic, explained, give_back_freed_memory, pick_device, plain_torch
from prism.machine.executors import stop_signal
from prism.machine.files import lock
from prism.machine.progress import note, progress_bar
from prism.machine.provenance import check_same_run
from prism.machine.run import Run, split_options

LOW_ALIGNMENT, GOOD_ALIGNMENT, LARGE_ALIGNMENT = 0.3, 0.7, 2.0
"""Alignment (1 is ideal) below which and above which a set is poor, and between them from where on it is good."""


@plain_torch()
def condense(
    store: ClipStore | str | Path,
    config: CondenseConfig | None = None,
    run: Run | None = None,
    *,
    checkpoint_seconds: float = 60.0,
    **options: Any,
) -> CondensedSet:
    """A set of a few synthetic videos for each class, condensed from the training clips of a store.

    Args:
        store: a clip store, or its folder.
        config: the method and its options.
        run: the output, beside which telemetry is written, and a checkpoint while the run lasts; and how to run.
            An executor condenses at most 16 shares of the classes side by side, to the same set within rounding.
            With `resume` a finished set is returned as it is.
        checkpoint_seconds: time between two checkpoints; a kill loses no more than that.
        options: fields of `config` and of `prism.machine.run.Run`, as in `condense(store, vpc=5, output="set")`.

    Raises:
        ConfigError: an option does not fit the store, or the videos do not fit into memory.
        OutputError: the output exists or cannot be written.
        ArtifactError: `resume` finds another run, or the store was changed meanwhile; the last checkpoint stays.
        DivergedError: a loss, or a value for the checkpoint, is not finite; the last checkpoint stays.
        EngineError: the executor lost an item that it was to compute; finished shares stay.
        Interrupted: Ctrl-C or SIGTERM; a checkpoint was saved.
    """
    store = ClipStore.of(store)
    config, run = split_options(CondenseConfig, config, run, options)
    config = resolve(config, note)
    if not (isinstance(checkpoint_seconds, int | float) and checkpoint_seconds >= 0):
        raise ConfigError(f"checkpoint_seconds = {checkpoint_seconds!r}, but it must be at least 0.")
    setup = Setup(store, config)
    if run.resume and not run.overwrite and (done := finished(setup, run.path)):
        return done
    if (given := setup.given) is not None and (lost := num_lost_keyframes(given, config)):
        held = f"{lost} of the {given.num_keyframes} key-frames of '{config.init}' are left out"
        placement = " or --placement" * (config.initial_keyframes > 2)
        note(f"Caution: {held}. Another --initial-keyframes{placement} keeps more.")
    if run.executor is None:
        return condense_classes(setup, range(len(store.classes)), run, checkpoint_seconds)
    if run.path is None:
        raise ConfigError("an executor needs an output, beside which the classes are kept until all are done.")
    output = run.path.absolute()  # A worker may run in another folder.
    order = ClassOrder(condense_classes, store, setup.config, output, run.device, checkpoint_seconds)
    return condense_on(order, setup, run)


def condense_classes(setup: Setup, classes: range, run: Run, checkpoint_seconds: float) -> CondensedSet:
    """The set of some classes, given by their labels, condensed in this process; errors like in `condense`."""
    store, device = setup.store, pick_device(run.device)
    check_memory(store, setup.config, device, len(classes))
    source, is_whole = setup.source | {"device": device.type}, len(classes) == len(store.classes)
    if not is_whole:
        source["classes"] = [store.classes[label] for label in classes]
    with lock(run.path), explained("--vpc or --width", "The last checkpoint stays: go on with --resume."):
        if run.path is not None:
            check_free(run.path, setup.reads, run, by_class=False)
        loop = setup.begin(device, classes)
        if is_whole and loop.rule.inserts and loop.videos.mask.all():
            name = RULES.name_of(setup.config.insertion)
            note(f"Caution: insertion rule {name} inserts nothing, as the videos begin with every frame.")
        recorder = run.path and RunRecorder(loop, run.path, run, source, checkpoint_seconds)
        with closing(recorder.telemetry) if recorder else nullcontext():
            if is_whole:
                setup.precompute(run)
            held_out = setup.held_out(run) if is_whole else None
            setup.measure_rates(loop)
            iterate(setup, loop, held_out, recorder, run)
            try:
                condensed = finished_set(setup, loop, source)
                if held_out is not None:
                    condensed = scored(condensed, held_out)
                data = condensed.to_bytes() if recorder else b""
            except BaseException as error:
                # A custom storage may fail, which must not cost the iterations.
                if recorder is not None and not isinstance(error, DivergedError):
                    recorder.save_checkpoint()
                raise
            if recorder is not None:
                recorder.finish(condensed, data)
    return condensed


def iterate(
    setup: Setup, loop: Condensation, held_out: HeldOutNetworks | None, recorder: RunRecorder | None, run: Run
) -> None:
    """Do the remaining iterations; without a recorder nothing is saved, so signals are left alone."""
    shown = dict[str, str]()
    bar = progress_bar("Condensing", loop.num_iterations, "it", enabled=run.progress, done=loop.iteration)
    with stop_signal() if recorder else nullcontext(Event()) as stopped, bar as advance:
        while loop.iteration < loop.num_iterations:
            if held_out is not None and loop.iteration % SCORED_EVERY == 0:
                score = held_out.score(loop.render())
                shown = {"alignment": f"{score.alignment:.2f}", "nearest": f"{score.nearest:.0%}"}
                if recorder is not None:
                    recorder.telemetry.write("unseen", iteration=loop.iteration, **asdict(score))
            step = loop.step()
            check_finite(setup, loop, step)
            advance(1, **(shown or {"loss": f"{step.loss:.3g}"}), keyframes=f"{step.keyframes:.1f}")
            if recorder is not None:
                recorder.record(step)
                recorder.checkpoint_if_due(stop=stopped.is_set())


def check_finite(setup: Setup, loop: Condensation, step: Step) -> None:
    """Raise a DivergedError that names the class if a loss is not finite."""
    if not math.isfinite(step.loss):
        name = setup.store.classes[loop.networks.classes[int(step.losses.isfinite().int().argmin())]]
        advice = f"{suggest_lower_lr(loop.videos.trainable)} The last checkpoint, if any, stays."
        if step.iteration == 0:
            advice = f"Nothing has moved. Look at {setup.scoring}."
        raise DivergedError(f"the loss of class '{name}' is not finite at iteration {step.iteration}. {advice}")


def finished_set(setup: Setup, loop: Condensation, source: dict[str, Any]) -> CondensedSet:
    """The videos of a run as a set; a DivergedError where their storage cannot hold them."""
    store = setup.store
    store.check_unchanged()
    # Storing takes memory: drop the last gradients, and give the system the memory that the networks have freed.
    loop.optimizer.zero_grad()
    give_back_freed_memory()
    encode = partial(setup.encode, trainable=loop.videos.trainable)
    with deterministic(loop.networks.device), torch.no_grad():
        encoding = loop.videos.stored(encode, loop.num_iterations)
    return CondensedSet(encoding, loop.videos.labels, store.classes, store.normalisation, store.flip, source)


def sentence_of(condensed: CondensedSet) -> str:
    """Text on the score of a finished set under held-out networks, with a caution where the score is poor."""
    score = MatchScore(**condensed.source["unseen"])
    is_low, is_large = score.alignment < LOW_ALIGNMENT, score.alignment > LARGE_ALIGNMENT
    guessed = " (guesses have as many)" * (score.nearest <= 1 / len(condensed.classes))
    config = condensed.source["config"]
    reading = "poor" if is_low or is_large else "good" if score.alignment >= GOOD_ALIGNMENT else "fair"
    said = f"On {HeldOutNetworks.NUM} networks that it was not trained on: "
    said += f"alignment {score.alignment:.2f} ({reading}; 1 is ideal), "
    said += f"{score.nearest:.0%} of the classes nearest to themselves{guessed}, "
    said += f"loss {score.loss:.2f}× between-class."
    if is_large:
        return f"{said}\nCaution: the videos differ far more than their classes. Try a smaller learning rate."
    if not ((is_low or guessed) and config["iterations"]):
        return said
    rates = METHODS.resolve(condensed.source["method"])[0].other_rates
    if config["lr"]:
        rates = rates.replace("--relative-lr", "--lr")
    return f"{said}\nCaution: the videos say little of their classes. Try more --iterations or {rates}."


def finished(setup: Setup, output: Path | None) -> CondensedSet | None:
    """The set if its run has finished, else None; an ArtifactError if `output` is the set of another run."""
    if output is None or not output.exists() or any(kept(output).exists() for kept in (checkpoint_path, run_path)):
        return None
    found = CondensedSet.load(output, [type(setup.example)])
    known = {key: found.source.get(key) for key in setup.source}
    check_same_run(f"set '{output}'", known, setup.source)
    # A kill may have left shards after `run.json` was removed.
    shutil.rmtree(shards_path(output), ignore_errors=True)
    return found


def resolve(config: CondenseConfig, say: Callable[[str], None] = lambda said: None) -> CondenseConfig:
    """The options as they take effect: fixed ones at the values of the method, unused ones at their defaults.

    `say` is called with a caution for each chosen option without effect, or chosen for a part and the run alike.
    """
    given, fixed = chosen(config), METHODS.resolve(config.method)[0].fixed
    config, unused = replace(config, **fixed), {"epsilon", "quality"}
    unused |= {"static_iterations", "static_lr", "dynamic_lr", "hallucinator_lr"}
    if config.fully_learnable:
        unused.add("insertion" if config.initial_keyframes else "fully_learnable")
    if "insertion" in unused:
        config = replace(config, insertion="never")
    if not RULES.resolve(config.insertion)[0].inserts:
        unused |= {"warmup", "cooldown"}
    if config.lr:
        unused.add("relative_lr")
    is_static = METHODS.name_of(config.method) == "static-dynamic"
    if is_static or config.init == "noise" or config.initial_keyframes in (0, 2):
        unused.add("placement")  # Two key-frames are the first and the last frame, wherever others would stand.
    # Fields of a part are options that it uses.
    parts = [(METHODS, "method"), (OBJECTIVES, "objective"), (RULES, "insertion"), (STORAGES, "storage")]
    unused -= {name for kind, option in parts for name in kind.fields(getattr(config, option))}
    for kind, option in parts:
        for name in sorted(kind.options_of(getattr(config, option)).keys() & given.keys()):
            say(f"Caution: {name} = {given[name]!r}, of the {kind.kind}, is the option of the run as well.")
    for option, value in given.items():
        if value != fixed.get(option, value):
            name = METHODS.name_of(config.method)
            say(f"Caution: method {name} fixes {option} at {fixed[option]!r}: {value!r} is not used.")
        elif option in unused and option not in fixed:
            say(f"Caution: {option} = {value!r} is not used with the other options.")
    return replace(config, **{option: getattr(CondenseConfig, option) for option in unused})
