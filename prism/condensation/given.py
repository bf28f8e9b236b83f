"""A given set: condensation starts from its videos (`--init FILE`), and records how it was made."""

import hashlib
from pathlib import Path
from typing import Any

import torch

from prism.artifacts import STORAGES
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.keyframes import reduce
from prism.artifacts.results import SEEDS
from prism.artifacts.store import ClipStore
from prism.condensation import INIT, STARTS
from prism.condensation.options import METHODS, CondenseConfig
from prism.condensation.videos import initial_mask
from prism.config import as_dict
from prism.errors import ConfigError, nearest
from prism.machine.text_io import canonical_json


def given_set(store: ClipStore, config: CondenseConfig) -> CondensedSet | None:
    """The set in the file that `config.init` names, else None; a ConfigError where it does not fit the options."""
    if config.init in STARTS:
        return None
    path, vpc = Path(config.init), config.vpc
    if not path.exists():
        guess = nearest(config.init, STARTS)
        raise ConfigError(f"condense.init = {config.init!r}, but it must be {INIT.text}: no such file.{guess}")
    storage, labels = STORAGES.make(config.storage, config), torch.arange(len(store.classes))
    found = CondensedSet.load(path, [type(storage)])
    ours, theirs = ((one.classes, one.num_frames, one.size) for one in (store, found))
    if found.source.get("store") != store.fingerprint or ours != theirs:
        raise ConfigError(f"'{path}' was made of other clips than '{store.path}' has. Name a set of this store.")
    if found.is_random:
        raise ConfigError(f"a video of '{path}' stands for several clips, so no video can start as it.")
    if not torch.equal(found.labels, labels.repeat_interleave(vpc)):
        said = f"'{path}' has {len(found)} videos of {len(labels)} classes"
        raise ConfigError(f"{said}, but --vpc {vpc} starts from {vpc} of each.")
    return found


def num_lost_keyframes(given: CondensedSet, config: CondenseConfig) -> int:
    """Number of a given set's key-frames that no video starts with; 0 for whole clips, which are to lose some."""
    if given.mask.all() or not METHODS.is_builtin(config.method):
        return 0
    # As the run places them: on normalised clips of the size of its key-frames.
    small = given.unenlarged() if given.encoding.scale == config.keyframe_scale else given
    clips = given.normalisation.apply(small.render())
    clips = reduce(clips, clips.shape[4] // (given.size[1] // config.keyframe_scale))
    first = initial_mask(clips, given.labels, config.initial_keyframes, config.placement)
    return int((given.mask & ~first).sum())


def recorded_options(config: CondenseConfig, given: CondensedSet | None) -> dict[str, Any]:
    """The options as a set records them: `init` becomes the method of the given set and a digest of its options.

    The path is not recorded, nor are the seeds of a given set.
    """
    options = as_dict(config)
    if given is not None:
        made = {key: value for key, value in given.source.get("config", {}).items() if key not in SEEDS}
        digest = hashlib.sha256(canonical_json(made).encode()).hexdigest()
        options["init"] = f"{given.source.get('method', 'unknown')} {digest[:8]}"
    return options
