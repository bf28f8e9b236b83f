"""CNN+GRU and CNN+LSTM: a 2D network looks at every frame, a recurrent layer at their order."""

from typing import Any

from torch import Tensor, nn

from prism.networks.network import Network


class RecurrentNetwork(Network):
    """Three blocks Conv2d 3×3 → instance norm → ReLU → AvgPool 2 on each frame, then one recurrent layer.

    As published by Wang et al. (arXiv 2312.00362): clips of 112×112, but no others, first lose 24 pixels on each
    side. The embedding is the recurrent layer's output, averaged over time; the classifier is linear.

    Args:
        width: channels of every block.
        hidden: hidden size of the recurrent layer; 0 for the published one, a fixed part of a frame's features.
        shape: as of `Network`: at least 8 pixels.
    """

    WIDTH = 128
    MIN_SIZE = 8
    LAYER: type[nn.GRU] | type[nn.LSTM]
    FEATURES_PER_HIDDEN: int

    def __init__(self, *, width: int = WIDTH, hidden: int = 0, **shape: Any) -> None:
        super().__init__(**shape)
        self.margin = 24 if self.size == (112, 112) else 0
        layers: list[nn.Module] = []
        for before in (3, width, width):
            # One group for each channel: an instance norm with trainable scale and shift.
            norm = nn.GroupNorm(width, width)
            layers += [nn.Conv2d(before, width, 3, padding=1), norm, nn.ReLU(), nn.AvgPool2d(2)]
        self.blocks = nn.Sequential(*layers)
        rows, columns = ((side - 2 * self.margin) // 8 for side in self.size)
        num_features = width * rows * columns
        self.embed_dim = hidden or max(1, num_features // self.FEATURES_PER_HIDDEN)
        self.recurrent = self.LAYER(num_features, self.embed_dim, batch_first=True)
        self.classifier = nn.Linear(self.embed_dim, self.num_classes)

    def crop(self, clips: Tensor) -> Tensor:
        height, width = self.size
        return clips[..., self.margin : height - self.margin, self.margin : width - self.margin]

    def embed(self, clips: Tensor) -> Tensor:
        frames = self.crop(clips).transpose(1, 2)
        features = self.blocks(frames.flatten(0, 1)).flatten(1)
        outputs, _ = self.recurrent(features.unflatten(0, frames.shape[:2]))
        return outputs.mean(dim=1)

    def forward(self, clips: Tensor) -> Tensor:
        return self.classifier(self.embed(clips))

    def train(self, mode: bool = True) -> "RecurrentNetwork":
        super().train(mode)
        # Without dropout both modes compute the same, but cuDNN differentiates only in training mode.
        self.recurrent.train()
        return self


class CnnGru(RecurrentNetwork):
    """CNN+GRU: the hidden size is an eighth of the features of a frame, 1024 at 64×64."""

    NAME = "cnn-gru"
    LAYER = nn.GRU
    FEATURES_PER_HIDDEN = 8


class CnnLstm(RecurrentNetwork):
    """CNN+LSTM: the hidden size is the number of features of a frame, 8192 at 64×64: half a billion weights."""

    NAME = "cnn-lstm"
    LAYER = nn.LSTM
    FEATURES_PER_HIDDEN = 1
