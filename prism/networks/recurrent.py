"""CNN+GRU and CNN+LSTM: a 2D network looks at every frame, a recurrent layer at their order."""

from torch import Tensor, nn

from prism.networks.network import Network

CROPPED_SIZE = 112
"""Clips of this height and width lose a margin, as in the published protocol."""
MARGIN = 24


class RecurrentNetwork(Network):
    """Three blocks Conv2d 3×3 → instance norm → ReLU → AvgPool 2 on each frame, then one recurrent layer.

    As published by Wang et al. (arXiv 2312.00362): clips of 112×112 are first cropped by 24 pixels on each
    side to 64×64; others are taken as they are. The embedding is the recurrent layer's output, averaged
    over time; the classifier is linear.

    Args:
        num_classes: number of logits.
        num_frames: frames per clip (T).
        size: height and width in pixels, at least 8.
        width: channels of every block.
        hidden: hidden size of the recurrent layer; 0 for the published one, a fixed part of the features
            of a frame.

    Raises:
        ConfigError: the clips are too small for its pooling.
    """

    WIDTH = 128
    MIN_SIZE = 8
    LAYER: type[nn.GRU] | type[nn.LSTM]
    FEATURES_PER_HIDDEN: int

    def __init__(
        self,
        *,
        num_classes: int,
        num_frames: int,
        size: int | tuple[int, int],
        width: int = WIDTH,
        hidden: int = 0,
    ) -> None:
        super().__init__(num_classes=num_classes, num_frames=num_frames, size=size)
        self.margin = MARGIN if self.size == (CROPPED_SIZE, CROPPED_SIZE) else 0
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
        self.classifier = nn.Linear(self.embed_dim, num_classes)

    def crop(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) without the margin that the published protocol cuts off."""
        height, width = self.size
        return clips[..., self.margin : height - self.margin, self.margin : width - self.margin]

    def embed(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to embeddings (N, D)."""
        frames = self.crop(clips).transpose(1, 2)
        features = self.blocks(frames.flatten(0, 1)).flatten(1)
        outputs, _ = self.recurrent(features.unflatten(0, frames.shape[:2]))
        return outputs.mean(dim=1)

    def forward(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to logits (N, num_classes)."""
        return self.classifier(self.embed(clips))

    def train(self, mode: bool = True) -> "RecurrentNetwork":
        """Switch between training and evaluation, which for this network are the same."""
        super().train(mode)
        # Without dropout the layer computes the same in both modes, but cuDNN differentiates only this one.
        self.recurrent.train()
        return self


class CnnGru(RecurrentNetwork):
    """CNN+GRU: the hidden size is an eighth of the features of a frame, 1024 at 64×64."""

    NAME = "cnn-gru"
    LAYER = nn.GRU
    FEATURES_PER_HIDDEN = 8


class CnnLstm(RecurrentNetwork):
    """CNN+LSTM: the hidden size is that of the features of a frame, 8192 at 64×64: half a billion weights."""

    NAME = "cnn-lstm"
    LAYER = nn.LSTM
    FEATURES_PER_HIDDEN = 1
