"""A rule with a budget: free the frames that lower the loss most, until the bytes are spent (docs/method.md).

A conflict of gradients says that interpolation fails somewhere. Once the key-frames have converged, it says so
everywhere. The worth of a new key-frame is another question. It adds one direction to those in which a video can
move: the hat, which is 1 at its frame and falls to 0 at the key-frames around it. Some of the gradient's energy
lies in this direction and in none that the key-frames have already. That energy says how fast the loss falls at
first when the frame is freed.
"""

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from prism.artifacts.keyframes import interpolation_weights, neighbours
from prism.artifacts.options import STORAGES
from prism.artifacts.store import ClipStore
from prism.condensation.options import BUDGET, UNITS, CondenseConfig
from prism.condensation.rules import InsertionRule, Occasion
from prism.errors import ConfigError


def hats(mask: Tensor) -> Tensor:
    """What a new key-frame would move, for each frame of each video.

    Args:
        mask: (V, T) bool, True at key-frames, including the first and the last frame.

    Returns:
        (V, T, T) float64: `hats[v, :, t]` is 1 at frame t and falls linearly to 0 at the key-frames around it;
        all of it is 0 where t is a key-frame.
    """
    before, after = (times.to(torch.float64).unsqueeze(1) for times in neighbours(mask))
    peak = torch.arange(mask.shape[1], dtype=torch.float64, device=mask.device)
    frame = peak[:, None]
    rising = (frame - before) / (peak - before).clamp(min=0.5)
    falling = (after - frame) / (after - peak).clamp(min=0.5)
    return torch.minimum(rising, falling).clamp(min=0.0) * ~mask.unsqueeze(1)


def gains(gram: Tensor, mask: Tensor) -> Tensor:
    """The gradient energy that each frame, as a key-frame, would add to what its video can express.

    Args:
        gram: (V, T, T) inner products ⟨g_s, g_t⟩ of the gradients with respect to the rendered frames.
        mask: (V, T) bool, True at key-frames.

    Returns:
        (V, T) float64: ‖Σ_s ĥ_t[s] g_s‖² / ‖ĥ_t‖², where ĥ_t is the part of the hat of frame t that is orthogonal
        to all that the key-frames express; 0 at key-frames. A gradient step of rate η on the rendered clip lowers
        the loss by η times as much more, to first order, if the frame is free.
    """
    weights = interpolation_weights(mask, torch.float64)
    new = hats(mask)
    new = new - weights @ (torch.linalg.pinv(weights) @ new)
    energy = (new * (gram.to(torch.float64) @ new)).sum(dim=1)
    return torch.where(mask, 0.0, energy / new.square().sum(dim=1).clamp(min=1e-12)).clamp(min=0.0)


def best_first(gradients: Tensor, mask: Tensor, num_classes: int, allowed: int) -> Tensor:
    """Frames to insert, the one with the largest gain of a class first, then the next in view of that one.

    Args:
        gradients: (V, T, C, H, W) of the loss with respect to the rendered clips, grouped by class.
        mask: (V, T) bool, True at key-frames.
        num_classes: V is a multiple of it.
        allowed: key-frames that a class may have by now; a class with as many gets none.

    Returns:
        (V, T) bool, none of them a key-frame, and none that gains nothing.
    """
    flat = gradients.flatten(2)
    gram, grown = torch.bmm(flat, flat.transpose(1, 2)).cpu(), mask.cpu().clone()
    while True:
        room = grown.view(num_classes, -1).sum(dim=1) < allowed
        gain = gains(gram, grown).view(num_classes, -1)
        best = gain.max(dim=1)
        chosen = room & (best.values > 0)
        if not chosen.any():
            return (grown & ~mask.cpu()).to(mask.device)
        grown.view(num_classes, -1)[chosen, best.indices[chosen]] = True


@dataclass(frozen=True)
class LargestGain(InsertionRule):
    """The frames that lower the loss most, until the budget is spent.

    Attributes:
        budget: bytes for the key-frames of all videos, as `12MiB`; or key-frames per video on average, as `2.8`.
    """

    budget: str = ""

    def check(self, store: ClipStore, config: CondenseConfig) -> None:
        """Refuse a budget that cannot be counted, or that does not fit the videos.

        Raises:
            ConfigError: it is no budget, pays for fewer key-frames than there are at the start, or for more than
                there are frames.
        """
        if not BUDGET.fullmatch(self.budget):
            raise config.refusal("budget", "bytes (12MiB, 300kB) or key-frames per video (2.8)")
        if config.initial_keyframes < 2 or config.fully_learnable:
            raise config.refusal("insertion", "another where every frame is a key-frame at once")
        self.keyframes_per_class(store, config)

    def propose(self, occasion: Occasion) -> Tensor:
        """The best frames, as far as the budget has grown by now."""
        store, config = occasion.store, occasion.config
        allowed = allowed_at(occasion.iteration, config, self.keyframes_per_class(store, config))
        return best_first(occasion.gradients, occasion.conflict.mask, occasion.num_classes, allowed)

    def keyframes_per_class(self, store: ClipStore, config: CondenseConfig) -> int:
        """The key-frames that the budget pays for, for each class.

        Raises:
            ConfigError: it does not pay for those at the start, or for more than there are frames.
        """
        first, most = config.vpc * config.initial_keyframes, config.vpc * store.num_frames
        match = BUDGET.fullmatch(self.budget)
        assert match is not None
        amount, unit = match.groups()
        hint = ""
        if unit:
            of_value = STORAGES.make(config.storage, config).bytes_per_value
            if of_value is None:
                promise = f"key-frames per video (2.8) with storage {config.storage}"
                raise config.refusal("budget", f"{promise}, whose bytes are known at the end")
            of_frame = 3 * store.size[0] * store.size[1] // config.keyframe_scale**2 * of_value
            paid = int(Fraction(amount) * UNITS[unit] / (of_frame * len(store.classes)))
            hint = f" One takes {of_frame} B."
        else:
            # A fraction: 2.8 key-frames for each of five videos are fourteen, which floats may make thirteen.
            paid = int(Fraction(amount) * config.vpc)
        if not first <= paid <= most:
            raise ConfigError(
                f"condense.budget = {self.budget!r} pays for {paid} key-frames of each class, but it must be from "
                f"{first}, those at the start, to {most}, every frame.{hint}"
            )
        return paid


def allowed_at(iteration: int, config: CondenseConfig, paid: int) -> int:
    """Key-frames of a class that may be there after an iteration: all that are paid for when insertion ends.

    They grow evenly, so that each is judged by gradients which know the ones before it.
    """
    first, last = config.insertion_span
    spent = min(1.0, (iteration + 1 - first) / (last - first))
    start = config.vpc * config.initial_keyframes
    return start + round(spent * (paid - start))
