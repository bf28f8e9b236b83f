"""ConvNet3D, the network of the paper's main tables."""

import math
from typing import Any

import torch
from torch import Tensor, nn

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
    MIN_FRAMES, MIN_SIZE = 4, 43
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
