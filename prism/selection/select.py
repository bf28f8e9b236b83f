"""Coreset selection: the real clips that stand for their class, as a CondensedSet."""

import operator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism.artifacts import STORAGES
from prism.artifacts.clips import as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.kinds import SET, check_output_kind
from prism.artifacts.store import ClipStore
from prism.artifacts.telemetry import telemetry_path
from prism.config import as_dict
from prism.errors import ConfigError
from prism.machine.devices import pick_device
from prism.machine.files import discard, lock
from prism.machine.progress import note
from prism.machine.provenance import versions
from prism.machine.randomness import generator
from prism.machine.run import Run, split_options
from prism.networks.embeddings import train_embeddings
from prism.selection.methods import Selection
from prism.selection.options import SELECTIONS, SelectConfig


def select(
    store: ClipStore | str | Path, config: SelectConfig | None = None, run: Run | None = None, **options: Any
) -> CondensedSet:
    """Pick real training clips, as a set in which every frame is a key-frame.

    Args:
        store: a clip store, or its folder.
        config, run: which clips are chosen and how they are stored, and how it runs.
        options: fields of `SelectConfig` and of `prism.machine.run.Run`, in place of those above.

    Raises:
        ConfigError: a class has fewer training clips than `vpc` · `takes`, or no encoder has the storage.
        ArtifactError: the store is damaged, or was changed meanwhile.
        OutputError: the output exists, cannot be written, or another run is writing it.
    """
    config, run = split_options(SelectConfig, config, run, options)
    store = ClipStore.of(store)
    method, device = SELECTIONS.make(config.method, config), pick_device(run.device)
    store.require_vpc(config.vpc, "select.vpc")
    takes = config.takes or int(store.counts("train").min()) // config.vpc
    store.require_vpc(config.vpc * takes, "select.vpc · select.takes")
    storage = STORAGES.make(config.storage, config)
    storage.check()
    with lock(run.output):
        if run.path is not None:
            check_output_kind(run.path, SET, run.overwrite, [store.path])
        chosen = choose(store, config, method, config.vpc * takes, device, run.progress)
        # Class by class, which spares memory; a custom encoding need not know how to join them.
        parts = chosen.chunk(len(store.classes)) if STORAGES.is_builtin(config.storage) else [chosen]
        clips, every = store.clips("train"), torch.ones(len(chosen), store.num_frames, dtype=torch.bool)
        encodings = [storage.with_frames(as_pixels(clips.frames[part]), every[: len(part)]) for part in parts]
        store.check_unchanged()
        made, paths = as_dict(config), [store.sources[i].path for i in chosen.tolist()]
        source = {"method": made["method"], "config": made, "store": store.fingerprint, "clips": paths}
        condensed = CondensedSet(
            encodings[0] if len(encodings) == 1 else encodings[0].join(encodings),
            clips.labels[chosen[::takes]],
            store.classes,
            store.normalisation,
            store.flip,
            source | {"versions": versions()},
            takes,
        )
        if run.path is not None:
            condensed.save(run.path)
            if run.overwrite:
                # The telemetry of a condensed set that stood here.
                discard(telemetry_path(run.path))
    return condensed


def choose(
    store: ClipStore, config: SelectConfig, method: Selection, num: int, device: torch.device, progress: bool
) -> Tensor:
    """Positions (C·num,) in the training split, grouped by class."""
    counts = store.counts("train").tolist()
    embeddings = torch.empty(sum(counts), 0)
    if method.needs_embeddings:
        how = {"width": config.width, "epochs": config.epochs, "seed": config.embedder_seed}
        embeddings = train_embeddings(store, config.model, device, **how, progress=progress)
    chosen, is_random = list[int](), False
    for label, (part, name) in enumerate(zip(embeddings.split(counts), store.classes, strict=True)):
        draw = generator(config.seed, "select", label)
        before = draw.get_state()
        found = method.choose(part.double(), num, draw)
        within = checked_choice(found, method, num, len(part), f" of class '{name}'")
        is_random |= not torch.equal(draw.get_state(), before)
        chosen += [sum(counts[:label]) + position for position in within]
    if config.seed and not is_random and not config.embedder_seed:
        note(
            f"Caution: {SELECTIONS.name_of(config.method)} draws nothing, so these are the clips of every other "
            "--seed. Another --embedder-seed chooses others."
        )
    return torch.tensor(chosen)


def checked_choice(chosen: Any, method: Selection, num: int, num_clips: int, of_class: str = "") -> list[int]:
    """The positions that a method returned; a ConfigError unless they are `num` different ones of `num_clips`."""
    try:
        # Not `int`, which would round a number to a position.
        positions = list(map(operator.index, chosen))
    except TypeError:
        positions = []
    if len(positions) != num or len(set(positions) & set(range(num_clips))) != num:
        raise ConfigError(
            f"the selection '{SELECTIONS.name_of(method)}' gave a {type(chosen).__name__} of {len(positions)} "
            f"positions{of_class}, but it must choose {num} different ones in 0..{num_clips - 1}."
        )
    return positions
