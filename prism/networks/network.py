"""The interface of every network: `embed` and `forward` on float clips, for clips of one shape."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from prism.errors import ConfigError, PrismError
from prism.networks.dropout import use_generator
from prism.networks.options import NETWORKS

LACKING = re.compile(r"\b(register_)?meta\b", re.IGNORECASE)
"""How PyTorch says that the meta device has no such operation: it names the device."""


class Network(nn.Module, ABC):
    """Base of all networks, yours included: classifies clips (N, C, T, H, W), and embeds them on the way.

        class Small(Network):
            def __init__(self, *, num_classes, num_frames, size, width=32):
                super().__init__(num_classes=num_classes, num_frames=num_frames, size=size)
                self.features = nn.Conv3d(3, width, 3, padding=1)
                self.classifier = nn.Linear(width, num_classes)
                self.embed_dim = width

            def embed(self, clips):
                return self.features(clips).relu().mean(dim=(2, 3, 4))

            def forward(self, clips):
                return self.classifier(self.embed(clips))

    Further parameters of the constructor are options of the network. `width` and `hidden` may also be given as
    options of a verb; any others as `module:Small(depth=3)`, or in Python as `functools.partial(Small, depth=3)`.

    A network keeps these promises:

    - In eval mode no clip's embedding or logits depend on the others in its batch.
    - All its tensors are parameters or buffers. It is made without values, which are drawn later by
      `prism.networks.initial.initialise`. That knows the layers of PyTorch. Any other module that holds values
      itself draws them in a method `initialise(generator)`, which is called after those of the modules inside.
    - A layer that draws numbers while it trains draws them from its attribute `generator`, which training sets, as
      in `prism.networks.dropout.Dropout`.

    Args:
        num_classes: number of logits.
        num_frames: frames per clip (T).
        size: height and width in pixels.

    Attributes:
        WIDTH: channels of its first block, as published; 0 for a network without an option `width`.
        MIN_FRAMES, MIN_SIZE: the shortest and smallest clips it takes.
        SHRUNK_BY: `width` or `hidden`, where a smaller one saves most memory; empty without such an option.
        IS_BATCH_INVARIANT: whether, in one thread of a CPU, the clips beside a clip change no bit of its embedding
            or gradient. Otherwise each class is condensed with no other beside it, which takes longer.
        CPU_LAYOUT: how the weights of 3D convolutions lie in a CPU's memory; their outputs lie alike.
        embed_dim: length of an embedding (D).

    Raises:
        ConfigError: the clips are too small or too short for it.
    """

    WIDTH: ClassVar[int] = 0
    MIN_FRAMES: ClassVar[int] = 1
    MIN_SIZE: ClassVar[int] = 1
    SHRUNK_BY: ClassVar[str] = ""
    IS_BATCH_INVARIANT: ClassVar[bool] = False
    CPU_LAYOUT: ClassVar[torch.memory_format] = torch.preserve_format
    embed_dim: int

    def __init__(self, *, num_classes: int, num_frames: int, size: int | tuple[int, int]) -> None:
        super().__init__()
        self.num_classes, self.num_frames = num_classes, num_frames
        self.size = (size, size) if isinstance(size, int) else size
        if min(self.size) < self.MIN_SIZE or num_frames < self.MIN_FRAMES:
            raise ConfigError(
                f"clips of {num_frames} frames, {self.size[0]}×{self.size[1]} pixels, are too small for "
                f"{self.name}: it needs at least {self.MIN_FRAMES} frames and {self.MIN_SIZE} pixels. "
                "Ingest them larger."
            )

    @abstractmethod
    def embed(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to float32 embeddings (N, D)."""

    @abstractmethod
    def forward(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to float32 logits (N, num_classes)."""

    @property
    def name(self) -> str:
        """Its name in options and messages."""
        return NETWORKS.name_of(type(self))

    @property
    def num_parameters(self) -> int:
        """Trainable values."""
        return sum(parameter.numel() for parameter in self.parameters())

    def kept_bytes(self, output_of: Callable[[Tensor], Tensor]) -> int:
        """Bytes that computing an output of one clip keeps for the backward pass, weights apart.

        They are counted on the meta device, where nothing is computed. A network with operations that are not
        possible there has a method of its own.

        Args:
            output_of: the network itself, or its `embed`.

        Raises:
            ConfigError: it has such operations, and no method of its own; or its code fails on any device, or
                gives something else than it should, or draws numbers that no seed repeats.
        """
        kept: dict[int, Tensor] = {}

        def keep(tensor: Tensor) -> Tensor:
            # Views share their storage, which counts once.
            kept[_storage(tensor)] = tensor
            return tensor

        if self.training:
            use_generator(self, torch.Generator())
        # Half of two: layers that standardise a batch refuse to train on a single clip.
        clips = torch.empty(2, 3, self.num_frames, *self.size, device="meta", requires_grad=True)
        try:
            with _NothingDrawnGlobally(self.name), saved_tensors_hooks(keep, lambda tensor: tensor):
                # The result holds on to the storages, so that none of them can take the place of another.
                output = output_of(clips)
        except PrismError:
            raise
        except Exception as error:
            if not (isinstance(error, RuntimeError | TypeError) and LACKING.search(str(error))):
                raise NETWORKS.failed(type(self), error) from error
            raise ConfigError(
                f"the memory of network '{self.name}' cannot be counted: {error}. Write its kept_bytes(…), or use "
                "operations that the meta device of PyTorch has."
            ) from error
        (check_logits if output_of is self else check_embeddings)(self, output, clips)
        weights = {_storage(parameter) for parameter in self.parameters()}
        num_bytes = sum(kept[key].untyped_storage().nbytes() for key in kept.keys() - weights)
        del output
        return num_bytes // 2


class _NothingDrawnGlobally(TorchDispatchMode):
    """Refuses operations that draw from PyTorch's global generator.

    Raises:
        ConfigError: there is one.
    """

    def __init__(self, network: str) -> None:
        super().__init__()
        self.network = network

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        is_given = any(isinstance(value, torch.Generator) for value in (*args, *kwargs.values()))
        if torch.Tag.nondeterministic_seeded in func.tags and not is_given:
            raise ConfigError(
                f"network '{self.network}' draws from PyTorch's global generator ({func}), so no seed would "
                "repeat what it gives. Let it draw by prism.networks.dropout.Dropout, or from a `generator` that "
                "training sets."
            )
        return func(*args, **kwargs)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def check_embeddings(network: Network, embeddings: Any, clips: Tensor) -> None:
    """Refuse what `embed` must not return, without a look at a value.

    Args:
        network: whose they are.
        embeddings: what it returned.
        clips: (N, C, T, H, W) that were embedded.

    Raises:
        ConfigError: they are not (N, embed_dim), or neither float32 nor in the number format of the clips.
    """
    _check_output(network, "embed", "embed_dim", embeddings, (len(clips), network.embed_dim), clips.dtype)


def check_logits(network: Network, logits: Any, clips: Tensor) -> None:
    """Refuse what `forward` must not return: `check_embeddings` for logits (N, num_classes)."""
    _check_output(network, "forward", "num_classes", logits, (len(clips), network.num_classes), clips.dtype)


def _check_output(
    network: Network, method: str, width: str, output: Any, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    got = f"a {type(output).__name__}"
    if isinstance(output, Tensor):
        if output.shape == shape and output.dtype in (torch.float32, dtype):
            return
        got = f"{tuple(output.shape)} of {output.dtype}"
    raise ConfigError(
        f"{method} of the network '{NETWORKS.name_of(type(network))}' must give (N, {width}) = {shape} of "
        f"{torch.float32}, got {got}. docs/extending.md shows one."
    )
