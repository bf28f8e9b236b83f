"""ConvNet3D, the network of the paper's main tables."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from prism.networks.conv import StridedConv3d
from prism.networks.network import Dropout, Network


class ConvNet3D(Network):
    """The field's miniC3D: three blocks Conv3d → ReLU → MaxPool3d, then a 1×1×1 convolution to the classes.

    As published by Wang et al. (arXiv 2312.00362). The embedding is the flattened output of the blocks.

    Args:
        width: channels of the first block; the other two have twice as many.
        shape: as of `Network`: at least 4 frames and 43 pixels.
    """

    NAME = "convnet3d"
    WIDTH = 64
    MIN_FRAMES = 4
    MIN_SIZE = 43
    # Up to 1.5 times as fast. The other networks lose by it when they are differentiated.
    CPU_LAYOUT = torch.channels_last_3d

    def __init__(self, *, width: int = WIDTH, **shape: Any) -> None:
        super().__init__(**shape)
        layers: list[nn.Module] = []
        channels = [3, width, 2 * width, 2 * width]
        for before, after, pool in zip(channels, channels[1:], [(1, 2, 2), 2, 2], strict=False):
            convolution = StridedConv3d(before, after, (3, 7, 7), (1, 2, 2), (1, 3, 3))
            # ReLU and maximum commute, to the last bit, and after the pooling there is less to do.
            layers += [convolution, nn.MaxPool3d(pool), nn.ReLU()]
        self.blocks = nn.Sequential(*layers)
        # A block makes ⌊(side + 1) / 4⌋ of a side, so three of them ⌊(side + 21) / 64⌋.
        frames, rows, columns = self.num_frames // 4, *((side + 21) // 64 for side in self.size)
        self.embed_dim = math.prod((2 * width, frames, rows, columns))
        self.pool = nn.AvgPool3d((min(2, frames), rows, columns), stride=1)
        self.dropout = Dropout(0.5)
        self.classifier = nn.Conv3d(2 * width, self.num_classes, 1)

    def embed(self, clips: Tensor) -> Tensor:
        return self.blocks(clips).flatten(1)

    def forward(self, clips: Tensor) -> Tensor:
        logits = self.classifier(self.dropout(self.pool(self.blocks(clips))))
        return logits.flatten(2).amax(dim=2)  # the largest over time


class BlocksOfConvNet3D(ConvNet3D):
    """ConvNet3D whose embedding holds the features of all three blocks (ours; the paper matches the last).

    The features of the first two are averaged over at most 3 × 3 places. Each block is multiplied by a number of
    its own, so that the embeddings of real classes lie about as far apart in each. Logits are those of ConvNet3D.
    """

    NAME = "convnet3d-blocks"
    SIDE = 3
    SCALES = (0.027, 0.0475, 1.0)
    """With random weights and a width of 16 the energies between classes of the blocks, averaged so, are 12 to 20,
    3.9 to 4.2 and 0.009 to 0.024 (the glyphs, ucf101-distinct)."""

    def __init__(self, *, width: int = ConvNet3D.WIDTH, **shape: Any) -> None:
        super().__init__(width=width, **shape)
        sides = self.size
        for channels, frames in ((width, self.num_frames), (2 * width, self.num_frames // 2)):
            sides = [(side + 1) // 4 for side in sides]
            self.embed_dim += channels * frames * math.prod(min(side, self.SIDE) for side in sides)

    def embed(self, clips: Tensor) -> Tensor:
        first = self.blocks[:3](clips)
        second = self.blocks[3:6](first)
        features = [self._averaged(first), self._averaged(second), self.blocks[6:](second)]
        scaled = [scale * values.flatten(1) for scale, values in zip(self.SCALES, features, strict=True)]
        return torch.cat(scaled, dim=1)

    def _averaged(self, values: Tensor) -> Tensor:
        # Products: a GPU adds the gradients of `adaptive_avg_pool3d` in any order.
        rows, columns = (_averages(side, min(side, self.SIDE)).to(values) for side in values.shape[3:])
        return rows.T @ values @ columns


def _averages(side: int, parts: int) -> Tensor:
    """Weights (side, parts) of the means over parts of a side, which overlap where they do not divide it."""
    return functional.adaptive_avg_pool1d(torch.eye(side)[None], parts)[0]
