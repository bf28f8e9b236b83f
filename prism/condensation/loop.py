"""The condensation loop: the method on one screen. PRISM, its ablations and DM are options of it."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from prism.artifacts.keyframes import reduce
from prism.artifacts.store import ClipStore
from prism.condensation.checkpoint import Checkpoint
from prism.condensation.class_means import View
from prism.condensation.curvature import PROBED, largest_curvature
from prism.condensation.method import Method, Videos, remedy
from prism.condensation.objectives import Compare, Compared, Objective
from prism.condensation.options import METHODS, OBJECTIVES, RULES, CondenseConfig
from prism.condensation.rules import Conflict, Occasion
from prism.config import short_repr
from prism.errors import ConfigError, DivergedError
from prism.machine.devices import deterministic, give_back_freed_memory
from prism.machine.randomness import generator, skip
from prism.networks.options import NETWORKS
from prism.networks.training import SGD

OWN_NAMES = ("kind", "iteration", "loss", "keyframes", "lr", "seconds")
"""In the record of an iteration; an objective can give `between_class` and any others."""


@dataclass(frozen=True)
class Step:
    """What an iteration did.

    Attributes:
        loss: sum over the classes.
        keyframes: per video, after the iteration.
        lr: learning rate of the first part that is trained.
        recorded: numbers of the objective.
        conflict: what insertion judged; None where it is off.
        inserted: video and frame of each frame that became a key-frame.
    """

    loss: float
    keyframes: float
    lr: float
    recorded: dict[str, Any] = field(default_factory=dict)
    conflict: Conflict | None = None
    inserted: list[list[int]] = field(default_factory=list)


class Condensation:
    """A condensation between two iterations; `step` does one.

    Args:
        store: the data set.
        config: the options, settled.
        device: where the networks run and the synthetic videos live.
        classes: the labels to condense, all by default. No video depends on which others are condensed.
    """

    def __init__(
        self, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range | None = None
    ) -> None:
        self.store, self.config, self.device = store, config, device
        self.classes = classes or range(len(store.classes))
        self.iteration = 0
        started = store, config, device, self.classes
        objective = OBJECTIVES.make(config.objective, config)
        self.method = METHODS.make(config.method, config)
        self.preparation = self.method.preparation(config)
        self.videos = videos_of(self.method, *started)
        self.compare = comparing(objective, *started)
        self.rule = RULES.make(config.insertion, config)
        self.optimizer = SGD([part.tensors for part in self.videos.trainable], config.momentum)
        self.parameters = [tensor for part in self.videos.trainable for tensor in part.tensors]

    @property
    def num_iterations(self) -> int:
        """Iterations from the first to the last, those that prepare the videos included."""
        return self.preparation + self.config.iterations

    def step(self) -> Step:
        """One iteration of the method (paper, section 3): match, move what is trainable, insert."""
        # Before the first clips: finding a rate takes as much memory as they do.
        rates = self.rates
        clips = self.render()
        draw = generator(self.config.seed, "objective", self.iteration)
        compared = self.compare(clips, self.iteration, draw, self.method.view(self.config, self.iteration))
        loss, recorded = self.read(compared)

        # Without gradients, not with zero ones: momentum must not move what these clips were not rendered from.
        self.optimizer.zero_grad()
        share = self.share_of_rate
        with deterministic(self.device):
            clips.backward(compared.gradients)
            self.optimizer.step([share * rate for rate in rates])
            conflict, inserted = self.insert(compared.gradients)
        self.iteration += 1
        return Step(loss, self.videos.mean_keyframes(), share * rates[0], recorded, conflict, inserted)

    def render(self) -> Tensor:
        """The clips of this iteration, as `Videos.render` describes them.

        Raises:
            ConfigError: a method of one's own renders something else.
        """
        return self.rendered(self.videos, self.iteration, self.classes)

    def rendered(self, videos: Videos, iteration: int, classes: range) -> Tensor:
        """The clips that the videos of these classes are in an iteration, if they have the shape of a method's."""
        with deterministic(self.device):
            clips = videos.render(iteration)
        shape = self.store.num_frames, 3, *self.store.size
        if not len(clips) or len(clips) % len(classes) or _shape(clips[0]) != shape:
            wanted = f"(n, {', '.join(map(str, shape))}), as many of each of {len(classes)} classes"
            raise _unusable("method", self.config, f"it must render clips {wanted}, got {_shape(clips)}")
        return clips

    def read(self, compared: Compared) -> tuple[float, dict[str, Any]]:
        """The loss and what else is recorded, as numbers: the only wait for a GPU where nothing is inserted.

        Raises:
            DivergedError: the loss of a class is not finite.
        """
        tensors = {name: value for name, value in compared.recorded.items() if isinstance(value, Tensor)}
        loss, *values = torch.stack([compared.losses.sum(), *tensors.values()]).tolist()
        if not math.isfinite(loss):
            self.check_finite(compared.losses)
        return loss, compared.recorded | dict(zip(tensors, values, strict=True))

    @property
    def share_of_rate(self) -> float:
        """What is left of the learning rates, which fall along half a cosine, or stay."""
        done = max(0, self.iteration - self.preparation) / max(1, self.config.iterations)
        return (1 + math.cos(math.pi * done)) / 2 if self.config.decay == "cosine" else 1.0

    @cached_property
    def rates(self) -> list[float]:
        """The learning rate of each part that is trained, before it falls."""
        return [part.lr * (self.unit_rate if part.is_relative else 1.0) for part in self.videos.trainable]

    @cached_property
    def unit_rate(self) -> float:
        """The learning rate 1/λ, where λ is the largest curvature of the loss at the start.

        It is measured on the first few classes, whichever are condensed, where classes are independent: no video
        depends on which.
        """
        objective, every = OBJECTIVES.make(self.config.objective, self.config), len(self.store.classes)
        is_independent = self.method.independent_classes and objective.independent_classes
        started = self.store, self.config, self.device, range(min(PROBED, every) if is_independent else every)
        videos, compare = videos_of(self.method, *started), comparing(objective, *started)
        tensors = [tensor for part in videos.trainable for tensor in part.tensors]

        def gradients(step: int) -> list[Tensor]:
            # What the last probe left lies between what it freed, and no large piece of that can be used again.
            give_back_freed_memory()
            with torch.enable_grad():
                clips = self.rendered(videos, self.preparation, started[-1])
                draw = generator(self.config.seed, "curvature", step)
                view = self.method.view(self.config, self.preparation)
                compared = compare(clips, self.preparation + step, draw, view)
                with deterministic(self.device):
                    found = torch.autograd.grad(clips, tensors, compared.gradients, allow_unused=True)
                return [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, found, strict=True)]

        curvature = largest_curvature(tensors, gradients, self.config.seed)
        give_back_freed_memory()
        if not math.isfinite(curvature):
            raise DivergedError(f"the gradients are not finite before the first iteration. Look at {self.judges}.")
        if curvature == 0:
            raise DivergedError(
                f"the loss does not depend on the videos before the first iteration. Look at {self.judges}; "
                "a larger --width may help."
            )
        return 1 / curvature

    @property
    def judges(self) -> str:
        """What gives the losses, in words."""
        objective, network = OBJECTIVES.name_of(self.config.objective), NETWORKS.name_of(self.config.model)
        return f"objective {objective} with network {network}"

    def insert(self, gradients: Tensor) -> tuple[Conflict | None, list[list[int]]]:
        """Judge every candidate against the key-frames as they stand, then insert all that are proposed."""
        iteration = self.iteration - self.preparation
        if not (self.rule.inserts and self.config.inserts_at(iteration)) or self.videos.mask.all():
            return None, []
        # Key-frames that are smaller than the clips cannot follow the finest part of a gradient.
        gradients = reduce(gradients, self.config.keyframe_scale)
        conflict = Conflict.measure(gradients, self.videos.mask)
        others = self.classes.start * self.config.vpc * self.store.num_frames

        def draw() -> torch.Generator:
            return skip(generator(self.config.seed, "insertion", self.iteration), others)

        occasion = Occasion(gradients, conflict, iteration, len(self.classes), self.store, self.config, draw)
        proposed = self.rule.propose(occasion)
        check_proposed(proposed, self.config, self.videos.mask)
        proposed = proposed & ~self.videos.mask
        # One wait for a GPU, which the telemetry shares.
        if inserted := proposed.cpu().nonzero().tolist():
            self.videos.insert(proposed)
        return conflict, inserted

    def check_finite(self, losses: Tensor) -> None:
        """Stop at the iteration where a class's loss is no longer a number."""
        if losses.isfinite().all():
            return
        name = self.store.classes[self.classes[int(losses.isfinite().int().argmin())]]
        said = f"the loss of class '{name}' is not finite at iteration {self.iteration}"
        if self.iteration == 0:
            raise DivergedError(f"{said}, before anything has moved. Look at {self.judges}.")
        raise DivergedError(f"{said}. {remedy(self.videos.trainable)} The last checkpoint, if any, stays.")

    def check_good(self, state: dict[str, Tensor]) -> None:
        """Stop before a checkpoint of values that the next iteration could not go on from replaces a good one."""
        spoiled = [name for name, values in state.items() if not values.isfinite().all()]
        if spoiled:
            raise DivergedError(
                f"the values of {', '.join(spoiled)} are not finite after iteration {self.iteration - 1}. "
                f"{remedy(self.videos.trainable)} The last checkpoint, if any, stays."
            )

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must hold, beside the iteration: streams of randomness have no state."""
        state = dict(self.videos.state())
        for i, parameter in enumerate(self.parameters):
            if parameter in self.optimizer.momentum_buffers:
                state[f"momentum.{i}"] = self.optimizer.momentum_buffers[parameter]
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
                self.optimizer.momentum_buffers[parameter] = checkpoint.tensors[f"momentum.{i}"].to(self.device)

    def _check_restorable(self, checkpoint: Checkpoint) -> None:
        wanted = dict(self.videos.state())
        wanted |= {f"momentum.{i}": parameter for i, parameter in enumerate(self.parameters)}
        for name, found in checkpoint.tensors.items():
            if found.shape != wanted[name].shape or found.dtype != wanted[name].dtype:
                raise ValueError(f"its {name} has another shape or type")
            if not found.isfinite().all():
                raise ValueError(f"its {name} is not finite")
        if checkpoint.iteration > self.num_iterations:
            raise ValueError(f"it is of iteration {checkpoint.iteration} of {self.num_iterations}")


def videos_of(
    method: Method, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range
) -> Videos:
    """The videos that a method starts with.

    Raises:
        ConfigError: it starts with something else, or not with `config.vpc` videos for each of these classes.
    """
    videos = method.start(store, config, device, classes)
    if not isinstance(videos, Videos):
        raise _unusable("method", config, f"start must return Videos, got {_shape(videos)}")
    wanted = [label for label in classes for _ in range(config.vpc)]
    if (labels := videos.labels.tolist()) != wanted:
        asked = f"{config.vpc} for each class in {classes.start}..{classes.stop - 1}"
        raise _unusable(
            "method", config, f"the labels must be {asked}, one class after the other, got {short_repr(labels)}"
        )
    if _shape(videos.mask) != (len(wanted), store.num_frames):
        said = f"the mask must be (V, T) = {(len(wanted), store.num_frames)}, got {_shape(videos.mask)}"
        raise _unusable("method", config, said)
    return videos


def comparing(
    objective: Objective, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range
) -> Compare:
    """An objective at work, as `Objective.start` describes it; what it says of clips is checked.

    Raises:
        ConfigError: it starts with something else than a function. So does the function, where it changes the
            clips, or gives what `check_compared` refuses.
    """
    compare = objective.start(store, config, device, classes)
    if not callable(compare):
        raise _unusable("objective", config, f"start must return a function, got {_shape(compare)}")

    def checked(clips: Tensor, iteration: int, generator: torch.Generator, view: View) -> Compared:
        # PyTorch counts what writes into a tensor: no value is looked at, so no device is waited for.
        writes = clips._version
        compared = compare(clips, iteration, generator, view)
        if clips._version != writes:
            raise _unusable(
                "objective", config, "it changes the clips that it compares; let it work on clips.clone()"
            )
        check_compared(compared, config, clips, len(classes))
        return compared

    return checked


def check_compared(compared: Compared, config: CondenseConfig, clips: Tensor, num_classes: int) -> None:
    """Refuse what an objective must not give, without a look at a value: no device is waited for.

    Raises:
        ConfigError: losses, gradients or further numbers are not what `Compared` says.
    """
    problem = ""
    if not isinstance(compared, Compared):
        problem = f"it gives a {type(compared).__name__}, not a Compared"
    elif _shape(compared.losses) != (num_classes,):
        problem = f"losses must be (C,) = {(num_classes,)}, got {_shape(compared.losses)}"
    elif _shape(compared.gradients) != clips.shape:
        problem = f"gradients must be {tuple(clips.shape)}, got {_shape(compared.gradients)}"
    elif compared.gradients.dtype != clips.dtype:
        problem = f"gradients must be of {clips.dtype}, got {compared.gradients.dtype}"
    else:
        for name, value in compared.recorded.items():
            if not isinstance(name, str):
                problem = f"what it records must have texts as names, got {short_repr(name)}"
            elif name in OWN_NAMES:
                problem = f"'{name}' is a name of the telemetry's own. Choose another"
            elif value is not None and not isinstance(value, int | float) and _shape(value) != ():
                problem = f"'{name}' must be one number, got {_shape(value)}"
    if problem:
        raise _unusable("objective", config, problem)


def _unusable(kind: Literal["method", "objective"], config: CondenseConfig, problem: str) -> ConfigError:
    name = (METHODS if kind == "method" else OBJECTIVES).name_of(getattr(config, kind))
    return ConfigError(f"{kind} '{name}' cannot be used: {problem}. docs/extending.md shows one.")


def check_proposed(proposed: Tensor, config: CondenseConfig, mask: Tensor) -> None:
    """Refuse what a rule must not propose, without a look at a value.

    Raises:
        ConfigError: they are not booleans, one for each frame of each video.
    """
    if _shape(proposed) != mask.shape or proposed.dtype != torch.bool:
        got = f"{_shape(proposed)} of {proposed.dtype}" if isinstance(proposed, Tensor) else _shape(proposed)
        name, wanted = RULES.name_of(config.insertion), tuple(mask.shape)
        raise ConfigError(f"insertion rule '{name}' must propose (V, T) = {wanted} booleans, got {got}.")


def _shape(value: Any) -> tuple[int, ...] | str:
    """The shape of a tensor, or what else there is in its place."""
    return tuple(value.shape) if isinstance(value, Tensor) else f"a {type(value).__name__}"
