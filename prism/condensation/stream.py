"""The stream of random networks, each with the mean embedding of every class of real clips under it.

A network has a number, and everything about it follows from that. The class means depend on neither the videos nor
their method, insertion rule, learning rate or seed. So they are kept beside the clips, in blocks (`ahead.py`).
"""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from prism.artifacts.cache import CacheFile
from prism.artifacts.store import ClipStore
from prism.condensation.chunk import Chunk
from prism.condensation.class_means import Showing, View, held_frames, real_class_means, whole_clips
from prism.condensation.options import METHODS, CondenseConfig
from prism.machine.devices import deterministic
from prism.machine.randomness import generator, skip
from prism.networks.build import build_for
from prism.networks.initial import copy_values, initialise
from prism.networks.network import Network
from prism.networks.options import NETWORKS

BLOCK = 16
"""Networks of the stream that an objective matches which are computed together."""
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Number formats in which real clips are embedded. Synthetic ones always are in float32: among the rounded values
of a pooling window another one may be the largest, which moves their gradient by 10 to 20 %."""

Need = tuple[int, View]
"""A block of the stream, and how its real clips are shown."""


def clips_of_class(store: ClipStore, config: CondenseConfig) -> int:
    """Real clips of each class that a network embeds, at most; those of the largest class for `batch_real` 0."""
    most = int(store.counts("train").max())
    return min(config.batch_real or most, most)


@dataclass(frozen=True)
class NetworkStream:
    """Random networks by their numbers, and a batch of real clips for each (paper, section 3.4).

    Attributes:
        store: the data set.
        config: the options of the run.
        name: networks of different names have nothing in common.
        block: networks whose class means are computed, and kept, together.
    """

    store: ClipStore
    config: CondenseConfig
    name: str = "network"
    block: int = BLOCK

    def numbers(self, block: int) -> range:
        """The networks of a block."""
        return range(block * self.block, (block + 1) * self.block)

    def files(self, needs: Iterable[Need], device: torch.device) -> dict[Need, CacheFile]:
        """Where the class means (block, C, D) of blocks are kept, under the names of all that decides them.

        Those of a network or a view of your own may not be kept: code may change under one name.
        """
        config, store = self.config, self.store
        if not NETWORKS.is_builtin(config.model):
            return {}
        network = build_for(store, config.model, "meta", width=config.width)
        key = {
            "model": NETWORKS.name_of(config.model),
            "width": config.width or network.WIDTH,
            "precision": config.precision,
            "seed": config.network_seed,
            "name": self.name,
            "clips": clips_of_class(store, config),
        }
        shape = self.block, len(store.classes), network.embed_dim
        files = {}
        for block, view in needs:
            if view in (whole_clips, held_frames):
                named = key | {"view": view.__name__, "block": block}
                files[block, view] = CacheFile.of(store, "means", named, device, shape)
        return files


class DrawnNetwork:
    """One network of a stream after the other, in the same memory.

    Args:
        stream: of which it is.
        device: where it runs.
    """

    def __init__(self, stream: NetworkStream, device: torch.device) -> None:
        self.stream, self.device = stream, device
        self.real = stream.store.clips("train")
        network = build_for(stream.store, stream.config.model, device, width=stream.config.width)
        # In eval mode an embedding does not depend on the clips beside it, so neither does a class mean.
        self.network = network.eval().requires_grad_(False)
        self.chunk = Chunk.of_real_clips(self.network, device)
        precision = PRECISIONS[stream.config.precision]
        is_own = precision == torch.float32
        self.real_network = self.network if is_own else copy.deepcopy(self.network).to(precision)
        self._number: int | None = None

    def draw(self, number: int) -> Network:
        """The network of a number, for synthetic clips, in float32; until the next one is drawn."""
        if number == self._number:
            return self.network
        initialise(self.network, generator(self.stream.config.network_seed, self.stream.name, number))
        if self.real_network is not self.network:
            copy_values(self.network, self.real_network)
            # Back again: both sides are embedded by the network with the rounded weights.
            copy_values(self.real_network, self.network)
        self._number = number
        return self.network

    def class_means(self, number: int, view: View, classes: range) -> Tensor:
        """Draw a network, and embed `batch_real` clips of each of these classes: their means (C, D) under it.

        Clips and flips are drawn for all classes, so that no class's means depend on which others are computed.
        A view draws for the classes that are computed; a method that has one condenses all classes together.
        """
        self.draw(number)
        store, name, seed = self.stream.store, self.stream.name, self.stream.config.network_seed
        batch, flips, draw = (generator(seed, what, name, number) for what in ("batch", "flip", "view"))
        positions = store.sample(clips_of_class(store, self.stream.config), batch)
        labels = self.real.labels[positions]
        before, behind = (int((labels < end).sum()) for end in (classes.start, classes.stop))
        showing = Showing(skip(flips, before) if store.flip else False, view, draw)
        # Several threads may round otherwise, and what is kept must be what would be computed.
        with deterministic(self.device):
            return real_class_means(
                self.real_network,
                self.real.frames,
                positions[before:behind],
                self.real.labels - classes.start,
                len(classes),
                store.normalisation,
                showing,
                self.chunk,
            )


class Numbers:
    """Which network of the stream an iteration has: every set its own order of the same ones.

    Sets that differ in their seed share the networks, but do not meet them in the same order. Each stage of a
    method (single frames first, then whole clips) has an order of its own.
    """

    def __init__(self, config: CondenseConfig) -> None:
        self.config, self.method = config, METHODS.make(config.method, config)
        self.preparation = self.method.preparation(config)
        orders = {"preparation": self.preparation, "iterations": config.iterations}
        self.orders = {
            stage: torch.randperm(
                math.ceil(max(1, length) / BLOCK), generator=generator(config.seed, "order", stage)
            )
            for stage, length in orders.items()
        }

    def of(self, iteration: int) -> int:
        """The number of the network of an iteration."""
        if iteration < self.preparation:
            stage = "preparation"
        else:
            stage, iteration = "iterations", iteration - self.preparation
        block, within = divmod(iteration, BLOCK)
        return int(self.orders[stage][block]) * BLOCK + within

    def needs(self) -> set[Need]:
        """The blocks that all iterations take together."""
        iterations = range(self.preparation + self.config.iterations)
        return {(self.of(i) // BLOCK, self.method.view(self.config, i)) for i in iterations}
