"""Methods that choose the clips which stand for a class."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor


class Selection(ABC):
    """Base of the methods that choose clips, custom ones included.

        @dataclass(frozen=True)
        class Outermost(Selection):
            centre: float = 0.0

            def choose(self, embeddings, num, generator):
                return (embeddings - self.centre).norm(dim=1).argsort(descending=True)[:num].tolist()

        prism.select(store, method=Outermost(centre=0.5))

    Its fields are its options. On the command line it is `--method "mymodule:Outermost(centre=0.5)"`.

    Attributes:
        needs_embeddings: whether a network is trained to embed the clips; if not, D is 0.
    """

    needs_embeddings: ClassVar[bool] = True

    @abstractmethod
    def choose(self, embeddings: Tensor, num: int, generator: torch.Generator) -> list[int]:
        """`num` different positions in 0..N-1, of the N training clips of a class.

        Args:
            embeddings: (N, D) float64.
            num: at most N.
            generator: source of everything random.
        """


class Random(Selection):
    """Different clips, drawn uniformly."""

    needs_embeddings = False

    def choose(self, embeddings: Tensor, num: int, generator: torch.Generator) -> list[int]:
        return torch.randperm(len(embeddings), generator=generator)[:num].tolist()


class Herding(Selection):
    """Clips whose running mean stays closest to the mean of all (Welling, 2009); nothing is random."""

    def choose(self, embeddings: Tensor, num: int, generator: torch.Generator) -> list[int]:
        mean, total, chosen = embeddings.mean(dim=0), torch.zeros_like(embeddings[0]), []
        for count in range(1, num + 1):
            distance = ((total + embeddings) / count - mean).norm(dim=1)
            distance[chosen] = torch.inf
            chosen.append(int(distance.argmin()))
            total = total + embeddings[chosen[-1]]
        return chosen


class KCenter(Selection):
    """The clip nearest the mean, then each time the farthest from all chosen clips (Sener and Savarese, 2018)."""

    def choose(self, embeddings: Tensor, num: int, generator: torch.Generator) -> list[int]:
        chosen = [int((embeddings - embeddings.mean(dim=0)).norm(dim=1).argmin())]
        nearest = (embeddings - embeddings[chosen[0]]).norm(dim=1)
        while len(chosen) < num:
            # Where clips coincide, all distances are 0: -1 keeps a chosen clip from being chosen again.
            nearest[chosen] = -1.0
            chosen.append(int(nearest.argmax()))
            nearest = nearest.minimum((embeddings - embeddings[chosen[-1]]).norm(dim=1))
        return chosen
