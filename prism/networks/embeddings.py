"""Embeddings of a store's training clips, computed once for each network and kept beside the clips."""

from contextlib import suppress

import torch
from torch import Tensor

from prism.artifacts.cache import CacheFile
from prism.artifacts.store import ClipStore
from prism.errors import DivergedError
from prism.machine.devices import deterministic
from prism.machine.progress import progress_bar
from prism.machine.randomness import derive_seed
from prism.networks.build import Model, allocate, build_for
from prism.networks.options import NETWORKS, Schedule
from prism.networks.training import outputs_of, train, within_memory

BATCH_SIZE = 32
"""Clips that are trained on, and embedded, at a time."""
DRAWS = 10
"""Networks that are drawn one after the other, until one tells clips apart."""


def train_embeddings(
    store: ClipStore, model: Model, device: torch.device, *, width: int, epochs: int, seed: int, progress: bool
) -> Tensor:
    """Embeddings of all training clips, from the store's cache if they are there.

    A small network may die while it is trained. It then embeds all clips alike, and another one takes its place.

    Args:
        model: a custom network embeds the clips every time: its code may have changed under the same name.
        width: channels of its first block; 0 for the published number.
        epochs: passes over all training clips that it is trained for; 0 leaves it random.
        seed: of its initial values and its training.

    Returns:
        (N, D) float32 on the CPU, in the order of the training split; a DivergedError if ten networks have died.
    """
    network, clips = build_for(store, model, "meta", width=width), store.clips("train")

    def compute() -> Tensor:
        with deterministic(device), within_memory():
            allocate(network, device)
            for draw in range(DRAWS):
                # Not the seed itself: it would choose clips by a network that an evaluation then trains.
                drawn = derive_seed(seed, "embedder", draw)
                bar = progress_bar("Training", epochs, "epochs", enabled=progress and epochs > 0)
                with suppress(DivergedError):
                    with bar as advance:
                        how = {"seed": drawn, "flip": store.flip, "advance": advance}
                        train(network, clips, store.normalisation, Schedule(epochs, BATCH_SIZE), **how)
                    embeddings = outputs_of(network, clips, store.normalisation, BATCH_SIZE, None, "embed")
                    if embeddings.isfinite().all() and (embeddings != embeddings[0]).any():
                        return embeddings
        raise DivergedError(
            f"{DRAWS} networks have diverged, or embed all clips alike. Pass a larger --width or fewer --epochs."
        )

    if not NETWORKS.is_builtin(model):
        return compute()
    key = {"model": network.name, "width": width, "epochs": epochs, "embedder_seed": seed, "draws": DRAWS}
    return CacheFile.of(store, "embeddings", key, device, (len(clips), network.embed_dim)).get(compute)
