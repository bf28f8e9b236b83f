"""The base of networks, which embed and classify float clips of one shape, and a dropout that a seed repeats."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from prism.errors import ConfigError


class Network(nn.Module, ABC):
    """Base of all networks, yours included: classifies clips (N, C, T, H, W), and embeds them on the way.

    docs/extending.md shows one. Further parameters of the constructor are options of the network. `width` and
    `hidden` may also be given as options of a verb; any others as `module:MyNetwork(depth=3)`, or in Python as
    `functools.partial(MyNetwork, depth=3)`.

    A network promises:

    - In eval mode no clip's embedding or logits depend on the others in its batch.
    - All its tensors are parameters or buffers, each in one place. Values that `__init__` sets are lost: layers of
      PyTorch are drawn by `prism.networks.initial.initialise`, any other module that holds values itself by its
      method `initialise(generator)`, which is called after the modules inside have been drawn.
    - A layer that draws while it trains has an attribute `generator`, which training sets, as `Dropout` has.

    Args:
        num_classes: number of logits.
        num_frames: frames per clip (T).
        size: height and width in pixels; a ConfigError if they or the frames are too few.

    Attributes:
        NAME: its short name, if it is one of PRISM's.
        WIDTH: channels of its first block, as published; 0 for a network without an option `width`.
        MIN_FRAMES, MIN_SIZE: the shortest and smallest clips it takes.
        CPU_LAYOUT: how the weights of 3D convolutions lie in a CPU's memory; their outputs lie alike.
        embed_dim: length of an embedding (D).
    """

    NAME: ClassVar[str] = ""
    WIDTH: ClassVar[int] = 0
    MIN_FRAMES: ClassVar[int] = 1
    MIN_SIZE: ClassVar[int] = 1
    CPU_LAYOUT: ClassVar[torch.memory_format] = torch.preserve_format
    embed_dim: int
    made_as = ""

    def __init__(self, *, num_classes: int, num_frames: int, size: int | tuple[int, int]) -> None:
        super().__init__()
        self.num_classes, self.num_frames = num_classes, num_frames
        self.size = (size, size) if isinstance(size, int) else size
        if min(self.size) < self.MIN_SIZE or num_frames < self.MIN_FRAMES:
            least = f"at least {self.MIN_FRAMES} frames and {self.MIN_SIZE} pixels. Ingest them larger."
            given = f"clips of {num_frames} frames, {self.size[0]}×{self.size[1]} pixels"
            raise ConfigError(f"{given}, are too small for {self.name}: it needs {least}")

    @abstractmethod
    def embed(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to float32 embeddings (N, D)."""

    @abstractmethod
    def forward(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to float32 logits (N, num_classes)."""

    @property
    def name(self) -> str:
        """The name by which `build` made it; else NAME, which a subclass does not inherit, or `module:Class`."""
        own = type(self)
        return self.made_as or vars(own).get("NAME", f"{own.__module__}:{own.__qualname__}")


class Dropout(nn.Module):
    """Dropout that draws from its own generator, so that training depends on nothing but its seed."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        kept = torch.rand(x.shape, generator=self.generator, device=x.device) >= self.probability
        return x * kept / (1 - self.probability)


def use_generator(network: nn.Module, generator: torch.Generator) -> None:
    """Give a generator to the layers that draw in training; a ConfigError where one would draw globally."""
    for module in network.modules():
        match module:
            case nn.Module(generator=_):
                module.generator = generator  # pyright: ignore[reportArgumentType]
            case (
                nn.modules.dropout._DropoutNd(p=rate)
                | nn.RNNBase(dropout=rate)
                | nn.MultiheadAttention(dropout=rate)
            ) if rate > 0:
                said = f"dropout = {rate} of the layer {type(module).__name__} does not depend on the seed"
                raise ConfigError(f"{said}. Set it to 0, or use prism.networks.network.Dropout.")


def check_output(network: Network, method: Literal["embed", "forward"], output: Any, clips: Tensor) -> None:
    """Refuse embeddings or logits of a wrong shape, or in neither float32 nor the format of the clips."""
    width = {"embed": "embed_dim", "forward": "num_classes"}[method]
    shape, got = (len(clips), getattr(network, width)), f"a {type(output).__name__}"
    if isinstance(output, Tensor):
        if output.shape == shape and output.dtype in (torch.float32, clips.dtype):
            return
        got = f"{tuple(output.shape)} of {output.dtype}"
    said = f"{method} of the network '{network.name}' must give (N, {width}) = {shape} of torch.float32, got {got}"
    raise ConfigError(f"{said}. docs/extending.md shows one.")
