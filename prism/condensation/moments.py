"""Real moments: the random network of an iteration, and the real class means under it."""

import copy
from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from torch import Tensor

from prism.artifacts.cache import remembered
from prism.artifacts.store import ClipStore
from prism.condensation.chunk import Chunk
from prism.condensation.class_means import Showing, View, real_class_means, whole_clips
from prism.condensation.options import CondenseConfig
from prism.machine.randomness import generator, skip
from prism.networks.build import build_for
from prism.networks.initial import initialise
from prism.networks.options import NETWORKS

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Number formats in which real clips are embedded. Synthetic ones always are in float32: among the rounded values
of a pooling window another one may be the largest, which moves their gradient by 10 to 20 %."""


class Moments(ABC):
    """The random network of an iteration, and the real class means under it that synthetic clips shall have.

    One network is refilled with random values as often as wanted.

    Attributes:
        network: for synthetic clips, in float32.
        real_network: for real clips, the same weights in the precision of the options.
    """

    def __init__(
        self, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range | None = None
    ) -> None:
        self.store, self.config, self.device = store, config, device
        self.classes = classes or range(len(store.classes))
        self.real = store.clips("train")
        self.chunk = Chunk.on(device)
        network = build_for(store, config.model, device, width=config.width)
        # In eval mode an embedding does not depend on the clips beside it, so neither does a class mean.
        self.network = network.eval().requires_grad_(False)
        precision = PRECISIONS[config.precision]
        is_own = precision == torch.float32
        self.real_network = self.network if is_own else copy.deepcopy(self.network).to(precision)

    @abstractmethod
    def at(self, iteration: int, view: View = whole_clips) -> Tensor:
        """Give `network` the values of this iteration and return its class means (C, D) of what `view` shows."""

    def draw_network(self, seed: int, name: str, *indices: int) -> None:
        """Fill the network with the random values of one named draw."""
        initialise(self.network, generator(seed, name, *indices, device=self.device))
        if self.real_network is not self.network:
            self.real_network.load_state_dict(self.network.state_dict())
            # Back again: both sides are embedded by the network with the rounded weights.
            self.network.load_state_dict(self.real_network.state_dict())

    def class_means(self, clips: Tensor, classes: range, showing: Showing) -> Tensor:
        """(C, D) mean embeddings of the training clips at these positions, by class."""
        return real_class_means(
            self.real_network,
            self.real.frames,
            clips,
            self.real.labels - classes.start,
            len(classes),
            self.store.normalisation,
            showing if self.store.flip else replace(showing, flips=False),
            self.chunk,
        )


class FreshMoments(Moments):
    """A fresh network and a fresh real batch in every iteration: the paper's protocol (section 3.4)."""

    def at(self, iteration: int, view: View = whole_clips) -> Tensor:
        """Draw a network and embed `batch_real` clips of every class with it.

        The batch is drawn for all classes, so that no class's clips depend on which others are embedded.
        """
        self.draw_network(self.config.seed, "network", iteration)
        batch = self.store.sample(self.config.batch_real, generator(self.config.seed, "batch", iteration))
        flips, draw = (generator(self.config.seed, name, iteration) for name in ("flip", "view"))
        labels = self.real.labels[batch]
        before = int((labels < self.classes.start).sum())
        part = batch[before : before + int(torch.isin(labels, torch.tensor(self.classes)).sum())]
        return self.class_means(part, self.classes, Showing(skip(flips, before), view, draw))


class MomentBank(Moments):
    """A bank of networks with their exact class means over all training clips.

    The means of a network are computed when it is first drawn, then kept in the store's cache, where other
    runs find them: an iteration costs only the synthetic clips. With `bank_refresh` the places of the bank
    get a new network by turns, so that the synthetic clips do not overfit to a few.
    """

    def __init__(
        self, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range | None = None
    ) -> None:
        super().__init__(store, config, device, classes)
        self._kept: dict[int, tuple[tuple[int, View], Tensor]] = {}

    def generation(self, place: int, iteration: int) -> int:
        """How often a place's network has been replaced: every `bank_refresh` iterations, evenly staggered."""
        if self.config.bank_refresh == 0:
            return 0
        lead = place * self.config.bank_refresh // self.config.bank_size
        return (iteration + lead) // self.config.bank_refresh

    def at(self, iteration: int, view: View = whole_clips) -> Tensor:
        """Draw a network of the bank and give its exact class means, both flips of each clip included.

        Where the view is random, they are exact for one draw, which lasts as long as the network.
        """
        draw = generator(self.config.seed, "place", iteration)
        place = int(torch.randint(self.config.bank_size, (), generator=draw))
        generation = self.generation(place, iteration)
        self.draw_network(self.config.bank_seed, "bank", place, generation)
        if place not in self._kept or self._kept[place][0] != (generation, view):
            self._kept[place] = (generation, view), self.exact_means(place, generation, view)
        return self._kept[place][1][self.classes.start : self.classes.stop]

    def exact_means(self, place: int, generation: int, view: View) -> Tensor:
        """(C, D) class means of all training clips under the network as it is, from the store's cache."""
        seed = self.config.bank_seed
        key = {
            "model": NETWORKS.name_of(self.config.model),
            "width": self.config.width or self.network.WIDTH,
            "precision": self.config.precision,
            "seed": seed,
            "place": place,
            "generation": generation,
            "view": view.__name__,
        }
        draw = generator(seed, "view", place, generation)

        def compute() -> Tensor:
            every = torch.arange(len(self.real))
            return self.class_means(every, range(len(self.store.classes)), Showing(True, view, draw))

        if key["model"] not in NETWORKS.homes:
            # Somebody else's code may change under one name.
            return compute()
        shape = len(self.store.classes), self.network.embed_dim
        return remembered(self.store, "moments", key, self.device, shape, compute).to(self.device)


MOMENTS: dict[str, type[Moments]] = {
    "fresh": FreshMoments,
    "bank": MomentBank,
}
