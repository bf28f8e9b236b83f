"""Real clips for tests: one for each video, as exact pixels."""

from typing import Any

import prism
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.store import ClipStore

CORESET = {"takes": 1, "storage": "uint8"}
"""What the recipes of random selection, herding and k-center say."""


def select(store: ClipStore, **options: Any) -> CondensedSet:
    """`prism.select`, unless the options say otherwise a coreset."""
    return prism.select(store, **(CORESET | options))
