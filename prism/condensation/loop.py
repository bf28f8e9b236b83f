"""The condensation loop: the method on one screen. PRISM, its ablations and DM are options of it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from prism.artifacts.keyframes import reduce
from prism.condensation.objectives import Objective
from prism.condensation.random_networks import Chunk, RandomNetworks
from prism.condensation.rules import Conflict, InsertionRule, InsertionState
from prism.condensation.videos import Method, Videos
from prism.machine.devices import deterministic
from prism.machine.randomness import generator
from prism.networks.sgd import SGD


@dataclass(frozen=True)
class Step:
    """Numbers of an iteration, which stay on the device until they are read.

    Attributes:
        losses: (C,) one for each class.
        keyframes: mean number per video, after the iteration.
        lr: learning rate of the first trainable, after decay.
        matched: further numbers that the objective records.
        conflict: inner products of gradients, which insertion scores; None where insertion is off.
        inserted: (V, T) bool, the frames that became key-frames; None where insertion is off.
    """

    iteration: int
    losses: Tensor
    keyframes: float
    lr: float
    matched: dict[str, Any] = field(default_factory=dict)
    conflict: Conflict | None = None
    inserted: Tensor | None = None

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The loss, summed over the classes, and the numbers of the objective; a GPU is waited for once."""
        tensors = {name: value for name, value in self.matched.items() if isinstance(value, Tensor)}
        loss, *values = torch.stack([self.losses.sum(), *tensors.values()]).tolist()
        return {"between_class": None, **self.matched, **dict(zip(tensors, values, strict=True)), "loss": loss}

    @property
    def loss(self) -> float:
        """Sum over the classes."""
        return self.numbers["loss"]


class Condensation:
    """State of a condensation before its next `iteration`, which `step` does.

    `networks` are limited to the condensed classes; `rates` are one learning rate per trainable, before decay.
    """

    def __init__(
        self, method: Method, videos: Videos, networks: RandomNetworks, objective: Objective, rule: InsertionRule
    ) -> None:
        self.videos, self.networks, self.objective, self.rule = videos, networks, objective, rule
        self.config, self.iteration = networks.config, 0
        self.rates = [part.lr for part in videos.trainable]
        self.preparation = method.preparation()
        self.num_iterations = self.preparation + self.config.iterations
        self.chunk = Chunk.of(networks.store, networks.device, differentiated=True)
        self.optimizer = SGD([part.tensors for part in videos.trainable], self.config.momentum)

    def step(self) -> Step:
        """One iteration of the method (paper, section 3): match, move what is trainable, insert."""
        iteration = self.iteration
        network = self.networks.draw(iteration)  # fresh random values (section 3.4)
        real = self.objective.real(self.networks, iteration)  # class means: of f(x) over the real batch
        clips = self.render()  # equation 3
        matched = self.objective.match(network, real, clips, self.chunk)  # equation 8, by chunks

        self.optimizer.zero_grad()
        with deterministic(self.networks.device):
            clips.backward(matched.gradients)
            self.optimizer.step([self.decay * rate for rate in self.rates])
            conflict, inserted = self.insert(matched.gradients)

        lr, self.iteration = self.decay * self.rates[0], iteration + 1
        keyframes = self.videos.mean_keyframes
        return Step(iteration, matched.losses, keyframes, lr, matched.recorded, conflict, inserted)

    def render(self) -> Tensor:
        """The clips of this iteration, as `Videos.render` describes them."""
        with deterministic(self.networks.device):
            return self.videos.render(self.iteration)

    @property
    def decay(self) -> float:
        """Factor of the learning rates, from 1 down to 0 along half a cosine, or 1 throughout."""
        done = max(0, self.iteration - self.preparation) / max(1, self.config.iterations)
        return (1 + math.cos(math.pi * done)) / 2 if self.config.decay == "cosine" else 1.0

    def insert(self, gradients: Tensor) -> tuple[Conflict | None, Tensor | None]:
        """Score every candidate against the key-frames as they stand, then insert all that are proposed."""
        iteration, mask = self.iteration - self.preparation, self.videos.mask
        if not (self.rule.inserts and self.config.inserts_at(iteration)) or mask.all():
            return None, None
        # Key-frames that are smaller than the clips cannot follow the finest part of a gradient.
        gradients = reduce(gradients, self.config.keyframe_scale)
        # Skip the random numbers of the classes before these: a class draws the same, whichever are condensed.
        before = self.networks.classes.start * self.config.vpc * mask.shape[1]
        draw = generator(self.config.seed, "insertion", self.iteration)
        torch.rand(before, generator=draw)
        conflict = Conflict.measure(gradients, mask)  # equations 4, 5
        state = InsertionState(gradients, mask.clone(), conflict, iteration, self.config.iterations, draw)
        proposed = self.rule.propose(state) & ~mask  # equation 6
        if proposed.any():
            first = self.videos.trainable[0].tensors[0]
            self.videos.insert(proposed, self.optimizer.momentum_buffers.get(first))  # equation 7
        return conflict, proposed

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint, which else needs only the iteration: random streams have no state."""
        momentum = {name: self.optimizer.momentum_buffers.get(part) for name, part in self.moved()}
        return self.videos.state() | {name: buffer for name, buffer in momentum.items() if buffer is not None}

    def restore(self, iteration: int, tensors: dict[str, Tensor]) -> None:
        """Go on at an iteration with the tensors of a checkpoint."""
        self.iteration = iteration
        self.videos.restore(tensors)
        for name, part in self.moved():
            if (buffer := tensors.get(name)) is not None:
                self.optimizer.momentum_buffers[part] = buffer.to(part.device)

    def moved(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that the optimiser moves, each with the name of its momentum in a checkpoint."""
        every = (tensor for part in self.videos.trainable for tensor in part.tensors)
        return ((f"momentum.{i}", tensor) for i, tensor in enumerate(every))
