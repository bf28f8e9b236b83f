"""PRISM: video dataset condensation.

import prism

store = prism.ingest("videos", "store")
condensed = prism.condense(store, vpc=1, output="set.safetensors")
print(prism.evaluate(condensed, store))
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prism import networks as networks
    from prism.artifacts.clips import Clips, Normalisation
    from prism.artifacts.condensed import CondensedSet
    from prism.artifacts.dataset import VideoDataset
    from prism.artifacts.estimates import lead
    from prism.artifacts.rankings import Ranking
    from prism.artifacts.results import Result
    from prism.artifacts.store import ClipStore
    from prism.condensation.condense import condense
    from prism.condensation.options import CondenseConfig
    from prism.errors import PrismError
    from prism.evaluation.evaluate import evaluate
    from prism.evaluation.options import Candidate, EvaluateConfig, RankConfig, RetrieveConfig
    from prism.evaluation.rank import rank
    from prism.evaluation.retrieve import retrieve
    from prism.exports.export import export
    from prism.exports.options import ExportConfig
    from prism.ingestion.build import ingest
    from prism.ingestion.load import load
    from prism.ingestion.motion import write_motion
    from prism.ingestion.options import IngestConfig, MotionConfig
    from prism.reports.page import report
    from prism.reproduction.run import reproduce
    from prism.selection.options import SelectConfig
    from prism.selection.select import select

    __version__: str

_HOME = {
    "Candidate": "prism.evaluation.options",
    "ClipStore": "prism.artifacts.store",
    "Clips": "prism.artifacts.clips",
    "CondenseConfig": "prism.condensation.options",
    "CondensedSet": "prism.artifacts.condensed",
    "EvaluateConfig": "prism.evaluation.options",
    "ExportConfig": "prism.exports.options",
    "IngestConfig": "prism.ingestion.options",
    "MotionConfig": "prism.ingestion.options",
    "Normalisation": "prism.artifacts.clips",
    "PrismError": "prism.errors",
    "RankConfig": "prism.evaluation.options",
    "Ranking": "prism.artifacts.rankings",
    "Result": "prism.artifacts.results",
    "RetrieveConfig": "prism.evaluation.options",
    "SelectConfig": "prism.selection.options",
    "VideoDataset": "prism.artifacts.dataset",
    "condense": "prism.condensation.condense",
    "evaluate": "prism.evaluation.evaluate",
    "export": "prism.exports.export",
    "ingest": "prism.ingestion.build",
    "lead": "prism.artifacts.estimates",
    "load": "prism.ingestion.load",
    "rank": "prism.evaluation.rank",
    "report": "prism.reports.page",
    "reproduce": "prism.reproduction.run",
    "retrieve": "prism.evaluation.retrieve",
    "select": "prism.selection.select",
    "write_motion": "prism.ingestion.motion",
}

__all__ = [
    "Candidate",
    "ClipStore",
    "Clips",
    "CondenseConfig",
    "CondensedSet",
    "EvaluateConfig",
    "ExportConfig",
    "IngestConfig",
    "MotionConfig",
    "Normalisation",
    "PrismError",
    "RankConfig",
    "Ranking",
    "Result",
    "RetrieveConfig",
    "SelectConfig",
    "VideoDataset",
    "condense",
    "evaluate",
    "export",
    "ingest",
    "lead",
    "load",
    "rank",
    "report",
    "reproduce",
    "retrieve",
    "select",
    "write_motion",
]


def __getattr__(name: str) -> object:
    # torch takes more than a second to import: a name brings its module only when it is used.
    if name == "__version__":
        return importlib.import_module("prism.machine.provenance").versions()["prism"]
    if name not in _HOME:
        raise AttributeError(f"module 'prism' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
