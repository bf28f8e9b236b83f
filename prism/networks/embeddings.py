"""Embeddings of a store's training clips, computed once for each network and kept beside the clips."""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from prism.artifacts.cache import CacheFile
from prism.artifacts.store import ClipStore
from prism.machine.devices import in_one_thread
from prism.machine.progress import progress_bar
from prism.machine.randomness import generator
from prism.networks.build import Model, allocate, build_for
from prism.networks.initial import initialise
from prism.networks.network import Network
from prism.networks.options import NETWORKS, Schedule
from prism.networks.training import outputs_of, train
from prism.networks.training_memory import check_memory

BATCH_SIZE = 32
"""Clips that are trained on, and embedded, at a time."""


class Backbone(nn.Module):
    """A network without its classifier, so that it may be trained and shown clips by its embeddings."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to embeddings (N, D), not normalised."""
        return self.network.embed(clips)


@dataclass(frozen=True)
class EmbeddingNetwork:
    """The network that embeds: which one it is and, if it is trained, for how long.

    Attributes:
        model: the network, as `build` takes it.
        width: channels of its first block.
        epochs: passes over all training clips; 0 leaves it as it was drawn.
        seed: seed of its initial values and its training.
    """

    model: Model
    width: int
    epochs: int
    seed: int


def train_embeddings(
    store: ClipStore, embedder: EmbeddingNetwork, device: torch.device, progress: bool = False
) -> Tensor:
    """The embeddings of all training clips, from the store's cache if they are there.

    Those of somebody else's network are computed every time: its code may have changed under the same name.

    Args:
        store: its training clips are embedded, and trained on.
        embedder: the network, and for how long it is trained.
        device: where it runs.
        progress: show a bar while it is trained.

    Returns:
        (N, D) float32 on the CPU, in the order of the training split.

    Raises:
        ConfigError: training the network would take more memory than there is.
    """
    network = build_for(store, embedder.model, "meta", width=embedder.width)
    name, shape = NETWORKS.name_of(embedder.model), (len(store.positions("train")), network.embed_dim)

    def compute() -> Tensor:
        clips = store.clips("train")
        if embedder.epochs:
            check_memory(network, min(BATCH_SIZE, len(clips)), device, remedy="--width or another --model")
        allocate(network, device)
        with in_one_thread(device):
            if embedder.epochs:
                schedule, seed, flip = Schedule(embedder.epochs, BATCH_SIZE), embedder.seed, store.flip
                with progress_bar("Training", embedder.epochs, "epochs", enabled=progress) as advance:
                    train(network, clips, store.normalisation, schedule, seed=seed, flip=flip, advance=advance)
            else:
                initialise(network, generator(embedder.seed, "init", device=device))
            return outputs_of(Backbone(network), clips, store.normalisation, BATCH_SIZE)

    if not NETWORKS.ships(embedder.model):
        return compute()
    return CacheFile.of(store, "embeddings", asdict(embedder) | {"model": name}, device, shape).get(compute)
