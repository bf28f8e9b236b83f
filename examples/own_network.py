"""A custom network: the mean frame and the mean change between frames, each through one convolution.

    prism evaluate runs/set.safetensors --data runs/store --model examples.own_network:TwoMeans
    prism evaluate runs/set.safetensors --data runs/store --model 'examples.own_network:TwoMeans(patch=4)'

or in Python: `prism.evaluate(condensed, store, model=TwoMeans)`.
"""

import torch
from torch import Tensor, nn

from prism.networks.network import Network


class TwoMeans(Network):
    """Patches of the mean frame and of the mean absolute change, each embedded by a convolution."""

    def __init__(
        self, *, num_classes: int, num_frames: int, size: tuple[int, int], width: int = 16, patch: int = 8
    ) -> None:
        super().__init__(num_classes=num_classes, num_frames=num_frames, size=size)
        self.convolution = nn.Conv2d(6, width, patch, stride=patch)
        self.embed_dim = width * (self.size[0] // patch) * (self.size[1] // patch)
        self.classifier = nn.Linear(self.embed_dim, num_classes)

    def embed(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to embeddings (N, D)."""
        means = torch.cat([clips.mean(dim=2), clips.diff(dim=2).abs().mean(dim=2)], dim=1)
        return self.convolution(means).relu().flatten(1)

    def forward(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to logits (N, num_classes)."""
        return self.classifier(self.embed(clips))


if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    import prism
    from prism.testing import check_network, tiny_store

    check_network(TwoMeans)
    with tempfile.TemporaryDirectory() as folder:
        store = tiny_store(Path(folder) / "store")
        print(prism.evaluate(prism.select(store), store, model=TwoMeans, epochs=20, seeds=2))
