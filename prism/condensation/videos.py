"""What is trainable in a synthetic video of key-frames: a few (the paper), all of them small, or whole (DM)."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from prism.artifacts.clips import as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding
from prism.artifacts.keyframes import enlarge, evenly_spread, insert, reduce, render
from prism.artifacts.store import ClipStore
from prism.condensation.method import Method, Videos, grey_video
from prism.condensation.options import RULES, CondenseConfig
from prism.errors import ConfigError
from prism.machine.randomness import generator

MEAN_OF = 64
"""Real clips whose mean a video starts as, at most."""


class KeyFrameVideos(Videos):
    """Interpolated key-frames.

    Frames are kept dense, (V, T, C, H, W), normalised, with a mask
    of those that count: gradients do not reach the others, so neither does momentum, and a newly inserted frame
    starts with none. They may be smaller than the clips, which are then enlarged.
    """

    def __init__(self, frames: Tensor, mask: Tensor, labels: Tensor, config: CondenseConfig) -> None:
        super().__init__({"frames": frames}, labels, frames.shape[1], config)
        self.frames, self.scale = frames, config.keyframe_scale
        self._mark(mask)

    def render(self, iteration: int = 0) -> Tensor:
        """Normalised clips (V, T, C, H, W), differentiable with respect to the key-frames."""
        return enlarge(render(self.frames, self.mask), self.scale)

    @torch.no_grad()
    def insert(self, proposed: Tensor) -> None:
        """Promote the proposed frames (V, T) to key-frames, at their interpolated value."""
        self._mark(insert(self.frames, self.mask, proposed))

    def mean_keyframes(self) -> float:
        """Key-frames per video."""
        return self.num_keyframes / len(self.mask)

    def _mark(self, mask: Tensor) -> None:
        # Counted when it changes, not when it is asked for: a GPU would be waited for in every iteration.
        self.mask, self.num_keyframes = mask, int(mask.sum())

    def state(self) -> dict[str, Tensor]:
        """Frames and mask."""
        return super().state() | {"mask": self.mask}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take them up."""
        super().restore(state)
        self._mark(state["mask"].to(self.frames.device))

    def condensed(self, store: ClipStore, config: CondenseConfig, source: dict[str, Any]) -> CondensedSet:
        """The key-frames alone, as small as they are."""
        return self.as_set(self.frames, self.mask, store, config, source, self.scale)


class KeyFrames(Method):
    """Videos of interpolated key-frames, the paper's representation (section 3.1)."""

    def check(self, store: ClipStore, config: CondenseConfig) -> None:
        """Refuse what no clip has room for: too many key-frames, none left to insert, sizes that do not divide."""
        if not config.initial_keyframes and RULES.make(config.insertion, config).inserts:
            raise ConfigError(
                "condense.initial_keyframes = 0, which makes every frame a key-frame, and insertion rule "
                f"'{RULES.name_of(config.insertion)}' has none to insert. Pass --initial-keyframes 2 (the paper)."
            )
        if config.initial_keyframes > store.num_frames:
            raise ConfigError(
                f"condense.initial_keyframes = {config.initial_keyframes}, "
                f"but the clips have {store.num_frames} frames."
            )
        (height, width), scale = store.size, config.keyframe_scale
        if height % scale or width % scale:
            raise ConfigError(
                f"condense.keyframe_scale = {scale}, but the clips have {height}×{width} pixels. "
                "Choose a number that divides both."
            )

    def example(self, store: ClipStore, config: CondenseConfig) -> Encoding:
        """A grey video with the key-frames of the start."""
        return grey_video(store, config, config.initial_keyframes or store.num_frames, config.keyframe_scale)

    def start(
        self, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range | None = None
    ) -> KeyFrameVideos:
        """Mean clips, noise or real clips at evenly spread key-frames, `config.vpc` videos for each class.

        They are drawn for all classes, so that a video does not depend on which others are asked for.
        """
        size, scale = store.size, config.keyframe_scale
        classes = classes or range(len(store.classes))
        labels = torch.arange(len(store.classes)).repeat_interleave(config.vpc)
        own = slice(config.vpc * classes.start, config.vpc * classes.stop)
        num_videos, num_keyframes = config.vpc * len(classes), config.initial_keyframes or store.num_frames
        mask = evenly_spread(num_videos, store.num_frames, num_keyframes)
        if config.init != "noise":
            pixels = random_clips if config.init == "real" else mean_clips
            frames = store.normalisation.apply(reduce(pixels(store, config, classes), scale))
        else:
            shape = (3, size[0] // scale, size[1] // scale)
            noise = torch.randn((len(labels), num_keyframes, *shape), generator=generator(config.seed, "videos"))
            frames = torch.zeros(num_videos, store.num_frames, *shape)
            frames[mask] = noise[own].flatten(0, 1)
        frames = torch.where(mask[:, :, None, None, None], frames, 0.0)
        if config.fully_learnable:
            mask = insert(frames, mask, torch.ones_like(mask))
        return KeyFrameVideos(frames.to(device), mask.to(device), labels[own], config)


def random_clips(store: ClipStore, config: CondenseConfig, classes: range) -> Tensor:
    """Random real clips (V, T, C, H, W) of some classes, in pixels 0..1."""
    chosen = store.sample(config.vpc, generator(config.seed, "videos")).view(-1, config.vpc)
    return as_pixels(store.clips("train").frames[chosen[classes.start : classes.stop].flatten()])


def mean_clips(store: ClipStore, config: CondenseConfig, classes: range) -> Tensor:
    """Means (V, T, C, H, W) of real clips, in pixels 0..1: the videos of a class share its clips out among them.

    A mean is that of `MEAN_OF` clips at most, and of their mirror images where these keep the label.
    """
    clips = store.clips("train")
    means: list[Tensor] = []
    for label in classes:
        of_class = (clips.labels == label).nonzero().flatten()
        order = torch.randperm(len(of_class), generator=generator(config.seed, "videos", label))
        for share in of_class[order].tensor_split(config.vpc):
            # One by one: as numbers of four bytes all of them would take more than everything else.
            total = torch.zeros(clips.frames.shape[1:], dtype=torch.int32)
            chosen = share[:MEAN_OF].tolist()
            for position in chosen:
                total += clips.frames[position]
            means.append(total / (255 * len(chosen)))
    pixels = torch.stack(means)
    return pixels.add_(pixels.flip(-1)).div_(2) if store.flip else pixels


class WholeClips(KeyFrames):
    """Real clips of which every frame is trained: DM, the baseline (Zhao and Bilen, arXiv 2110.04181)."""

    fixed: ClassVar[dict[str, Any]] = {
        "init": "real",
        "initial_keyframes": 0,
        "keyframe_scale": 1,
        "insertion": "never",
    }
