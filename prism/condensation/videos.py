"""Synthetic videos: their trainable parts and their rendering. Key-frames are the paper's (section 3.1)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from prism.artifacts import keyframes
from prism.artifacts.clips import as_pixels
from prism.artifacts.store import ClipStore
from prism.condensation import Settings
from prism.errors import ConfigError, DivergedError
from prism.machine.randomness import generator

MEAN_OF = 64
"""Largest number of real clips in the mean that a video starts as."""

Encode = Callable[[Tensor, Tensor, int], Any]
"""Maps normalised frames (V, T, C, h, w), a mask (V, T) and the clips' scale H / h to the encoding of a set."""


@dataclass(frozen=True)
class Trainable:
    """Tensors that the optimiser moves at one learning rate, and the option that sets the rate.

    If `is_relative`, `lr` is a multiple of 1/λ, where λ is the largest curvature of the loss at the start.
    """

    option: str
    lr: float
    tensors: list[Tensor]
    is_relative: bool = False


class Videos(ABC):
    """The synthetic videos of a run; the base of the videos of custom methods.

    By default all parts have the learning rate of the key-frames: `lr`, or `relative_lr` where `lr` is 0.

    Attributes:
        parts: the tensors that are trained, by name; a checkpoint holds them.
        labels: (V,), grouped by class.
        mask: (V, T) bool, False at frames that an insertion rule may propose; by default True everywhere.
        trainable: tensors that the optimiser moves; a tensor that an iteration does not render stays as it is.
        mean_keyframes: mean number of colour images stored per video; by default of frames.
        deviation: (3, 1, 1) standard deviations of the real pixels, if the storage has coarse colour; else None.
    """

    deviation: Tensor | None = None

    def __init__(self, parts: dict[str, Tensor], labels: Tensor, num_frames: int, config: Settings) -> None:
        self.parts = {name: part.requires_grad_() for name, part in parts.items()}
        self.labels, every = labels, list(self.parts.values())
        self.mask = torch.ones(len(labels), num_frames, dtype=torch.bool, device=every[0].device)
        relative = Trainable("relative_lr", config.relative_lr, every, is_relative=True)
        self.trainable = [Trainable("lr", config.lr, every) if config.lr else relative]
        self.mean_keyframes = float(num_frames)

    @abstractmethod
    def render(self, iteration: int) -> Tensor:
        """Normalised clips (n, T, C, H, W), equally many of every class, differentiable in what is trained."""

    def insert(self, proposed: Tensor, momentum: Tensor | None = None) -> None:
        """Promote the proposed frames (V, T) bool; by default there are none, as every frame is a key-frame.

        `momentum` is the momentum of the first trainable tensor, None before its first step.
        """
        assert not proposed.any()

    def start_as(self, clips: Tensor) -> None:
        """Start from normalised clips (V, T, C, H, W), one for each video; by default a ConfigError."""
        raise ConfigError("the videos of this method start from no set. Leave out --init.")

    def state(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint must hold; by default the parts."""
        return {name: part.detach() for name, part in self.parts.items()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Restore the state of a checkpoint; by default the parts."""
        for name, part in self.parts.items():
            part.copy_(state[name])

    def stored(self, encode: Encode, iteration: int) -> Any:
        """The encoding of the finished videos for a set; by default of all frames, as they are rendered."""
        return encode(self.render(iteration), torch.ones_like(self.mask), 1)


class Method(ABC):
    """Representation of synthetic videos; the base of custom methods. Its fields are its options.

    Attributes:
        fixed: values of the options that define the method, which a run cannot change.
        independent_classes: whether videos depend on no other class, so that many machines can condense them.
        other_rates: learning rates that the caution of a set with low alignment recommends.
    """

    fixed: ClassVar[dict[str, Any]] = {}
    independent_classes: ClassVar[bool] = True
    other_rates: ClassVar[str] = "a --relative-lr three times as large or small"

    @abstractmethod
    def start(self, store: ClipStore, config: Settings, device: torch.device, classes: range) -> Videos:
        """The videos of these classes (labels) before the first iteration, `config.vpc` for each."""

    def check(self, store: ClipStore, config: Settings) -> None:  # noqa: B027
        """Raise a ConfigError for options that do not fit the store; by default for none."""

    def example(self, store: ClipStore, config: Settings, encode: Encode) -> Any:
        """The encoding of one video, by default grey: an unfit storage fails here, before the first iteration."""
        frames = torch.zeros(1, store.num_frames, 3, *store.size)
        return encode(frames, torch.ones(1, store.num_frames, dtype=torch.bool), 1)

    def preparation(self) -> int:
        """Number of iterations, without insertion, before those of `config.iterations`; by default 0.

        Their real clips are stills: single frames, each held for the length of a clip.
        """
        return 0


class KeyFrameVideos(Videos):
    """Videos of interpolated key-frames: normalised `frames` (V, T, C, h, w), with the `mask` of key-frames.

    The other frames are not rendered, so no gradient or momentum reaches them.
    """

    def __init__(self, frames: Tensor, mask: Tensor, labels: Tensor, config: Settings) -> None:
        super().__init__({"frames": frames}, labels, frames.shape[1], config)
        self.frames, self.scale, self.metric = frames, config.keyframe_scale, config.metric
        self.initial = config.initial_keyframes, config.placement
        self._mark(mask)

    def render(self, iteration: int = 0) -> Tensor:
        """Normalised clips (V, T, C, H, W), differentiable in the key-frames (equation 3).

        With metric `clip` the gradient of the key-frames is multiplied by (WᵀW)⁻¹, W being the interpolation: a
        step then moves the clip along the part of its gradient that key-frames can express, but for `enlarge`.
        """
        frames, inverse = self.frames, self.inverse_gram
        if inverse is not None and torch.is_grad_enabled():
            frames = frames.view_as(frames)
            frames.register_hook(lambda gradient: torch.bmm(inverse, gradient.flatten(2)).view_as(gradient))
        if self.deviation is not None:
            # Trained as they are stored, with colour at half of the height and width.
            pixels = (frames * self.deviation).flatten(0, 1)
            frames = keyframes.join_colour(*keyframes.split_colour(pixels)).view_as(frames) / self.deviation
        return keyframes.enlarge(keyframes.render(frames, self.mask), self.scale)

    @torch.no_grad()
    def insert(self, proposed: Tensor, momentum: Tensor | None = None) -> None:
        """Promote the proposed frames (V, T) to key-frames, at their interpolated value (equation 7).

        With metric `clip` their momentum is interpolated as well, which leaves the momentum of the clip as it
        was; with metric `parameter` they start without momentum.
        """
        if momentum is not None and self.metric == "clip":
            keyframes.insert(momentum, self.mask, proposed)
        self._mark(keyframes.insert(self.frames, self.mask, proposed))

    @torch.no_grad()
    def start_as(self, clips: Tensor) -> None:
        """Take the first key-frames from clips, as `placement` says; interpolate the others if all are trained.

        Clips may have the size of the key-frames: those of a set would change if they were enlarged and reduced.
        """
        small = keyframes.reduce(clips, clips.shape[4] // self.frames.shape[4])
        first = initial_mask(small, self.labels, *self.initial).to(small.device)
        self.frames.copy_(small * first[:, :, None, None, None])
        self._mark(keyframes.insert(self.frames, first, self.mask if bool(self.mask.all()) else first))

    def _mark(self, mask: Tensor) -> None:
        # Counted when the mask changes, since a count in every iteration would wait for the GPU.
        self.mask, self.mean_keyframes = mask, int(mask.sum()) / len(mask)
        is_free = self.metric == "parameter" or bool(mask.all())
        self.inverse_gram = None if is_free else keyframes.inverse_gram(mask)

    def state(self) -> dict[str, Tensor]:
        return super().state() | {"mask": self.mask}

    def restore(self, state: dict[str, Tensor]) -> None:
        super().restore(state)
        self._mark(state["mask"].to(self.frames.device))

    def stored(self, encode: Encode, iteration: int) -> Any:
        """The encoding of the key-frames alone, at their own size."""
        return encode(self.frames, self.mask, self.scale)


def initial_mask(clips: Tensor, labels: Tensor, num_keyframes: int, placement: str) -> Tensor:
    """The mask (V, T) of the first key-frames of clips, by `placement`; every frame for `num_keyframes` 0."""
    num_keyframes = num_keyframes or clips.shape[1]
    if placement == "even":
        return keyframes.evenly_spread(len(clips), clips.shape[1], num_keyframes)
    # On the CPU, so that rounding on another device does not decide between errors that are nearly equal.
    clips, labels = clips.cpu(), labels.cpu()
    classes, which = labels.unique(return_inverse=True)
    if placement == "error" or len(classes) < 2:
        return keyframes.best_placed(clips, num_keyframes)
    means = torch.stack([clips[labels == label].mean(0).flatten() for label in classes])
    nearest = torch.cdist(means, means).fill_diagonal_(torch.inf).amin(1).square().clamp(min=1e-9)
    return keyframes.best_placed(clips, num_keyframes, 1 / nearest[which])


class KeyFrames(Method):
    """Videos of interpolated key-frames, the paper's representation (section 3.1)."""

    def check(self, store: ClipStore, config: Settings) -> None:
        """Refuse more key-frames than frames, insertion where all are key-frames, and sizes that do not divide."""
        num, scale, (height, width) = config.initial_keyframes, config.keyframe_scale, store.size
        if not num and config.insertion != "never":
            said = f"condense.initial_keyframes = 0, but insertion rule {config.insertion!r} has none to insert"
            raise ConfigError(f"{said}. Pass --initial-keyframes 2 (the paper).")
        if num > store.num_frames:
            raise ConfigError(f"condense.initial_keyframes = {num}, but the clips have {store.num_frames} frames.")
        if height % scale or width % scale:
            said = f"condense.keyframe_scale = {scale}, but the clips have {height}×{width} pixels."
            raise ConfigError(f"{said} Choose a number that divides both.")

    def example(self, store: ClipStore, config: Settings, encode: Encode) -> Any:
        num_keyframes, scale = config.initial_keyframes or store.num_frames, config.keyframe_scale
        frames = torch.zeros(1, store.num_frames, 3, *(side // scale for side in store.size))
        return encode(frames, keyframes.evenly_spread(1, store.num_frames, num_keyframes), scale)

    def start(self, store: ClipStore, config: Settings, device: torch.device, classes: range) -> KeyFrameVideos:
        """Videos of mean clips, noise or real clips, the same whichever classes are condensed; zeros for a set."""
        scale, shape = config.keyframe_scale, (3, *(side // config.keyframe_scale for side in store.size))
        labels = torch.arange(len(store.classes)).repeat_interleave(config.vpc)
        own = slice(config.vpc * classes.start, config.vpc * classes.stop)
        num_keyframes = config.initial_keyframes or store.num_frames
        mask = keyframes.evenly_spread(config.vpc * len(classes), store.num_frames, num_keyframes)
        frames = torch.zeros(*mask.shape, *shape)
        if config.init == "noise":
            noise = torch.randn((len(labels), num_keyframes, *shape), generator=generator(config.seed, "videos"))
            frames[mask] = noise[own].flatten(0, 1)
        if config.fully_learnable:
            mask = keyframes.insert(frames, mask, torch.ones_like(mask))
        videos = KeyFrameVideos(frames.to(device), mask.to(device), labels[own], config)
        if config.init in ("mean", "real"):
            clips = (random_clips if config.init == "real" else mean_clips)(store, config, classes)
            videos.start_as(store.normalisation.apply(keyframes.reduce(clips, scale)).to(device))
        return videos


class WholeClips(KeyFrames):
    """Real clips of which every frame is trained: DM, the baseline (Zhao and Bilen, arXiv 2110.04181)."""

    fixed: ClassVar = {"init": "real", "initial_keyframes": 0, "keyframe_scale": 1, "insertion": "never"}


def random_clips(store: ClipStore, config: Settings, classes: range) -> Tensor:
    """Random real clips (V, T, C, H, W) of some classes, in pixels 0..1."""
    chosen = store.sample(config.vpc, generator(config.seed, "videos")).view(-1, config.vpc)
    return as_pixels(store.clips("train").frames[chosen[classes.start : classes.stop].flatten()])


def mean_clips(store: ClipStore, config: Settings, classes: range) -> Tensor:
    """Means (V, T, C, H, W) of real clips, in pixels 0..1: the clips of a class are split among its videos.

    At most `MEAN_OF` clips enter a mean, each with its mirror image where mirroring keeps the label.
    """
    clips = store.clips("train")
    means: list[Tensor] = []
    for label in classes:
        of_class = (clips.labels == label).nonzero().flatten()
        order = torch.randperm(len(of_class), generator=generator(config.seed, "videos", label))
        for share in of_class[order].tensor_split(config.vpc):
            # One by one: all of them as int32 would take more memory than everything else.
            total = torch.zeros(clips.frames.shape[1:], dtype=torch.int32)
            chosen = share[:MEAN_OF].tolist()
            for position in chosen:
                total += clips.frames[position]
            means.append(total / (255 * len(chosen)))
    pixels = torch.stack(means)
    return pixels.add_(pixels.flip(-1)).div_(2) if store.flip else pixels


def suggest_lower_lr(trainable: list[Trainable]) -> str:
    """The advice for values that grow without bound."""
    smaller = " or ".join(f"--{part.option.replace('_', '-')} {part.lr / 10:g}" for part in trainable)
    return f"The learning rate is too high: start again with {smaller} --overwrite."


def check_storable(what: str, values: Tensor, largest: float, storage: str, trainable: list[Trainable]) -> None:
    """Raise a DivergedError for values that a storage cannot hold."""
    found = float(values.abs().max())
    if not found <= largest:
        said = f"{what} has reached {found:.3g}, which {storage} cannot hold"
        raise DivergedError(f"{said}. {suggest_lower_lr(trainable)}")
