"""The condensation loop: PRISM, its ablations and DM are configurations of it."""

from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.keyframes import reduce
from prism.artifacts.store import ClipStore
from prism.condensation.budget import allowed_at, keyframes_per_class
from prism.condensation.by_class import ClassOrder, condense_on
from prism.condensation.checkpoint import Checkpoint
from prism.condensation.chunk import Chunk
from prism.condensation.condensing_memory import check_memory
from prism.condensation.journal import Journal
from prism.condensation.moments import MOMENTS
from prism.condensation.objectives import OBJECTIVES, between_class_energy, match
from prism.condensation.options import FIXED_BY_METHOD, CondenseConfig
from prism.condensation.rules import RULES, Conflict, Occasion, inserts_at
from prism.condensation.videos import PARAMETRISATIONS, remedy
from prism.config import as_dict, with_options
from prism.errors import ConfigError, DivergedError
from prism.machine.devices import pick_device
from prism.machine.provenance import versions
from prism.machine.randomness import generator, skip


class Condensation:
    """A condensation between two iterations; `step` does one.

    Args:
        store: the data set.
        config: the method.
        device: where the networks run and the synthetic videos live.
        classes: the labels to condense, all by default. No video depends on which others are condensed.
    """

    def __init__(
        self, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range | None = None
    ) -> None:
        self.store, self.config, self.device = store, config, device
        self.classes = classes or range(len(store.classes))
        self.iteration = 0
        self.videos = PARAMETRISATIONS[config.method].start(store, config, device, self.classes)
        rates = [{"params": part.tensors, "lr": part.lr} for part in self.videos.trainable]
        self.optimiser = torch.optim.SGD(rates, momentum=config.momentum)
        self.parameters = [tensor for part in self.videos.trainable for tensor in part.tensors]
        self.moments = MOMENTS[config.real_moments](store, config, device, self.classes)
        self.chunk = Chunk.on(device)
        self.mean_gradients: Tensor | None = None
        self.keyframes_paid = keyframes_per_class(store, config)

    @property
    def num_iterations(self) -> int:
        """Iterations from the first to the last, those that prepare the videos included."""
        return self.videos.preparation + self.config.iterations

    def step(self) -> dict[str, Any]:
        """One iteration of the method (paper, section 3): match, move what is trainable, insert."""
        real = self.moments.at(self.iteration, self.videos.view(self.iteration))
        clips = self.videos.render(self.iteration)
        losses, gradients = match(self.moments.network, real, clips, OBJECTIVES["distribution"], chunk=self.chunk)
        self.check_finite(losses)

        # Without gradients, not with zero ones: momentum must not move what these clips were not rendered from.
        self.optimiser.zero_grad(set_to_none=True)
        clips.backward(gradients)
        self.optimiser.step()

        gradients = self.estimate(gradients)
        inserted = (
            self.insert(gradients) if inserts_at(self.iteration - self.videos.preparation, self.config) else {}
        )
        self.iteration += 1
        energy = between_class_energy(real) if len(self.classes) == len(self.store.classes) else None
        return {"loss": float(losses.sum()), "between_class": energy, **inserted}

    def estimate(self, gradients: Tensor) -> Tensor:
        """The gradients that insertion judges: this iteration's, or their running mean."""
        decay = self.config.gradient_decay
        if decay == 0:
            return gradients
        if self.mean_gradients is None:
            self.mean_gradients = torch.zeros_like(gradients)
        return self.mean_gradients.mul_(decay).add_(gradients, alpha=1 - decay)

    def insert(self, gradients: Tensor) -> dict[str, Any]:
        """Judge every candidate against the key-frames as they stand, then insert all that are proposed."""
        if self.videos.mask.all():
            return {}
        # Key-frames that are smaller than the clips cannot follow the finest part of a gradient.
        gradients = reduce(gradients, self.config.keyframe_scale)
        conflict = Conflict.measure(gradients, self.videos.mask, self.config.gradient)
        others = self.classes.start * self.config.vpc * self.store.num_frames
        occasion = Occasion(
            gradients,
            conflict,
            self.config.epsilon,
            len(self.classes),
            allowed_at(self.iteration - self.videos.preparation, self.config, self.keyframes_paid),
            skip(generator(self.config.seed, "insertion", self.iteration), others),
        )
        proposed = RULES[self.config.insertion](occasion)
        self.videos.insert(proposed)
        return {"conflict": conflict, "proposed": proposed}

    def check_finite(self, losses: Tensor) -> None:
        """Stop at the iteration where a class's loss is no longer a number."""
        if losses.isfinite().all():
            return
        name = self.store.classes[self.classes[int(losses.isfinite().int().argmin())]]
        raise DivergedError(
            f"the loss of class '{name}' is not finite at iteration {self.iteration}. "
            f"{remedy(self.videos.trainable)} The last checkpoint stays."
        )

    def check_good(self, state: dict[str, Tensor]) -> None:
        """Stop before a checkpoint of values that the next iteration could not go on from replaces a good one."""
        spoiled = [name for name, values in state.items() if not values.isfinite().all()]
        if spoiled:
            raise DivergedError(
                f"the values of {', '.join(spoiled)} are not finite after iteration {self.iteration - 1}. "
                f"{remedy(self.videos.trainable)} The last checkpoint stays."
            )

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must hold, beside the iteration: streams of randomness have no state."""
        state = dict(self.videos.state())
        for i, parameter in enumerate(self.parameters):
            if parameter in self.optimiser.state:
                state[f"momentum.{i}"] = self.optimiser.state[parameter]["momentum_buffer"]
        if self.mean_gradients is not None:
            state["mean_gradients"] = self.mean_gradients
        return state

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue where a checkpoint was taken.

        Raises:
            KeyError, ValueError: it does not hold what this run saves.
        """
        self._check_restorable(checkpoint)
        self.iteration = checkpoint.iteration
        self.videos.restore(checkpoint.tensors)
        for i, parameter in enumerate(self.parameters):
            if f"momentum.{i}" in checkpoint.tensors:
                momentum = checkpoint.tensors[f"momentum.{i}"].to(self.device)
                self.optimiser.state[parameter]["momentum_buffer"] = momentum
        if "mean_gradients" in checkpoint.tensors:
            self.mean_gradients = checkpoint.tensors["mean_gradients"].to(self.device)

    def _check_restorable(self, checkpoint: Checkpoint) -> None:
        wanted = dict(self.videos.state())
        wanted |= {f"momentum.{i}": parameter for i, parameter in enumerate(self.parameters)}
        if self.mean_gradients is None and "mean_gradients" in checkpoint.tensors:
            wanted["mean_gradients"] = self.videos.render(checkpoint.iteration).detach()
        for name, found in checkpoint.tensors.items():
            if found.shape != wanted[name].shape or found.dtype != wanted[name].dtype:
                raise ValueError(f"its {name} has another shape or type")
            if not found.isfinite().all():
                raise ValueError(f"its {name} is not finite")
        if checkpoint.iteration > self.num_iterations:
            raise ValueError(f"it is of iteration {checkpoint.iteration} of {self.num_iterations}")


