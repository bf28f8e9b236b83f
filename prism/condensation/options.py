"""The options of `prism condense`, with the names of the parts that ship."""

from dataclasses import dataclass
from typing import Annotated

from prism.artifacts import STORAGES
from prism.condensation import Settings
from prism.config import Group, OmitDefault
from prism.networks.options import NETWORKS
from prism.parts import Parts

METHODS = Parts(
    "method",
    "prism.condensation.videos:Method",
    {
        "prism": "prism.condensation.videos:KeyFrames",
        "dm": "prism.condensation.videos:WholeClips",
        "static-dynamic": "prism.condensation.static_dynamic:StaticDynamic",
    },
)
OBJECTIVES = Parts(
    "objective",
    "prism.condensation.objectives:Objective",
    {
        "distribution": "prism.condensation.objectives:DistributionMatching",
        "cross-entropy": "prism.condensation.objectives:CrossEntropy",
    },
)
RULES = Parts(
    "insertion rule",
    "prism.condensation.rules:InsertionRule",
    {
        "gradient": "prism.condensation.rules:GradientConflict",
        "never": "prism.condensation.rules:Never",
        "random": "prism.condensation.rules:RandomPositions",
        "l2": "prism.condensation.rules:L2Distance",
    },
)


@dataclass(frozen=True)
class CondenseConfig(Settings):
    """Options of `prism condense`; recipe `paper` is the paper, recipe `small` is for two CPU cores."""

    method: Annotated[str, METHODS] = "prism"
    """What the synthetic videos are made of: `prism`, key-frames and what is interpolated between them; `dm`, \
real clips of which every frame is trained; `static-dynamic`, two static images and two dynamic memories for \
each video with one hallucinator for all (Wang et al.). The last two fix the options that define them."""
    objective: Annotated[str, OBJECTIVES, OmitDefault()] = "distribution"
    """Loss of the synthetic clips of a class: `distribution`, squared distance of their mean embedding from the \
real clips' (the paper); `cross-entropy`, this and their cross-entropy under networks trained on real clips."""
    insertion: Annotated[str, Group("When frames are inserted"), RULES] = "never"
    """Frames that become key-frames: `gradient`, those whose gradients conflict (the paper); `never`, none; \
`random`, as many random ones; `l2`, those whose gradients are far apart."""
    model: Annotated[str, Group("Networks"), NETWORKS] = "convnet3d"
    """Network whose random draws embed the clips."""
    storage: Annotated[str, Group("Storage"), STORAGES] = "float32"
    """Storage of the key-frames: a number format; or, except for static-dynamic, `yuv420`, with colour at half \
of the height and width in training too; or `h264`, compressed video."""
