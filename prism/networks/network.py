"""What every network promises: `embed` and `forward` on float clips, for clips of one shape."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from prism.errors import ConfigError


class Network(nn.Module):
    """Base of all networks: classifies clips (N, C, T, H, W), and embeds them on the way.

    In eval mode no clip's embedding or logits depend on the others in its batch.

    Args:
        num_classes: number of logits.
        num_frames: frames per clip (T).
        size: height and width in pixels.

    Attributes:
        NAME: its key in `MODELS`.
        WIDTH: channels of its first block, as published.
        MIN_FRAMES, MIN_SIZE: the shortest and smallest clips it takes.
        CPU_LAYOUT: how its weights lie in a CPU's memory; what it computes lies alike.
        embed_dim: length of an embedding (D).

    Raises:
        ConfigError: the clips are too small or too short for it.
    """

    NAME: ClassVar[str]
    WIDTH: ClassVar[int]
    MIN_FRAMES: ClassVar[int]
    MIN_SIZE: ClassVar[int]
    CPU_LAYOUT: ClassVar[torch.memory_format] = torch.preserve_format
    embed_dim: int

    def __init__(self, *, num_classes: int, num_frames: int, size: int | tuple[int, int]) -> None:
        super().__init__()
        self.num_classes, self.num_frames = num_classes, num_frames
        self.size = (size, size) if isinstance(size, int) else size
        if min(self.size) < self.MIN_SIZE or num_frames < self.MIN_FRAMES:
            raise ConfigError(
                f"clips of {num_frames} frames, {self.size[0]}×{self.size[1]} pixels, are too small for "
                f"{self.NAME}: it needs at least {self.MIN_FRAMES} frames and {self.MIN_SIZE} pixels. "
                "Ingest them larger."
            )

    def embed(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to embeddings (N, D)."""
        raise NotImplementedError

    def forward(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to logits (N, num_classes)."""
        raise NotImplementedError
