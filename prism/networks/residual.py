"""R(2+1)D-18: a residual network whose 3D convolutions are split into space and time."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from prism.networks.network import Network

Sides = tuple[int, int, int]


class R2Plus1D18(Network):
    """The 18-layer R(2+1)D of Tran et al. (arXiv 1711.11248), with the layer sizes of torchvision's.

    A stem, four stages of two residual blocks, the mean over space and time (the embedding), a linear classifier.

    Args:
        width: channels of the first stage; each further stage has twice as many.
        shape: as of `Network`: at least 17 pixels.
    """

    NAME = "r2plus1d-18"
    WIDTH = 64
    # The last stage sees a sixteenth of each side. Batch normalisation of a single clip needs more than one value.
    MIN_SIZE = 17

    def __init__(self, *, width: int = WIDTH, **shape: Any) -> None:
        super().__init__(**shape)
        between = max(1, 45 * width // 64)
        self.stem = nn.Sequential(*_factorised(3, between, width, (1, 2, 2), side=7), nn.ReLU())
        blocks: list[nn.Module] = [ResidualBlock(width, width, 1), ResidualBlock(width, width, 1)]
        for before, after in pairwise([width, 2 * width, 4 * width, 8 * width]):
            blocks += [ResidualBlock(before, after, 2), ResidualBlock(after, after, 1)]
        self.blocks = nn.Sequential(*blocks)
        self.embed_dim = 8 * width
        self.classifier = nn.Linear(self.embed_dim, self.num_classes)

    def embed(self, clips: Tensor) -> Tensor:
        return self.blocks(self.stem(clips)).mean(dim=(2, 3, 4))

    def forward(self, clips: Tensor) -> Tensor:
        return self.classifier(self.embed(clips))


class HeConv3d(nn.Conv3d):
    """A convolution that starts as published: normal, with variance 2 / fan-out (He et al., 2015).

    With PyTorch's default the signal of an untrained network of this depth would fade away.
    """

    def initialise(self, generator: torch.Generator | None) -> None:
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu", generator=generator)

    def reset_parameters(self) -> None:
        self.initialise(None)


class ResidualBlock(nn.Module):
    """Two factorised convolutions with a shortcut; a stride of 2 halves time and space."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        # Channels between space and time, such that the block has as many weights as with 3×3×3 convolutions
        # (Tran et al., section 3.5); as in torchvision, both convolutions have the number of the first.
        between = 27 * before * after // (9 * before + 3 * after)
        strides = (stride, stride, stride)
        first, second = _factorised(before, between, after, strides), _factorised(after, between, after, (1, 1, 1))
        self.residual = nn.Sequential(*first, nn.ReLU(), *second)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(HeConv3d(before, after, 1, strides, bias=False), nn.BatchNorm3d(after))

    def forward(self, x: Tensor) -> Tensor:
        return (self.residual(x) + self.shortcut(x)).relu()


def _factorised(before: int, between: int, after: int, stride: Sides, side: int = 3) -> list[nn.Module]:
    """A convolution over space, then one of three frames over time; strides are of time, rows and columns."""
    time, down, across = stride
    return [
        HeConv3d(before, between, (1, side, side), (1, down, across), (0, side // 2, side // 2), bias=False),
        nn.BatchNorm3d(between),
        nn.ReLU(),
        HeConv3d(between, after, (3, 1, 1), (time, 1, 1), (1, 0, 0), bias=False),
        nn.BatchNorm3d(after),
    ]
