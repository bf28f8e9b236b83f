"""Coreset selection: the real clips that stand for their class, as a CondensedSet."""

import operator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism.artifacts.clips import as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding
from prism.artifacts.encodings.storages import encoded
from prism.artifacts.kinds import SET, check_output_kind
from prism.artifacts.options import STORAGES
from prism.artifacts.store import ClipStore
from prism.artifacts.telemetry import telemetry_path
from prism.config import as_dict, as_path
from prism.errors import ConfigError
from prism.machine.devices import pick_device
from prism.machine.files import discard
from prism.machine.locks import claim
from prism.machine.progress import note, progress_bar
from prism.machine.provenance import versions
from prism.machine.randomness import generator
from prism.machine.run import Run, parted
from prism.machine.texts import as_text
from prism.networks.embeddings import train_embeddings
from prism.selection.listed import listed_positions
from prism.selection.methods import Selection
from prism.selection.options import SELECTIONS, SelectConfig

LISTED = ("storage", "quality", "takes")
"""The options that a set of listed clips depends on."""
CHOOSING = ("method", "vpc", "seed")
"""Those that a list stands in for."""


def select(
    store: ClipStore | str | Path,
    config: SelectConfig | None = None,
    run: Run | None = None,
    *,
    from_list: str | Path | None = None,
    **options: Any,
) -> CondensedSet:
    """Pick real training clips.

    Args:
        store: a clip store, or its folder.
        config: which clips are chosen and how they are stored.
        run: how it runs.
        from_list: a text or CSV file with the paths of the videos to take, as another tool has chosen them. Then
            `method`, `vpc` and `seed` choose nothing, and classes may have different numbers of videos, or none.
        options: fields of `SelectConfig` and of `prism.machine.run.Run`, in place of those above.

    Returns:
        The same kind of set as `condense` makes, in which every frame is a key-frame.

    Raises:
        ConfigError: a class has fewer training clips than `vpc` · `takes` (it is named), or there is no encoder
            for the storage; or a list is given beside options that choose.
        SourceError: the list cannot be read, or names what is no training video of the store.
        StoreError: the store is damaged, or was changed meanwhile.
        OutputError: the output exists, cannot be written, or another run is writing it.
    """
    config, run = parted(SelectConfig, config, run, options)
    store = ClipStore.of(store)
    method, device = SELECTIONS.make(config.method, config), pick_device(run.device)
    listed = None if from_list is None else taken_from(store, config, as_path(from_list, "the file of a list"))
    takes = takes_of(store, config) if listed is None else config.takes
    STORAGES.make(config.storage, config).check()
    for option in STORAGES.idle(config.storage):
        if (value := getattr(config, option)) != getattr(SelectConfig, option):
            note(f"Caution: {option} = {value!r} is not used, because storage = {config.storage!r}.")
    with claim(run.output):
        if run.path is not None:
            check_output_kind(run.path, SET, run.overwrite, [from_list, store.path])
        chosen, made = listed, as_dict(config)
        source = {"method": made["method"], "config": made}
        if chosen is None:
            chosen = choose(store, config, method, config.vpc * takes, device, run.progress)
        else:
            made = {key: value for key, value in made.items() if key in LISTED}
            source = {"method": "list", "config": {"from_list": as_text(Path(from_list or "").name), **made}}
        condensed = _packed(store, config, takes, chosen, source, run.progress)
        if run.path is not None:
            condensed.save(run.path)
            if run.overwrite:
                # It is that of the condensed set which stood here.
                discard(telemetry_path(run.path))
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


def taken_from(store: ClipStore, config: SelectConfig, path: Path) -> Tensor:
    """Positions in the training split of the clips that a list names, grouped by class.

    Raises:
        ConfigError: an option chooses clips too, or a class has no whole number of videos of `takes` clips.
        SourceError: like `listed_positions`.
    """
    for name in CHOOSING:
        if getattr(config, name) != getattr(SelectConfig(), name):
            raise config.refusal(name, "left out with a list, which says what is chosen")
    if config.takes < 1:
        raise config.refusal("takes", "at least 1 with a list")
    chosen = torch.tensor(listed_positions(store, path))
    for label, count in enumerate(store.labels[chosen].bincount().tolist()):
        if count % config.takes:
            promise = f"a divisor of {count}, the listed clips of class '{store.classes[label]}'"
            raise config.refusal("takes", promise)
    return chosen


def choose(
    store: ClipStore, config: SelectConfig, method: Selection, num: int, device: torch.device, progress: bool
) -> Tensor:
    """Positions in the training split, grouped by class, `num` of each.

    The network that embeds the clips depends neither on `num` nor on the seed of the choice.

    Raises:
        ConfigError: the method did not return `num` different clips of a class.
    """
    counts = store.counts("train").tolist()
    if method.needs_embeddings:
        how = {"width": config.width, "epochs": config.epochs, "seed": config.embedder_seed}
        embeddings = train_embeddings(store, config.model, device, **how, progress=progress)
    else:
        embeddings = torch.empty(sum(counts), 0)
    chosen: list[int] = []
    is_random = False
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
    """The positions that a method chose.

    Args:
        chosen: what its `choose` returned.
        method: the method.
        num: clips that it was to choose.
        num_clips: clips to choose from.
        of_class: the class in the sentence of an error.

    Raises:
        ConfigError: they are not `num` different positions.
    """
    name = SELECTIONS.name_of(method)
    wanted = f"but it must choose {num} different positions in 0..{num_clips - 1}."
    try:
        # Not `int`, which would round a number to a position.
        positions = list(map(operator.index, chosen))
    except TypeError as error:
        what = f"the selection '{name}' gave a {type(chosen).__name__} without positions{of_class}"
        raise ConfigError(f"{what}, {wanted}") from error
    if len(positions) != num or len(set(positions) & set(range(num_clips))) != num:
        raise ConfigError(f"the selection '{name}' chose {len(positions)} clips{of_class}, {wanted}")
    return positions


def _packed(
    store: ClipStore, config: SelectConfig, takes: int, chosen: Tensor, source: dict[str, Any], progress: bool
) -> CondensedSet:
    clips = store.clips("train")
    storage, parts = STORAGES.make(config.storage, config), list[Encoding]()
    # Class by class, which spares memory; an encoding of somebody else's need not know how to join them.
    counts = clips.labels[chosen].unique_consecutive(return_counts=True)[1].tolist()
    counts = counts if STORAGES.ships(config.storage) else [len(chosen)]
    with progress_bar("Storing", len(counts), "classes", enabled=progress) as advance:
        for part in chosen.split(counts):
            frames = as_pixels(clips.frames[part])
            parts.append(encoded(storage, frames, torch.ones(frames.shape[:2], dtype=torch.bool)))
            advance()
    store.check_unchanged()
    encoding = parts[0] if len(parts) == 1 else parts[0].join(parts)
    return CondensedSet(
        encoding,
        clips.labels[chosen[::takes]],
        store.classes,
        store.normalisation,
        store.flip,
        {
            **source,
            "versions": versions(),
            "store": store.fingerprint,
            "clips": [store.sources[i].path for i in chosen.tolist()],
        },
        takes,
    )
