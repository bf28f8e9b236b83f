"""A custom objective: means and second moments of embeddings, under a fresh random network in each iteration.

    prism condense STORE -o OUT --objective examples.own_objective:Moments
    prism condense STORE -o OUT --objective 'examples.own_objective:Moments(weight=0.5)'

or in Python: `prism.condense(store, objective=Moments(weight=0.5))`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from prism.condensation.objectives import Objective
from prism.condensation.random_networks import RandomNetworks


@dataclass(frozen=True)
class Moments(Objective):
    """Squared distances of the mean embeddings and of their second moments."""

    weight: float = 0.1
    reads_class_means = False

    def moments(self, embeddings: Tensor) -> Tensor:
        """Mean and weighted mean square (…, 2D) of embeddings (…, n, D)."""
        return torch.cat([embeddings.mean(dim=-2), self.weight * embeddings.square().mean(dim=-2)], dim=-1)

    def real(self, networks: RandomNetworks, iteration: int) -> Tensor:
        """(C, 2D) moments of the real clips of each class."""
        network = networks.draw(iteration)
        return torch.stack([self.moments(network.embed(clips)) for clips in networks.real_clips(iteration)])

    def loss(self, real: Tensor, embeddings: Tensor) -> Tensor:
        """(c,) losses of some classes."""
        return (real - self.moments(embeddings)).square().sum(dim=1)


if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    import prism
    from prism.testing import check_objective, tiny_store

    with tempfile.TemporaryDirectory() as folder:
        store = tiny_store(Path(folder) / "store")
        check_objective(Moments(), store)
        print(prism.condense(store, objective=Moments(), iterations=20, width=4, batch_real=4))
