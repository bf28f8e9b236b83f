"""Embeddings of a store's training clips, computed once for each network and kept beside the clips."""

import contextlib
import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from prism import models
from prism.clips import to_model_input
from prism.config import EvaluateConfig
from prism.errors import OutputError
from prism.runtime import canonical_json, claim, generator, versions, write_atomically
from prism.store import ClipStore
from prism.train import train

CHUNK = 64


@dataclass(frozen=True)
class Embedder:
    """The network that embeds: its kind and, if it is trained, its schedule.

    Attributes:
        model: a key of `models.MODELS`.
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
    """
    path = _cache_path(store, embedder, device)
    found = _read(path, len(store.positions("train")))
    if found is None:
        found = _embed(store, embedder, device)
        _keep(path, found)
    return found


def _cache_path(store: ClipStore, embedder: Embedder, device: torch.device) -> Path:
    key = [store.fingerprint, asdict(embedder), versions(), device.type]
    digest = hashlib.sha256(canonical_json(key).encode()).hexdigest()
    return store.path / "cache" / f"embeddings-{digest[:16]}.safetensors"


def _read(path: Path, num_clips: int) -> Tensor | None:
    # A cache may always be lost: whatever is wrong with it, it is made again.
    try:
        found = safetensors.torch.load_file(path)["embeddings"]
    except (OSError, KeyError, safetensors.SafetensorError):
        return None
    return found if found.dim() == 2 and len(found) == num_clips else None


def _keep(path: Path, embeddings: Tensor) -> None:
    # A store that cannot be written, or that another run is just writing them to, costs time and nothing else.
    with contextlib.suppress(OutputError), claim(path):
        write_atomically(path, safetensors.torch.save({"embeddings": embeddings}))


def _embed(store: ClipStore, embedder: Embedder, device: torch.device) -> Tensor:
    clips = store.clips("train")
    network = models.build_for(store, embedder.model, device, width=embedder.width)
    if embedder.epochs:
        schedule = EvaluateConfig(epochs=embedder.epochs, batch_size=32)
        train(network, clips, store.normalisation, schedule, seed=embedder.seed, flip=store.flip)
    else:
        models.initialise(network, generator(embedder.seed, "init", device=device))
    network.eval()
    with torch.no_grad():
        parts = (to_model_input(part.to(device), store.normalisation) for part in clips.frames.split(CHUNK))
        return torch.cat([network.embed(part).float().cpu() for part in parts])  # type: ignore[operator]