def condense(
    store: ClipStore | str | Path,
    config: CondenseConfig | None = None,
    *,
    output: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_seconds: float = 60.0,
    device: str = "auto",
    executor: Executor | None = None,
    progress: bool = False,
    **options: Any,
) -> CondensedSet:
    """Condense the training clips of a store.

    Args:
        store: a clip store, or its folder.
        config: the method; `options` replace single fields of it, as in `condense(store, vpc=5)`.
        output: the file to write; telemetry goes beside it, and a checkpoint while it runs. None: no files.
        resume: continue from the checkpoint of an interrupted run, to the same bytes.
        overwrite: replace an output, or start again in spite of a checkpoint.
        checkpoint_seconds: time between two checkpoints; what a kill can lose.
        device: `auto`, `cpu` or `cuda`.
        executor: condenses the classes side by side, each by itself, to the same set; None: all at once, here.
        progress: show a progress bar.

    Returns:
        The condensed set, as it was saved.

    Raises:
        ConfigError: an option does not fit the store, or the whole not into memory.
        OutputError: the output exists or cannot be written.
        CheckpointError: `resume` finds the checkpoint of another run.
        DivergedError: a loss, or what a checkpoint would hold, is not finite; the last checkpoint stays.
        EngineError: the executor lost what it was to compute; what is done stays.
        StoreError: the store was changed meanwhile; the last checkpoint stays.
        Interrupted: Ctrl-C or SIGTERM; a checkpoint was saved.
    """
    store = store if isinstance(store, ClipStore) else ClipStore.open(store)
    config = with_options(config or CondenseConfig(), options)
    config = replace(config, **FIXED_BY_METHOD[config.method])
    if not 0 <= checkpoint_seconds < float("inf"):
        raise ConfigError(f"checkpoint_seconds = {checkpoint_seconds}, but it must be at least 0 and finite.")
    check_fits(store, config)
    options = {"resume": resume, "overwrite": overwrite, "checkpoint_seconds": checkpoint_seconds}
    if executor is None:
        every = range(len(store.classes))
        return condense_classes(store, config, every, output, device=device, progress=progress, **options)
    if output is None:
        raise ConfigError("an executor needs an output, beside which the classes are kept until all are done.")
    order = ClassOrder(condense_classes, store, config, Path(output), device, checkpoint_seconds)
    return condense_on(executor, order, source_of(store, config), resume, overwrite, progress)


def condense_classes(
    store: ClipStore,
    config: CondenseConfig,
    classes: range,
    output: str | Path | None,
    *,
    resume: bool,
    overwrite: bool,
    checkpoint_seconds: float,
    device: str,
    progress: bool,
) -> CondensedSet:
    """Condense some classes, given by their labels, in this process; options and errors like in `condense`."""
    where = pick_device(device)
    check_memory(store, config, where)
    run = Condensation(store, config, where, classes)
    source = source_of(store, config) | {"device": run.device.type}
    if len(classes) < len(store.classes):
        source["classes"] = [store.classes[label] for label in classes]
    if output is None:
        while run.iteration < run.num_iterations:
            run.step()
        store.check_unchanged()
        return run.videos.condensed(store, config, source)
    with Journal(run, Path(output), source, resume=resume, overwrite=overwrite) as journal:
        journal.iterate(checkpoint_seconds, progress)
        store.check_unchanged()
        condensed = run.videos.condensed(store, config, source)
        journal.finish(condensed)
    return condensed


def source_of(store: ClipStore, config: CondenseConfig) -> dict[str, Any]:
    """What a set says of how it was made, but for the device."""
    return {
        "method": config.method,
        "config": as_dict(config),
        "versions": versions(),
        "store": store.fingerprint,
    }


def check_fits(store: ClipStore, config: CondenseConfig) -> None:
    """Refuse options that this store cannot satisfy, before the first expensive step."""
    store.require_vpc(config.vpc, "condense.vpc")
    if config.initial_keyframes > store.num_frames:
        raise ConfigError(
            f"condense.initial_keyframes = {config.initial_keyframes}, "
            f"but the clips have {store.num_frames} frames."
        )
    (height, width), scale = store.size, config.keyframe_scale
    if height % scale or width % scale:
        raise ConfigError(
            f"condense.keyframe_scale = {scale}, but the clips have {height}×{width} pixels. "
            "Choose a number that divides both."
        )
    keyframes_per_class(store, config)
