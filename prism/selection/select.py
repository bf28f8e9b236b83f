"""Coreset selection: the real clips that stand for their class, as a CondensedSet."""

import operator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism.artifacts import STORAGES
from prism.artifacts.clips import as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.store import ClipStore
from prism.artifacts.telemetry import telemetry_path
from prism.config import as_dict
from prism.errors import AGAIN, ConfigError
from prism.machine.devices import explained, pick_device, plain_torch
from prism.machine.files import check_output_file, discard, lock, write_atomically
from prism.machine.progress import progress_bar
from prism.machine.provenance import versions
from prism.machine.randomness import generator
from prism.machine.run import Run, split_options
from prism.networks.trained import trained_embeddings
from prism.selection.methods import Selection
from prism.selection.options import SELECTIONS, SelectConfig


@plain_torch()
def select(
    store: ClipStore | str | Path, config: SelectConfig | None = None, run: Run | None = None, **options: Any
) -> CondensedSet:
    """Real training clips, chosen as a set in which every frame is a key-frame.

    Args:
        store: a clip store, or its folder.
        config, run: which clips are chosen and how they are stored; where the set is written, and how to run.
        options: fields of `SelectConfig` and of `prism.machine.run.Run`, in place of those of `config` and `run`.

    Raises:
        ConfigError: a class has fewer training clips than `vpc` · `takes`, or no encoder has the storage.
        ArtifactError: the store is damaged, or was changed meanwhile.
        OutputError: the output exists, cannot be written, or another run is writing it.
    """
    config, run = split_options(SelectConfig, config, run, options)
    config, store = config.resolved(), ClipStore.of(store)
    method, device = SELECTIONS.make(config.method, config), pick_device(run.device)
    store.require_vpc(config.vpc, "select.vpc")
    takes = config.takes or int(store.counts("train").min()) // config.vpc
    store.require_vpc(config.vpc * takes, "select.vpc · select.takes")
    storage = STORAGES.make(config.storage, config)
    with lock(run.path):
        if run.path is not None:
            check_output_file(run.path, run.overwrite, [store.path])
        clips = store.clips("train")
        # A storage that cannot encode is refused before the first step.
        storage.with_frames(as_pixels(clips.frames[:1]))
        with explained("--width", AGAIN):
            chosen = choose(store, config, method, config.vpc * takes, device, run.progress)
        # Class by class, which spares memory; a custom encoding need not know how to join them.
        parts = chosen.chunk(len(store.classes)) if STORAGES.is_builtin(config.storage) else [chosen]
        encodings = [storage.with_frames(as_pixels(clips.frames[p])) for p in parts]
        store.check_unchanged()
        made, paths = as_dict(config), [store.sources[i].path for i in chosen.tolist()]
        source = {"method": made["method"], "config": made, "store": store.fingerprint, "clips": paths}
        source["versions"] = versions()
        encoding = encodings[0] if len(encodings) == 1 else encodings[0].join(encodings)
        about = store.classes, store.normalisation, store.flip, source, takes
        condensed = CondensedSet(encoding, clips.labels[chosen[::takes]], *about)
        if run.path is not None:
            write_atomically(run.path, condensed.to_bytes())
            if run.overwrite:
                # Telemetry beside the output belongs to the set that was overwritten.
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
        with progress_bar("Training", config.epochs, "epochs", enabled=progress and config.epochs > 0) as advance:
            embeddings = trained_embeddings(store, config.model, device, **how, advance=advance)
    chosen = list[int]()
    for label, (part, name) in enumerate(zip(embeddings.split(counts), store.classes, strict=True)):
        given = method.choose(part.double(), num, generator(config.seed, "select", label))
        try:
            found = [*map(operator.index, given)]
        except TypeError:
            found = []
        if len(found) != num or len(set(found) & set(range(len(part)))) != num:
            said = f"the selection '{SELECTIONS.name_of(method)}' gave {given!r:.200} for class '{name}'"
            raise ConfigError(f"{said}, but it must choose {num} different positions in 0..{len(part) - 1}.")
        chosen += [sum(counts[:label]) + position for position in found]
    return torch.tensor(chosen)
