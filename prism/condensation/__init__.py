"""Condensation: `condense.py` is the verb, `loop.py` the method, and this file the options that both read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from prism.config import RATE, SHARE, Group, OmitDefault, Options, Range, at_least, between

STARTS = "mean", "noise", "real"
INIT = Range(f"{', '.join(STARTS)}, or the file of a set", bool)
LR = Range("positive and below 1e+38, or 0 for relative_lr", lambda value: 0 <= value < 1e38)
INITIAL = Range("at least 2, or 0 for every frame", lambda value: value == 0 or value >= 2)


@dataclass(frozen=True)
class Settings(Options, section="condense"):
    """The options of `prism condense`, as its methods, objectives and rules read them.

    `options.CondenseConfig` declares the names of parts again, with the lists of parts, which import this module.
    """

    vpc: Annotated[int, Group("What the videos are"), at_least(1)] = 1
    """Synthetic videos per class."""
    method: str = "prism"
    init: Annotated[str, INIT] = "mean"
    """Key-frames at the start: `mean`, frames of the mean of real clips, which the videos of a class divide up; \
`noise`, Gaussian noise (the paper); `real`, frames of random real clips; or the file of a set of the same \
store and `vpc`, such as one of `prism select --method herding`: frames of its videos."""
    initial_keyframes: Annotated[int, INITIAL] = 2
    """Key-frames per video at the start; 0 for every frame."""
    placement: Annotated[Literal["even", "error", "budget"], OmitDefault()] = "even"
    """Positions of the first key-frames of mean or real clips: `even`, evenly spread; `error`, where \
interpolation errs least; `budget`, as `error`, but with `initial_keyframes` only on average: a video gets more \
where its errors are large relative to the distance between its class and the nearest one."""
    keyframe_scale: Annotated[int, between(1, 16)] = 4
    """Size of a clip divided by the size of a stored key-frame: 2 trains and stores key-frames of half the \
height and width, which are enlarged bilinearly. The paper: 1."""
    fully_learnable: bool = False
    """Interpolate the initial key-frames, then make every frame trainable from the first step."""
    seed: int = 0
    """Seed of everything random but the networks and their real clips (`network_seed`), whose order it sets."""
    iterations: Annotated[int, Group("How they are matched"), at_least(0)] = 5000
    """Optimisation steps; each draws a fresh random network. 0 leaves the videos as they start. The paper does \
not state the number; the protocol it follows uses 5000."""
    lr: Annotated[float, LR] = 0.0
    """Learning rate of the key-frames in absolute terms, as papers state it; 0 uses `relative_lr` instead."""
    relative_lr: Annotated[float, RATE] = 0.2
    """Learning rate of the key-frames as a multiple of 1/λ, where λ is the largest curvature of the loss at the \
start, so that one number suits every size, width, network and vpc."""
    metric: Literal["clip", "parameter"] = "clip"
    """Metric of steepest descent: `clip` measures a step by the change of the rendered clip, so that it depends \
on what the key-frames can express and not on their number; `parameter` measures it by the change of the \
key-frames (the paper)."""
    decay: Literal["cosine", "constant"] = "cosine"
    """How the learning rates fall: along half a cosine to zero, or not at all (the paper)."""
    momentum: Annotated[float, SHARE] = 0.95
    """Momentum of SGD."""
    objective: str = "distribution"
    batch_real: Annotated[int, at_least(0)] = 64
    """Real clips per class that each network embeds, 0 for all; a smaller class gives all it has."""
    network_seed: int = 0
    """Seed of the random networks and of the real clips that they embed. The class means are kept in the store: \
every vpc, method and seed with the same network_seed shares them."""
    static_iterations: Annotated[int, at_least(0)] = 1000
    """static-dynamic: steps before those of `iterations`, which train the static images on single frames."""
    static_lr: Annotated[float, RATE] = 1.0
    """static-dynamic: learning rate of the static images, which are fixed after `static_iterations`."""
    dynamic_lr: Annotated[float, RATE] = 0.0001
    """static-dynamic: learning rate of the dynamic memories; published: 1e-4 for VPC 1, 1e3 for VPC 5."""
    hallucinator_lr: Annotated[float, RATE] = 1e-05
    """static-dynamic: learning rate of the hallucinator; published: 1e-5 for VPC 1, 1e-6 for VPC 5."""
    insertion: str = "never"
    epsilon: Annotated[float, between(-1, 1)] = 0.0
    """Cosine below which two gradients conflict."""
    warmup: Annotated[float, between(0, 1)] = 0.2
    """Share of the iterations at the start without insertion."""
    cooldown: Annotated[float, between(0, 1)] = 0.2
    """Share of the iterations at the end without insertion."""
    model: str = "convnet3d"
    width: Annotated[int, between(0, 4096)] = 0
    """Channels of the network's first block; 0 for the published number."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format in which the network embeds real clips: bfloat16 is about twice as fast where the processor \
has instructions for it, and `auto` takes it on such GPUs. Class means, losses and gradients are always float32."""
    storage: str = "float32"
    quality: Annotated[int, between(0, 100)] = 50
    """h264: quality of the compression, 0 to 100, as in `prism select`."""

    def relations(self) -> Iterator[tuple[str, bool, str]]:
        """Insertion needs iterations between warm-up and cool-down."""
        leaves_time = self.warmup + self.cooldown < 1 or self.insertion == "never"
        yield "cooldown", leaves_time, f"below {1 - self.warmup:g}, so that some iterations insert"

    def inserts_at(self, iteration: int) -> bool:
        """Whether insertion is on: after the warm-up and before the cool-down (paper, section 3.3)."""
        before, after = (round(share * self.iterations) for share in (self.warmup, self.cooldown))
        return before <= iteration < self.iterations - after
