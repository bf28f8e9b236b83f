"""Networks. Every entry of `MODELS` has `embed` and `forward` on float clips (N, C, T, H, W)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from prism.errors import ConfigError


class Dropout(nn.Module):
    """Dropout that draws from its own generator, so that training depends on nothing but its seed."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Zero each value with the given probability and scale the others up, while training."""
        if not self.training:
            return x
        kept = torch.rand(x.shape, generator=self.generator, device=x.device) >= self.probability
        return x * kept / (1 - self.probability)


class ConvNet3D(nn.Module):
    """The field's miniC3D: three blocks Conv3d → ReLU → MaxPool3d, then a 1×1×1 convolution to the classes.

    As published by Wang et al. (arXiv 2312.00362); `width` is the channels of the first block (64), the
    other two have twice as many. The embedding is the flattened output of the blocks.

    Args:
        num_classes: number of logits.
        num_frames: frames per clip (T), at least 4.
        size: height and width in pixels, at least 43.
        width: channels of the first block.

    Raises:
        ConfigError: the clips are too small or too short for its pooling.
    """

    MIN_FRAMES = 4
    MIN_SIZE = 43

    def __init__(self, *, num_classes: int, num_frames: int, size: int | tuple[int, int], width: int = 64) -> None:
        super().__init__()
        height, width_pixels = (size, size) if isinstance(size, int) else size
        if min(height, width_pixels) < self.MIN_SIZE or num_frames < self.MIN_FRAMES:
            raise ConfigError(
                f"clips of {num_frames} frames, {height}×{width_pixels} pixels, are too small for convnet3d: "
                f"it needs at least {self.MIN_FRAMES} frames and {self.MIN_SIZE} pixels. Ingest them larger."
            )
        layers: list[nn.Module] = []
        channels = [3, width, 2 * width, 2 * width]
        for before, after, pool in zip(channels, channels[1:], [(1, 2, 2), 2, 2], strict=False):
            layers += [nn.Conv3d(before, after, (3, 7, 7), (1, 2, 2), (1, 3, 3)), nn.ReLU(), nn.MaxPool3d(pool)]
        self.blocks = nn.Sequential(*layers)
        self.feature_shape = (
            2 * width,
            num_frames // 4,
            _side_after_blocks(height),
            _side_after_blocks(width_pixels),
        )
        _, frames, rows, columns = self.feature_shape
        self.pool = nn.AvgPool3d((min(2, frames), rows, columns), stride=1)
        self.dropout = Dropout(0.5)
        self.classifier = nn.Conv3d(2 * width, num_classes, 1)

    @property
    def embed_dim(self) -> int:
        """Length of an embedding (D)."""
        return math.prod(self.feature_shape)

    def embed(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to embeddings (N, D)."""
        return self.blocks(clips).flatten(1)

    def forward(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to logits (N, num_classes), the largest over time."""
        logits = self.classifier(self.dropout(self.pool(self.blocks(clips))))
        return logits.flatten(2).amax(dim=2)


def _side_after_blocks(side: int) -> int:
    for _ in range(3):
        side = ((side - 1) // 2 + 1) // 2
    return side


MODELS: dict[str, Callable[..., nn.Module]] = {"convnet3d": ConvNet3D}


def build(name: str, device: torch.device | str = "cpu", **shape: object) -> nn.Module:
    """A network without values, to be filled by `initialise`.

    Args:
        name: a key of `MODELS`.
        device: where its parameters live.
        shape: `num_classes`, `num_frames`, `size` and options of the network such as `width`.
    """
    with torch.device("meta"):
        network = MODELS[name](**shape)
    return network.to_empty(device=device)


@torch.no_grad()
def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Give a network PyTorch's default initial values, drawn from `generator`, in place."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Conv3d | nn.Linear):
            bound = 1 / math.sqrt(module.weight[0].numel())
            for parameter in module.parameters(recurse=False):
                parameter.uniform_(-bound, bound, generator=generator)
        elif any(True for _ in module.parameters(recurse=False)):
            raise NotImplementedError(f"no initial values are known for {type(module).__name__}")


def use_generator(network: nn.Module, generator: torch.Generator) -> None:
    """Let every dropout of a network draw from `generator`."""
    for module in network.modules():
        if isinstance(module, Dropout):
            module.generator = generator
