"""Embeddings of a store's training clips, computed once for each network and kept beside the clips."""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from prism.artifacts.cache import remembered
from prism.artifacts.clips import Clips, to_model_input
from prism.artifacts.store import ClipStore
from prism.machine.devices import in_one_thread
from prism.machine.randomness import generator
from prism.networks.build import allocate, build_for
from prism.networks.initial import initialise
from prism.networks.network import Network
from prism.networks.options import Schedule
from prism.networks.training import train
from prism.networks.training_memory import check_memory

BATCH_SIZE = 32
"""Clips that are trained on, and embedded, at a time."""


@dataclass(frozen=True)
class Embedder:
    """The network that embeds: its kind and, if it is trained, its schedule.

    Attributes:
        model: a key of `MODELS`.
        width: channels of its first block.
        epochs: passes over all training clips; 0 leaves it as it was drawn.
        seed: seed of its initial values and its training.
    """

    model: str
    width: int
    epochs: int
    seed: int


def train_embeddings(store: ClipStore, embedder: Embedder, device: torch.device) -> Tensor:
    """The embeddings of all training clips, from the store's cache if they are there.

    Returns:
        (N, D) float32 on the CPU, in the order of the training split.

    Raises:
        ConfigError: training the network would take more memory than there is.
    """
    network = build_for(store, embedder.model, "meta", width=embedder.width)
    shape = len(store.positions("train")), network.embed_dim
    return remembered(
        store, "embeddings", asdict(embedder), device, shape, lambda: _embed(network, store, embedder, device)
    )


def _embed(network: Network, store: ClipStore, embedder: Embedder, device: torch.device) -> Tensor:
    clips = store.clips("train")
    if embedder.epochs:
        check_memory(network, min(BATCH_SIZE, len(clips)), device, remedy="--width or another --model")
    allocate(network, device)
    with in_one_thread(device):
        if embedder.epochs:
            schedule = Schedule(embedder.epochs, BATCH_SIZE)
            train(network, clips, store.normalisation, schedule, seed=embedder.seed, flip=store.flip)
        else:
            initialise(network, generator(embedder.seed, "init", device=device))
        return _embeddings(network, clips, store)


@torch.no_grad()
def _embeddings(network: Network, clips: Clips, store: ClipStore) -> Tensor:
    device = next(network.parameters()).device
    network.eval()
    parts = (to_model_input(part.to(device), store.normalisation) for part in clips.frames.split(BATCH_SIZE))
    return torch.cat([network.embed(part).float().cpu() for part in parts])
