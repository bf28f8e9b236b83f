"""The stream of random networks, each with the mean embedding of every class of real clips under it.

These class means depend on neither the videos nor their method, number, insertion rule, learning rate or seed. So
they are computed ahead, in blocks, side by side, and kept beside the clips: the first run pays for its iterations,
and later ones read.
"""

import copy
import math
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from prism.artifacts.cache import CacheFile
from prism.artifacts.store import ClipStore
from prism.condensation.chunk import Chunk
from prism.condensation.class_means import Showing, View, held_frames, real_class_means, whole_clips
from prism.condensation.condensing_memory import networks_side_by_side
from prism.condensation.options import METHODS, CondenseConfig
from prism.machine.devices import repeatably, send
from prism.machine.randomness import generator, skip
from prism.networks.build import build_for
from prism.networks.initial import initialise
from prism.networks.options import NETWORKS

BLOCK = 16
"""Networks of the stream that an objective matches which are computed together."""
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Number formats in which real clips are embedded. Synthetic ones always are in float32: among the rounded values
of a pooling window another one may be the largest, which moves their gradient by 10 to 20 %."""


def clips_of_class(store: ClipStore, config: CondenseConfig) -> int:
    """Real clips of each class that a network embeds, at most; those of the largest class for `batch_real` 0."""
    most = int(store.counts("train").max())
    return min(config.batch_real or most, most)


class NetworkStream:
    """The random network of each iteration, and the class means that synthetic clips shall have under it.

    Every iteration has a network of its own (paper, section 3.4). One network is refilled as often as wanted.

    Args:
        store: the data set.
        config: the options of the run.
        device: where networks run.
        classes: the labels that are condensed, all by default.
        name: networks of different names have nothing in common.
        block: networks whose class means are computed, and kept, together.

    Attributes:
        network: for synthetic clips, in float32.
        real_network: for real clips, the same weights in the precision of the options.
    """

    def __init__(
        self,
        store: ClipStore,
        config: CondenseConfig,
        device: torch.device,
        classes: range | None = None,
        name: str = "network",
        block: int = BLOCK,
    ) -> None:
        self.store, self.config, self.device = store, config, device
        self.name, self.block = name, block
        self.classes = classes or range(len(store.classes))
        self.real, self.chunk = store.clips("train"), Chunk.on(device)
        network = build_for(store, config.model, device, width=config.width)
        # In eval mode an embedding does not depend on the clips beside it, so neither does a class mean.
        self.network = network.eval().requires_grad_(False)
        precision = PRECISIONS[config.precision]
        is_own = precision == torch.float32
        self.real_network = self.network if is_own else copy.deepcopy(self.network).to(precision)
        self._block: tuple[tuple[int, View], Tensor | None] | None = None
        self._computed: dict[tuple[int, View], Tensor] = {}
        self._others: list[NetworkStream] = []

    def may_keep(self, view: View) -> bool:
        """Whether class means of what a view shows may be kept: code of your own may change under one name."""
        return NETWORKS.ships(self.config.model) and view in (whole_clips, held_frames)

    def at(self, number: int, view: View = whole_clips) -> Tensor:
        """Give `network` the values of a number, and return the class means (C, D) of what `view` shows."""
        self.draw(number)
        block, within = divmod(number, self.block)
        if self._block is None or self._block[0] != (block, view):
            found = self.file(block, view).load() if self.may_keep(view) else None
            self._block = (block, view), found if found is None else send(found, self.device)
        if (kept := self._block[1]) is not None:
            return kept[within, self.classes.start : self.classes.stop]
        if (number, view) not in self._computed:
            self._computed = self._compute(range(number, number + self.block - within), view)
        return self._computed[number, view]

    def _compute(self, numbers: range, view: View) -> dict[tuple[int, View], Tensor]:
        """The class means of the first of these networks, and of as many more as are embedded side by side.

        A run meets the networks of a block one after the other, so the next iterations want them.
        """
        numbers = numbers[: networks_side_by_side(self.store, self.config, self.device)]
        if len(numbers) == 1:
            return {(numbers[0], view): self.class_means(numbers[0], view, self.classes)}
        while len(self._others) < len(numbers) - 1:
            one = NetworkStream(self.store, self.config, self.device, self.classes, self.name, self.block)
            self._others.append(one)

        def compute(stream: NetworkStream, number: int) -> Tensor:
            # A network that is not kept may be anybody's, so each thread has one of its own. Ours is drawn.
            if stream is not self:
                stream.draw(number)
            return stream.class_means(number, view, self.classes)

        streams = [self, *self._others][: len(numbers)]
        with repeatably(self.device), ThreadPoolExecutor(len(numbers)) as threads:
            found = zip(numbers, threads.map(compute, streams, numbers), strict=True)
            return {(number, view): means for number, means in found}

    def draw(self, number: int) -> None:
        """Fill the network with the random values of one number."""
        initialise(self.network, generator(self.config.network_seed, self.name, number))
        if self.real_network is not self.network:
            self.real_network.load_state_dict(self.network.state_dict())
            # Back again: both sides are embedded by the network with the rounded weights.
            self.network.load_state_dict(self.real_network.state_dict())

    def class_means(self, number: int, view: View, classes: range) -> Tensor:
        """(C, D) class means under the network as it is, of `batch_real` clips of each of these classes.

        Clips and flips are drawn for all classes, so that no class's means depend on which others are computed.
        A view draws for the classes that are computed; a method that has one condenses all classes together.
        """
        seed = self.config.network_seed
        batch = self.store.sample(
            clips_of_class(self.store, self.config), generator(seed, "batch", self.name, number)
        )
        flips, draw = (generator(seed, what, self.name, number) for what in ("flip", "view"))
        labels = self.real.labels[batch]
        before, behind = (int((labels < end).sum()) for end in (classes.start, classes.stop))
        part = batch[before:behind]
        showing = Showing(skip(flips, before) if self.store.flip else False, view, draw)
        # Several threads may round otherwise, and what is kept must be what would be computed.
        with repeatably(self.device):
            return real_class_means(
                self.real_network,
                self.real.frames,
                part,
                self.real.labels - classes.start,
                len(classes),
                self.store.normalisation,
                showing,
                self.chunk,
            )

    def file(self, block: int, view: View) -> CacheFile:
        """Where the class means (BLOCK, C, D) of a block are kept, under the name of all that decides them."""
        key = {
            "model": NETWORKS.name_of(self.config.model),
            "width": self.config.width or self.network.WIDTH,
            "precision": self.config.precision,
            "seed": self.config.network_seed,
            "name": self.name,
            "clips": clips_of_class(self.store, self.config),
            "view": view.__name__,
            "block": block,
        }
        shape = self.block, len(self.store.classes), self.network.embed_dim
        return CacheFile.of(self.store, "means", key, self.device, shape)

    def keep(self, block: int, view: View) -> None:
        """Compute the class means of a block and keep them, unless they are there."""
        file = self.file(block, view)
        if file.load() is None:
            means = []
            for number in range(block * self.block, (block + 1) * self.block):
                self.draw(number)
                means.append(self.class_means(number, view, range(len(self.store.classes))))
            file.save(torch.stack(means))


class Numbers:
    """Which network of the stream an iteration has: every set its own order of the same ones.

    Sets that differ in their seed share the networks, but do not meet them in the same order. Each stage of a
    method (single frames first, then whole clips) has an order of its own.
    """

    def __init__(self, config: CondenseConfig) -> None:
        self.preparation = METHODS.make(config.method, config).preparation(config)
        orders = {"preparation": self.preparation, "iterations": config.iterations}
        self.orders = {
            stage: torch.randperm(math.ceil(length / BLOCK), generator=generator(config.seed, "order", stage))
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
