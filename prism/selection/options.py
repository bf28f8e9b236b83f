"""The options of `prism select`."""

from dataclasses import dataclass, replace
from typing import Annotated

from prism.artifacts import STORAGES
from prism.config import Group, Options, at_least, between
from prism.networks.options import NETWORKS
from prism.parts import Parts

SELECTIONS = Parts(
    "selection",
    "prism.selection.methods:Selection",
    {
        "random": "prism.selection.methods:Random",
        "herding": "prism.selection.methods:Herding",
        "k-center": "prism.selection.methods:KCenter",
    },
)


@dataclass(frozen=True)
class SelectConfig(Options, section="select"):
    """Options of `prism select`; the defaults keep one real clip for each video exactly, as the field does."""

    method: Annotated[str, Group("What is chosen"), SELECTIONS] = "random"
    """How real clips are chosen."""
    vpc: Annotated[int, at_least(1)] = 1
    """Videos per class."""
    takes: Annotated[int, at_least(0)] = 1
    """Real clips that each video stands for; 1 is a coreset. With more, every epoch of training shows a random \
subset of the stored clips, vpc of each class (Okanovic et al., arXiv 2305.18424), so the set holds vpc·takes of \
each class. 0 takes as many as the smallest class allows."""
    seed: int = 0
    """Seed of the choice. Herding and k-center draw nothing: --embedder-seed makes other sets of them."""
    storage: Annotated[str, Group("Storage"), STORAGES] = "uint8"
    """Number format of the stored frames (uint8 keeps real clips exactly), `yuv420`, with colour at half \
of the height and width, or `h264`, compressed video."""
    quality: Annotated[int, between(0, 100)] = 35
    """h264: quality of the compression, 0 to 100; the constant rate factor is 51 − 0.51·quality."""
    model: Annotated[str, Group("The network of herding and k-center"), NETWORKS] = "convnet3d"
    """Herding and k-center: network that embeds the training clips."""
    width: Annotated[int, between(0, 4096)] = 0
    """Channels of the network's first block; 0 for the published number."""
    epochs: Annotated[int, at_least(0)] = 50
    """Passes over all training clips in the network's training; 0 leaves it random. The store keeps \
the network for every vpc."""
    embedder_seed: int = 0
    """Seed of the network's initial values and training."""

    def resolved(self) -> "SelectConfig":
        """The options as they take effect: a quality that the storage does not read is the default."""
        return self if "quality" in STORAGES.fields(self.storage) else replace(self, quality=SelectConfig.quality)
