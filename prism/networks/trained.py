"""Networks trained on a store's training clips, whose values the store keeps, and embeddings under them."""

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from prism.artifacts.cache import CacheFile
from prism.artifacts.store import ClipStore
from prism.errors import DivergedError
from prism.machine.devices import deterministic
from prism.machine.executors import end_where_stopped
from prism.machine.progress import Advance, no_progress
from prism.machine.randomness import derive_seed
from prism.networks.build import Model, allocate, build_for
from prism.networks.initial import set_values, values_of
from prism.networks.network import Network
from prism.networks.options import NETWORKS, Schedule
from prism.networks.training import outputs_of, train, within_memory

BATCH_SIZE = 32
"""Clips that are trained on, and embedded, at a time."""
DRAWS = 10
"""Largest number of networks that are drawn and trained, one after the other, until one separates clips."""


def trained_network(
    store: ClipStore,
    model: Model,
    device: torch.device,
    *,
    width: int,
    epochs: int,
    seed: int,
    advance: Advance = no_progress,
) -> Network:
    """A frozen network, trained on all training clips.

    A small network may die while it is trained. It then embeds all clips alike, and another one takes its place.

    Args:
        model: a custom network is trained every time, as its code may change; the store keeps others' values.
        width: channels of its first block; 0 for the published number.
        epochs: passes over all training clips; 0 leaves it random.
        seed: of its initial values and its training.
        advance: called after every epoch, or once with the number of epochs if the store has the values.

    Raises:
        DivergedError: ten networks have died.
    """
    network = allocate(build_for(store, model, "meta", width=width), device)
    end_where_stopped(network)
    key = {"model": network.name, "width": width, "epochs": epochs, "embedder_seed": seed, "draws": DRAWS}
    file = CacheFile.of(store, "trained", key, device) if NETWORKS.is_builtin(model) else None
    if file and (values := file.load()) is not None:
        set_values(network, values)
        advance(epochs)
    else:
        _train(network, store, epochs, seed, advance)
        if file:
            file.save(values_of(network))
    return network.eval().requires_grad_(False)


def _train(network: Network, store: ClipStore, epochs: int, seed: int, advance: Advance) -> None:
    """Train a network, from other initial values until it separates clips."""
    clips = store.clips("train")
    # An objective may request a network where gradients are switched off.
    with deterministic(next(network.parameters()).device), within_memory(), torch.enable_grad():
        for draw in range(DRAWS):
            # Derived, as `prism evaluate` trains a network with the seed itself.
            how = {"seed": derive_seed(seed, "embedder", draw), "advance": no_progress if draw else advance}
            with suppress(DivergedError):
                train(network, clips, store.normalisation, Schedule(epochs, BATCH_SIZE), flip=store.flip, **how)
                embeddings = _embeddings(network, store)
                if embeddings.isfinite().all() and (embeddings != embeddings[0]).any():
                    return
    said = f"{DRAWS} networks have diverged, or embed all clips alike"
    raise DivergedError(f"{said}. Pass a larger --width or fewer --epochs.")


def trained_embeddings(store: ClipStore, model: Model, device: torch.device, **how: Any) -> Tensor:
    """Embeddings (N, D) of all training clips under `trained_network`, float32 on the CPU, in their order."""
    network = trained_network(store, model, device, **how)
    with deterministic(device), within_memory():
        return _embeddings(network, store)


def _embeddings(network: Network, store: ClipStore) -> Tensor:
    return outputs_of(network, store.clips("train"), store.normalisation, BATCH_SIZE, None, "embed")
