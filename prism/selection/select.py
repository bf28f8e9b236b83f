"""Coreset selection: the real clips that stand for their class, as a CondensedSet."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism.artifacts.clips import as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import require_encoder
from prism.artifacts.store import ClipStore
from prism.config import as_dict, with_options
from prism.machine.devices import pick_device
from prism.machine.files import check_output_file
from prism.machine.locks import claim
from prism.machine.provenance import versions
from prism.machine.randomness import generator
from prism.networks.embeddings import Embedder, train_embeddings
from prism.selection.options import SelectConfig


def random_clips(embeddings: Tensor, vpc: int, draw: torch.Generator) -> list[int]:
    """`vpc` different clips, drawn uniformly."""
    return torch.randperm(len(embeddings), generator=draw)[:vpc].tolist()


def herding(embeddings: Tensor, vpc: int, draw: torch.Generator) -> list[int]:
    """Clips whose running mean stays as close as possible to the mean of all (Welling, 2009).

    Args:
        embeddings: (N, D) of one class.
        vpc: clips to pick, at most N.
        draw: not used: the choice is determined.

    Returns:
        Positions, in the order of choice; the first is the clip nearest the mean.
    """
    mean, total, chosen = embeddings.mean(dim=0), torch.zeros_like(embeddings[0]), []
    for count in range(1, vpc + 1):
        distance = ((total + embeddings) / count - mean).norm(dim=1)
        distance[chosen] = torch.inf
        chosen.append(int(distance.argmin()))
        total = total + embeddings[chosen[-1]]
    return chosen


def k_center(embeddings: Tensor, vpc: int, draw: torch.Generator) -> list[int]:
    """The clip nearest the mean, then again and again the one farthest from its nearest chosen clip.

    Sener and Savarese, 2018. Arguments and result like `herding`.
    """
    chosen = [int((embeddings - embeddings.mean(dim=0)).norm(dim=1).argmin())]
    nearest = (embeddings - embeddings[chosen[0]]).norm(dim=1)
    while len(chosen) < vpc:
        # A chosen clip is nobody's farthest, even where clips coincide.
        nearest[chosen] = -1.0
        chosen.append(int(nearest.argmax()))
        nearest = nearest.minimum((embeddings - embeddings[chosen[-1]]).norm(dim=1))
    return chosen


METHODS: dict[str, Callable[[Tensor, int, torch.Generator], list[int]]] = {
    "random": random_clips,
    "herding": herding,
    "k-center": k_center,
}


def choose(store: ClipStore, config: SelectConfig, num: int, device: torch.device) -> Tensor:
    """Positions in the training split, grouped by class, `num` of each.

    `random` needs no embedding; the others use that of a network which does not depend on `num` or the seed.
    """
    embedder = Embedder(config.model, config.width, config.epochs, config.embedder_seed)
    num_clips = len(store.positions("train"))
    embeddings = (
        torch.empty(num_clips, 0) if config.method == "random" else train_embeddings(store, embedder, device)
    )
    chosen, first = [], 0
    for label, count in enumerate(store.counts("train").tolist()):
        draw = generator(config.seed, "select", label)
        within = METHODS[config.method](embeddings[first : first + count].double(), num, draw)
        chosen += [first + position for position in within]
        first += count
    return torch.tensor(chosen)


def select(
    store: ClipStore | str | Path,
    config: SelectConfig | None = None,
    *,
    output: str | Path | None = None,
    overwrite: bool = False,
    device: str = "auto",
    **options: Any,
) -> CondensedSet:
    """Pick real training clips.

    Args:
        store: a clip store, or its folder.
        config: the method; `options` replace single fields of it.
        output: the file to write; None: no file.
        overwrite: replace an output.
        device: where the embedding network runs: `auto`, `cpu` or `cuda`.

    Returns:
        The same kind of set as `condense`, every frame a key-frame: `evaluate` cannot tell them apart.

    Raises:
        ConfigError: a class has fewer training clips than `vpc` · `takes` (it is named), or there is no encoder
            for the storage.
        StoreError: the store is damaged, or was changed meanwhile.
        OutputError: the output exists, cannot be written, or another run is writing it.
    """
    store = store if isinstance(store, ClipStore) else ClipStore.open(store)
    config = with_options(config or SelectConfig(), options)
    takes = takes_of(store, config)
    require_encoder(config.storage)
    with claim(output):
        if output is not None:
            check_output_file(Path(output), overwrite)
        condensed = _selected(store, config, takes, pick_device(device))
        if output is not None:
            condensed.save(output)
    return condensed


def takes_of(store: ClipStore, config: SelectConfig) -> int:
    """The clips that each video stands for.

    Raises:
        ConfigError: a class has too few.
    """
    store.require_vpc(config.vpc, "select.vpc")
    if config.takes == 0:
        return int(store.counts("train").min()) // config.vpc
    store.require_vpc(config.vpc * config.takes, "select.vpc · select.takes")
    return config.takes


def _selected(store: ClipStore, config: SelectConfig, takes: int, device: torch.device) -> CondensedSet:
    clips = store.clips("train")
    chosen = choose(store, config, config.vpc * takes, device)
    frames = as_pixels(clips.frames[chosen])
    store.check_unchanged()
    return CondensedSet.pack(
        frames,
        torch.ones(frames.shape[:2], dtype=torch.bool),
        clips.labels[chosen[::takes]],
        classes=store.classes,
        normalisation=store.normalisation,
        flip=store.flip,
        storage=config.storage,
        quality=config.quality,
        source={
            "method": config.method,
            "config": as_dict(config),
            "versions": versions(),
            "store": store.fingerprint,
            "clips": [store.sources[i].path for i in chosen.tolist()],
        },
        takes=takes,
    )
