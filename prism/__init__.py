"""PRISM: video dataset condensation.

import prism

store = prism.ingest("videos", "store")
condensed = prism.condense(store, vpc=1, output="set.safetensors")
print(prism.evaluate(condensed, store))
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prism import models as models
    from prism.clips import Clips, Normalisation
    from prism.condense.loop import condense
    from prism.condensed import CondensedSet
    from prism.config import (
        CondenseConfig,
        EvaluateConfig,
        IngestConfig,
        MotionConfig,
        RetrieveConfig,
        SelectConfig,
    )
    from prism.dataset import VideoDataset, load
    from prism.errors import PrismError
    from prism.evaluate import evaluate
    from prism.ingest.build import ingest
    from prism.motion import write_motion
    from prism.report import report
    from prism.reproduce.run import reproduce
    from prism.results import Result
    from prism.retrieve import retrieve
    from prism.select import select
    from prism.store import ClipStore

    __version__: str

_HOME = {
    "ClipStore": "prism.store",
    "Clips": "prism.clips",
    "CondenseConfig": "prism.config",
    "CondensedSet": "prism.condensed",
    "EvaluateConfig": "prism.config",
    "IngestConfig": "prism.config",
    "MotionConfig": "prism.config",
    "Normalisation": "prism.clips",
    "PrismError": "prism.errors",
    "Result": "prism.results",
    "RetrieveConfig": "prism.config",
    "SelectConfig": "prism.config",
    "VideoDataset": "prism.dataset",
    "condense": "prism.condense.loop",
    "evaluate": "prism.evaluate",
    "ingest": "prism.ingest.build",
    "load": "prism.dataset",
    "report": "prism.report",
    "reproduce": "prism.reproduce.run",
    "retrieve": "prism.retrieve",
    "select": "prism.select",
    "write_motion": "prism.motion",
}

__all__ = [
    "ClipStore",
    "Clips",
    "CondenseConfig",
    "CondensedSet",
    "EvaluateConfig",
    "IngestConfig",
    "MotionConfig",
    "Normalisation",
    "PrismError",
    "Result",
    "RetrieveConfig",
    "SelectConfig",
    "VideoDataset",
    "condense",
    "evaluate",
    "ingest",
    "load",
    "report",
    "reproduce",
    "retrieve",
    "select",
    "write_motion",
]


def __getattr__(name: str) -> object:
    # torch takes more than a second to import: a name brings its module only when it is used.
    if name == "models":
        return importlib.import_module("prism.models")
    if name == "__version__":
        return importlib.import_module("prism.runtime").versions()["prism"]
    if name not in _HOME:
        raise AttributeError(f"module 'prism' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """Keeps `prism.condense` the verb: importing the module of that name must not put itself in its place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
