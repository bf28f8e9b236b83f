"""Parametrisations: what is trainable in a synthetic video, and how it renders to a clip."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from prism.artifacts.clips import as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding, StaticDynamicEncoding, keyframe_encoding, require_encoder
from prism.artifacts.hallucinator import MEMORIES, combine, hallucinate
from prism.artifacts.keyframes import enlarge, evenly_spread, insert, reduce, render
from prism.artifacts.store import ClipStore
from prism.condensation.objectives import View, held_frames, whole_clips
from prism.condensation.options import CondenseConfig
from prism.errors import DivergedError
from prism.machine.randomness import generator
from prism.networks.initial import initialise

LARGEST = {"float16": 65504.0, "float32": 1e38}
"""What a stored value may reach, by number format; uint8 and the codecs store a float32 range."""


@dataclass(frozen=True)
class Trainable:
    """Tensors that the optimiser moves at one learning rate, and the option which sets that."""

    option: str
    lr: float
    tensors: list[Tensor]


class Parametrisation(Protocol):
    """What the loop asks of synthetic videos.

    Attributes:
        mask: (V, T) bool, False at frames that an insertion rule may propose.
        preparation: iterations before those of `config.iterations`, without insertion.
        trainable: what the optimiser moves; a tensor from which an iteration renders nothing rests.
    """

    mask: Tensor
    preparation: int
    trainable: list[Trainable]

    @classmethod
    def start(
        cls, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range
    ) -> "Parametrisation":
        """The videos of these classes before the first iteration."""
        ...

    def view(self, iteration: int) -> View:
        """What of the real clips the rendered ones are compared with."""
        ...

    def render(self, iteration: int) -> Tensor:
        """Normalised clips (n, T, C, H, W), equally many of every class, differentiable in what is trained."""
        ...

    def insert(self, proposed: Tensor) -> None:
        """Promote the proposed frames (V, T)."""
        ...

    def mean_keyframes(self) -> float:
        """Colour images stored per video."""
        ...

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold."""
        ...

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take up the state of a checkpoint."""
        ...

    def condensed(self, store: ClipStore, config: CondenseConfig, source: dict[str, Any]) -> CondensedSet:
        """The finished set."""
        ...


def remedy(trainable: list[Trainable]) -> str:
    """What to do when values grow without bound."""
    smaller = " or ".join(f"--{part.option.replace('_', '-')} {part.lr / 10:g}" for part in trainable)
    return f"The learning rate is too high: start again with {smaller} --overwrite."


def check_storable(what: str, values: Tensor, storage: str, trainable: list[Trainable]) -> None:
    """Refuse values that a number format cannot hold.

    Raises:
        DivergedError: the largest is named.
    """
    largest = float(values.abs().max())
    if not largest <= LARGEST.get(storage, LARGEST["float32"]):
        raise DivergedError(f"{what} has reached {largest:.3g}, which {storage} cannot hold. {remedy(trainable)}")


def finished(encoding: Encoding, store: ClipStore, labels: Tensor, source: dict[str, Any]) -> CondensedSet:
    """The set that stores videos with these labels in this encoding."""
    return CondensedSet(encoding, labels, store.classes, store.normalisation, store.flip, source)


class KeyFrames:
    """Interpolated key-frames, the paper's representation (section 3.1).

    With every frame a key-frame this is DM. Frames are kept dense, (V, T, C, H, W), normalised, with a mask
    of what counts: gradients do not reach the rest, so neither does momentum, and a newly inserted frame
    starts with none. They may be smaller than the clips, which are then enlarged.
    """

    preparation = 0

    def __init__(self, frames: Tensor, mask: Tensor, labels: Tensor, lr: float, scale: int) -> None:
        self.frames = frames.requires_grad_()
        self.mask, self.labels, self.scale = mask, labels, scale
        self.trainable = [Trainable("lr", lr, [self.frames])]

    @classmethod
    def start(
        cls, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range | None = None
    ) -> "KeyFrames":
        """Gaussian noise or real clips at evenly spread key-frames, `config.vpc` videos for each class.

        They are drawn for all classes, so that a video does not depend on which others are asked for.

        Raises:
            ConfigError: this installation has no encoder for their storage.
        """
        require_encoder(config.storage)
        size, scale = store.size, config.keyframe_scale
        every = torch.arange(len(store.classes)).repeat_interleave(config.vpc)
        wanted = torch.isin(every, torch.tensor(classes or range(len(store.classes))))
        num_videos = int(wanted.sum())
        num_keyframes = config.initial_keyframes or store.num_frames
        mask = evenly_spread(num_videos, store.num_frames, num_keyframes)
        if config.init == "real":
            chosen = store.sample(config.vpc, generator(config.seed, "videos"))[wanted]
            frames = store.normalisation.apply(reduce(as_pixels(store.clips("train").frames[chosen]), scale))
        else:
            shape = (3, size[0] // scale, size[1] // scale)
            noise = torch.randn((len(every), num_keyframes, *shape), generator=generator(config.seed, "videos"))
            frames = torch.zeros(num_videos, store.num_frames, *shape)
            frames[mask] = noise[wanted].flatten(0, 1)
        frames = torch.where(mask[:, :, None, None, None], frames, 0.0)
        if config.fully_learnable:
            mask = insert(frames, mask, torch.ones_like(mask))
        return cls(frames.to(device), mask.to(device), every[wanted], config.lr, scale)

    def view(self, iteration: int) -> View:
        """Whole clips."""
        return whole_clips

    def render(self, iteration: int = 0) -> Tensor:
        """Normalised clips (V, T, C, H, W), differentiable with respect to the key-frames."""
        return enlarge(render(self.frames, self.mask), self.scale)

    @torch.no_grad()
    def insert(self, proposed: Tensor) -> None:
        """Promote the proposed frames (V, T) to key-frames, at their interpolated value."""
        self.mask = insert(self.frames, self.mask, proposed)

    def mean_keyframes(self) -> float:
        """Key-frames per video."""
        return float(self.mask.sum()) / len(self.mask)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold."""
        return {"frames": self.frames.detach(), "mask": self.mask}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Take up the state of a checkpoint."""
        self.frames.copy_(state["frames"])
        self.mask = state["mask"].to(self.frames.device)

    @torch.no_grad()
    def condensed(self, store: ClipStore, config: CondenseConfig, source: dict[str, Any]) -> CondensedSet:
        """The finished set, in units of pixels.

        Raises:
            DivergedError: a key-frame holds a value that its storage cannot.
        """
        frames, mask = store.normalisation.invert(self.frames.detach().cpu()), self.mask.cpu()
        check_storable("a key-frame", frames[mask], config.storage, self.trainable)
        encoding = keyframe_encoding(frames, mask, config.storage, config.quality, self.scale)
        return finished(encoding, store, self.labels, source)


class StaticDynamic:
    """Static images and dynamic memories, joined by a hallucinator (Wang et al., arXiv 2312.00362).

    Every video has two of either. The images come first: for `config.static_iterations` they are matched
    with single frames of the real clips, each held for the length of a clip. Then they rest, and memories
    and hallucinator are matched with whole clips, every iteration from a new draw of one image and one
    memory for each video.
    """

    def __init__(self, static: Tensor, dynamic: Tensor, hallucinator: nn.Conv3d, config: CondenseConfig) -> None:
        assert hallucinator.bias is not None
        self.static, self.dynamic = static.requires_grad_(), dynamic.requires_grad_()
        self.weight, self.bias = hallucinator.weight, hallucinator.bias
        self.mask = torch.ones(len(static) // MEMORIES, dynamic.shape[1], dtype=torch.bool, device=static.device)
        self.seed, self.preparation = config.seed, config.static_iterations
        self.trainable = [
            Trainable("static_lr", config.static_lr, [self.static]),
            Trainable("dynamic_lr", config.dynamic_lr, [self.dynamic]),
            Trainable("hallucinator_lr", config.hallucinator_lr, [self.weight, self.bias]),
        ]

    @classmethod
    def start(
        cls, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range | None = None
    ) -> "StaticDynamic":
        """Random real frames, memories of Gaussian noise, and a hallucinator with PyTorch's default values.

        The hallucinator is shared, so that there is no part of the classes that could be asked for.
        """
        assert classes is None or len(classes) == len(store.classes)
        num = MEMORIES * config.vpc
        frames = _random_frames(store, num, config.seed)
        noise = (len(frames), store.num_frames, *store.size)
        dynamic = torch.randn(noise, generator=generator(config.seed, "memories"))
        hallucinator = nn.Conv3d(4, 3, kernel_size=3, padding=1, device="meta").to_empty(device="cpu")
        initialise(hallucinator, generator(config.seed, "hallucinator"))
        static = store.normalisation.apply(as_pixels(frames))
        return cls(static.to(device), dynamic.to(device), hallucinator.to(device), config)

    def view(self, iteration: int) -> View:
        """Single frames while the static images are learned, then whole clips."""
        return held_frames if iteration < self.preparation else whole_clips

    def render(self, iteration: int) -> Tensor:
        """Normalised clips: of every static image (2V, T, C, H, W), then of a draw for each video (V, …)."""
        if iteration < self.preparation:
            return self.static.unsqueeze(1).expand(-1, self.dynamic.shape[1], -1, -1, -1)
        static, dynamic = combine(len(self.mask), generator(self.seed, "recombine", iteration))
        return hallucinate(self.static[static].detach(), self.dynamic[dynamic], self.weight, self.bias)

    def insert(self, proposed: Tensor) -> None:
        """Nothing: no frame is interpolated, so there is no candidate."""
        assert not proposed.any()

    def mean_keyframes(self) -> float:
        """Static images per video."""
        return float(MEMORIES)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold."""
        parts = {"static": self.static, "dynamic": self.dynamic, "weight": self.weight, "bias": self.bias}
        return {name: part.detach() for name, part in parts.items()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Take up the state of a checkpoint."""
        for name, part in self.state().items():
            part.copy_(state[name])

    @torch.no_grad()
    def condensed(self, store: ClipStore, config: CondenseConfig, source: dict[str, Any]) -> CondensedSet:
        """The finished set: images in units of pixels, the rest as it is.

        Raises:
            DivergedError: an image, a memory or the hallucinator holds a value that its storage cannot.
        """
        static, dynamic, weight, bias = (part.cpu() for part in self.state().values())
        pixels = store.normalisation.invert(static)
        check_storable("a static image", pixels, config.storage, self.trainable[:1])
        check_storable("a dynamic memory", dynamic, config.storage, self.trainable[1:])
        check_storable("the hallucinator", torch.cat([weight.flatten(), bias]), "float32", self.trainable[2:])
        encoding = StaticDynamicEncoding.encode(pixels, dynamic, weight, bias, config.storage)
        labels = torch.arange(len(store.classes)).repeat_interleave(config.vpc)
        return finished(encoding, store, labels, source)


def _random_frames(store: ClipStore, num: int, seed: int) -> Tensor:
    """`num` training frames (C·num, 3, H, W) of each class, each of another clip.

    A class with fewer clips gives all it has, again and again, by frames that lie as far apart as they can.
    """
    chosen, counts = store.sample(num, generator(seed, "videos")), store.counts("train").clamp(max=num)[:, None]
    turn, within = torch.arange(num) // counts, torch.arange(num) % counts
    turns = (num + counts - 1) // counts
    place = (counts.cumsum(0) - counts + within).flatten()
    times = torch.randint(store.num_frames, (len(place),), generator=generator(seed, "video frames"))
    # The frame of a clip's first turn is drawn; the others follow from it, so that no two are the same.
    first = torch.arange(len(place)).view_as(turn).gather(1, within)
    times = (times[first] + turn * store.num_frames // turns) % store.num_frames
    return store.clips("train").frames[chosen[place], times.flatten()]


PARAMETRISATIONS: dict[str, type[Parametrisation]] = {
    "prism": KeyFrames,
    "dm": KeyFrames,
    "static-dynamic": StaticDynamic,
}
