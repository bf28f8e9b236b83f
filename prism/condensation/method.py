"""Methods: what is trainable in a synthetic video, and how it renders; `Method` is the base of your own."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from prism.artifacts import STORAGES
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding
from prism.artifacts.keyframes import evenly_spread
from prism.artifacts.store import ClipStore
from prism.condensation.class_means import View, whole_clips
from prism.condensation.options import METHODS, CondenseConfig
from prism.errors import DivergedError

HOPELESS = 1e6
"""No rate from here on makes sense: a thousand times the highest that is published."""


@dataclass(frozen=True)
class Trainable:
    """Tensors that the optimiser moves at one learning rate, and the option which sets that.

    Attributes:
        is_relative: whether `lr` is a multiple of 1/λ, where λ is the largest curvature of the loss at the start.
    """

    option: str
    lr: float
    tensors: list[Tensor]
    is_relative: bool = False


class Videos(ABC):
    """The synthetic videos of a run, as the loop sees them; the base of those of a method of your own.

    What is trained has the learning rate of the key-frames: `lr`, or what `relative_lr` comes to.

    Args:
        parts: the tensors that are trained, by name; a checkpoint holds them.
        labels: (V,), grouped by class.
        num_frames: frames of each video (T).
        config: the options, settled.

    Attributes:
        parts: as given.
        labels: as given.
        mask: (V, T) bool, False at frames that an insertion rule may propose; here True everywhere.
        trainable: what the optimiser moves; a tensor from which an iteration renders nothing rests.
    """

    def __init__(self, parts: dict[str, Tensor], labels: Tensor, num_frames: int, config: CondenseConfig) -> None:
        self.parts = {name: part.requires_grad_() for name, part in parts.items()}
        self.labels, every = labels, list(self.parts.values())
        self.mask = torch.ones(len(labels), num_frames, dtype=torch.bool, device=every[0].device)
        relative = Trainable("relative_lr", config.relative_lr, every, is_relative=True)
        self.trainable = [Trainable("lr", config.lr, every) if config.lr else relative]

    @abstractmethod
    def render(self, iteration: int) -> Tensor:
        """Normalised clips (n, T, C, H, W), equally many of every class, differentiable in what is trained."""

    def insert(self, proposed: Tensor) -> None:
        """Promote the proposed frames (V, T); by default there are none, since every frame of the mask is True."""
        assert not proposed.any()

    def mean_keyframes(self) -> float:
        """Colour images stored per video; by default every frame."""
        return float(self.mask.shape[1])

    def state(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint must hold; by default the parts."""
        return {name: part.detach() for name, part in self.parts.items()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Take up the state of a checkpoint; by default the parts."""
        for name, part in self.parts.items():
            part.copy_(state[name])

    @torch.no_grad()
    def condensed(self, store: ClipStore, config: CondenseConfig, source: dict[str, Any]) -> CondensedSet:
        """The finished set; by default every frame as it is rendered after the last iteration.

        Raises:
            DivergedError: a frame holds a value that its storage cannot.
            ConfigError: the storage fails.
        """
        clips = self.render(METHODS.make(config.method, config).preparation(config) + config.iterations)
        return self.as_set(clips, torch.ones_like(self.mask), store, config, source)

    def as_set(
        self,
        frames: Tensor,
        mask: Tensor,
        store: ClipStore,
        config: CondenseConfig,
        source: dict[str, Any],
        scale: int = 1,
    ) -> CondensedSet:
        """A set of key-frames, as the storage of the options keeps them.

        Args:
            frames: (V, T, C, H, W), normalised.
            mask: (V, T) bool, True at key-frames.
            scale: how many times as high and wide a clip is.

        Raises:
            DivergedError: a key-frame holds a value that its storage cannot.
            ConfigError: the storage fails.
        """
        pixels, mask = store.normalisation.invert(frames.detach().cpu()), mask.cpu()
        storage = STORAGES.make(config.storage, config)
        check_storable("a key-frame", pixels[mask], storage.largest, config.storage, self.trainable)
        encoding = storage.with_frames(pixels, mask, scale)
        return CondensedSet(encoding, self.labels, store.classes, store.normalisation, store.flip, source)


class Method(ABC):
    """What synthetic videos are made of; the base of your own.

    A method is a value: its fields are its options. `start` makes the videos before the first iteration.

    Attributes:
        fixed: the options that the method does not leave open: without them it would be another one.
        independent_classes: whether the videos of a class depend on no other class, and no `view` draws. Then the
            classes can be condensed on many machines.
        other_rates: the learning rates to try where the videos say little of their classes.
    """

    fixed: ClassVar[dict[str, Any]] = {}
    independent_classes: ClassVar[bool] = True
    other_rates: ClassVar[str] = "a --relative-lr three times as large or small"

    @abstractmethod
    def start(self, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range) -> Videos:
        """The videos of these classes (labels) before the first iteration, `config.vpc` for each."""

    def check(self, store: ClipStore, config: CondenseConfig) -> None:  # noqa: B027
        """Refuse options that do not fit the store or the method, before the first iteration.

        Raises:
            ConfigError: by default never.
        """

    def example(self, store: ClipStore, config: CondenseConfig) -> Encoding:
        """One video as a finished set will hold it; by default grey frames in the storage of the options.

        So a storage that fails is refused before the first iteration, and an encoding of your own is known when a
        set, or the set of a class, is read again.

        Raises:
            ConfigError: the storage fails.
        """
        return grey_video(store, config, store.num_frames)

    def preparation(self, config: CondenseConfig) -> int:
        """Iterations before those of `config.iterations`, without insertion; by default none."""
        return 0

    def view(self, config: CondenseConfig, iteration: int) -> View:
        """How the real clips are shown that an iteration's are compared with; by default whole."""
        return whole_clips


def grey_video(store: ClipStore, config: CondenseConfig, num_keyframes: int, scale: int = 1) -> Encoding:
    """A grey video of evenly spread key-frames, as the storage of the options keeps it.

    Raises:
        ConfigError: the storage fails.
    """
    storage = STORAGES.make(config.storage, config)
    storage.check()
    grey = torch.full((1, store.num_frames, 3, *(side // scale for side in store.size)), 0.5)
    return storage.with_frames(grey, evenly_spread(1, store.num_frames, num_keyframes), scale)


def clip_bytes(store: ClipStore, config: CondenseConfig) -> int:
    """All synthetic clips as float32, in bytes."""
    return len(store.classes) * config.vpc * 4 * store.clip_bytes


def remedy(trainable: list[Trainable]) -> str:
    """The advice for values that grow without bound."""
    smaller = " or ".join(f"--{part.option.replace('_', '-')} {_lowered(part):g}" for part in trainable)
    return f"The learning rate is too high: start again with {smaller} --overwrite."


def _lowered(part: Trainable) -> float:
    """A tenth of the rate, or the default where that would be as hopeless."""
    tenth = part.lr / 10
    return tenth if tenth < HOPELESS else getattr(CondenseConfig, part.option, tenth)


def check_storable(what: str, values: Tensor, largest: float, storage: str, trainable: list[Trainable]) -> None:
    """Refuse values that a storage cannot hold.

    Raises:
        DivergedError: the largest is named.
    """
    found = float(values.abs().max())
    if not found <= largest:
        raise DivergedError(f"{what} has reached {found:.3g}, which {storage} cannot hold. {remedy(trainable)}")
