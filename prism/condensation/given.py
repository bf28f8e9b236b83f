"""Set whose videos a condensation starts from, in place of mean clips, noise or real clips."""

import hashlib
from pathlib import Path

import torch

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding
from prism.artifacts.results import SEEDS
from prism.artifacts.store import ClipStore
from prism.condensation import INIT, STARTS
from prism.condensation.options import CondenseConfig
from prism.config import nearest
from prism.errors import ConfigError
from prism.machine.text_io import canonical_json


def given_set(store: ClipStore, config: CondenseConfig, storage: Encoding) -> CondensedSet:
    """The set that `config.init` names, for videos to start as; `storage` may be a custom one, as its own.

    Raises:
        ConfigError: there is none, it was made of other clips, or it has not `config.vpc` videos of each class.
    """
    path, vpc = Path(config.init), config.vpc
    if not path.exists():
        guess = nearest(config.init, STARTS)
        raise ConfigError(f"condense.init = {config.init!r}, but it must be {INIT.text}: no such file.{guess}")
    found, labels = CondensedSet.load(path, [type(storage)]), torch.arange(len(store.classes))
    ours, theirs = ((one.classes, one.num_frames, one.size) for one in (store, found))
    if found.source.get("store") != store.fingerprint or ours != theirs:
        raise ConfigError(f"'{path}' was made of other clips than '{store.path}' has. Name a set of this store.")
    if found.is_random:
        raise ConfigError(f"a video of '{path}' stands for several clips, so none can start as it.")
    if not torch.equal(found.labels, labels.repeat_interleave(vpc)):
        held = f"{len(found)} videos of {len(labels)} classes"
        raise ConfigError(f"'{path}' has {held}, but --vpc {vpc} starts from {vpc} of each.")
    return found


def how_made(given: CondensedSet) -> str:
    """The method of a set and a digest of its options; sets that differ in seeds alone are made alike."""
    made = {key: value for key, value in given.source.get("config", {}).items() if key not in SEEDS}
    digest = hashlib.sha256(canonical_json(made).encode()).hexdigest()
    return f"{given.source.get('method', 'unknown')} {digest[:8]}"
