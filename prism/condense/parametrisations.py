"""Parametrisations: what is trainable in a synthetic video, and how it renders to a clip."""

from typing import Any

import torch
from torch import Tensor

from prism.clips import as_pixels
from prism.condensed import CondensedSet
from prism.config import CondenseConfig
from prism.errors import DivergedError
from prism.keyframes import evenly_spread, insert, render
from prism.runtime import generator
from prism.store import ClipStore

LARGEST = {"float16": 65504.0, "float32": 1e38}
"""What a stored value may reach, by number format; uint8 stores a float32 range."""


class KeyFrames:
    """Interpolated key-frames, the paper's representation (section 3.1).

    With every frame a key-frame this is DM. Frames are kept dense, (V, T, C, H, W), normalised, with a mask
    of what counts: gradients do not reach the rest, so neither does momentum, and a newly inserted frame
    starts with none.
    """

    def __init__(self, frames: Tensor, mask: Tensor) -> None:
        self.frames = frames.requires_grad_()
        self.mask = mask

    @classmethod
    def start(cls, store: ClipStore, config: CondenseConfig, device: torch.device) -> "KeyFrames":
        """Gaussian noise or real clips at evenly spread key-frames, `config.vpc` videos for each class."""
        num_videos = len(store.classes) * config.vpc
        num_keyframes = config.initial_keyframes or store.num_frames
        mask = evenly_spread(num_videos, store.num_frames, num_keyframes)
        if config.init == "real":
            chosen = store.sample(config.vpc, generator(config.seed, "videos"))
            frames = store.normalisation.apply(as_pixels(store.clips("train").frames[chosen]))
        else:
            noise = (num_videos, num_keyframes, 3, *store.size)
            frames = torch.zeros(num_videos, store.num_frames, 3, *store.size)
            frames[mask] = torch.randn(noise, generator=generator(config.seed, "videos")).flatten(0, 1)
        frames = torch.where(mask[:, :, None, None, None], frames, 0.0)
        if config.fully_learnable:
            frames, mask = insert(frames, mask, torch.ones_like(mask))
        return cls(frames.to(device), mask.to(device))

    @property
    def trainable(self) -> list[Tensor]:
        """The tensors that the optimiser moves."""
        return [self.frames]

    def render(self) -> Tensor:
        """Normalised clips (V, T, C, H, W), differentiable with respect to the trainable tensors."""
        return render(self.frames, self.mask)

    @torch.no_grad()
    def insert(self, proposed: Tensor) -> None:
        """Promote the proposed frames (V, T) to key-frames, at their interpolated value."""
        frames, self.mask = insert(self.frames, self.mask, proposed)
        self.frames.copy_(frames)

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
        largest = float(frames[mask].abs().max())
        if not largest <= LARGEST.get(config.storage, LARGEST["float32"]):
            raise DivergedError(
                f"a key-frame has reached {largest:.3g}, which {config.storage} cannot hold. The learning rate "
                f"{config.lr:g} is too high: start again with --lr {config.lr / 10:g} --overwrite."
            )
        return CondensedSet.pack(
            frames,
            mask,
            torch.arange(len(store.classes)).repeat_interleave(config.vpc),
            classes=store.classes,
            normalisation=store.normalisation,
            flip=store.flip,
            storage=config.storage,
            source=source,
        )


PARAMETRISATIONS: dict[str, type[KeyFrames]] = {"prism": KeyFrames, "dm": KeyFrames}
