"""Coreset selection: the real clips that stand for their class, as a CondensedSet."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism.clips import as_pixels
from prism.condensed import CondensedSet
from prism.config import SelectConfig, as_dict, with_options
from prism.runtime import check_output_file, generator, versions
from prism.store import ClipStore


def random_clips(store: ClipStore, config: SelectConfig) -> Tensor:
    """`vpc` different training clips of every class, drawn uniformly."""
    return store.sample(config.vpc, generator(config.seed, "select"))


METHODS: dict[str, Callable[[ClipStore, SelectConfig], Tensor]] = {"random": random_clips}
"""Each returns positions in the training split, grouped by class, `vpc` for each."""


def select(
    store: ClipStore | str | Path,
    config: SelectConfig | None = None,
    *,
    output: str | Path | None = None,
    overwrite: bool = False,
    **options: Any,
) -> CondensedSet:
    """Pick real training clips.

    Args:
        store: a clip store, or its folder.
        config: the method; `options` replace single fields of it.
        output: the file to write; None: no file.
        overwrite: replace an output.

    Returns:
        The same kind of set as `condense`, every frame a key-frame: `evaluate` cannot tell them apart.

    Raises:
        ConfigError: a class has fewer training clips than `vpc`; it is named.
        OutputError: the output exists or cannot be written.
    """
    store = store if isinstance(store, ClipStore) else ClipStore.open(store)
    config = with_options(SelectConfig, "select", config, options)
    store.require_vpc(config.vpc, "select")
    if output is not None:
        check_output_file(Path(output), overwrite)
    clips = store.clips("train")
    chosen = METHODS[config.method](store, config)
    frames = as_pixels(clips.frames[chosen])
    condensed = CondensedSet.pack(
        frames,
        torch.ones(frames.shape[:2], dtype=torch.bool),
        clips.labels[chosen],
        classes=store.classes,
        normalisation=store.normalisation,
        flip=store.flip,
        storage=config.storage,
        source={
            "method": config.method,
            "config": as_dict(config),
            "versions": versions(),
            "store": store.fingerprint,
            "clips": [store.sources[i].path for i in chosen.tolist()],
        },
    )
    if output is not None:
        condensed.save(output)
    return condensed
