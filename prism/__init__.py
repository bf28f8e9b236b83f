"""PRISM: video dataset condensation.

store = prism.ingest("videos", "store")
condensed = prism.condense(store, vpc=1, output="set.safetensors")
print(prism.evaluate(condensed, store))
"""

import importlib
import signal

_HOME = {
    "ClipStore": "prism.artifacts.store",
    "Clips": "prism.artifacts.clips",
    "CondensedSet": "prism.artifacts.condensed",
    "PrismError": "prism.errors",
    "Result": "prism.artifacts.results",
    "VideoDataset": "prism.ingestion.load",
    "condense": "prism.condensation.condense",
    "evaluate": "prism.evaluation.evaluate",
    "export": "prism.exports.export",
    "ingest": "prism.ingestion.build",
    "lead": "prism.artifacts.estimates",
    "load": "prism.ingestion.load",
    "report": "prism.reports.page",
    "reproduce": "prism.reproduction.run",
    "select": "prism.selection.select",
    "write_motion": "prism.ingestion.motion",
}

# Type checkers read the names from __init__.pyi.
__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    # torch takes more than a second to import, so the module of a name is imported when the name is used.
    if name == "__version__":
        return importlib.import_module("prism.machine.provenance").versions()["prism"]
    if name not in _HOME:
        raise AttributeError(f"module 'prism' has no attribute '{name}'")
    # Signals are held back: their exception would be lost in the import of torch, or end the process.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        return getattr(importlib.import_module(_HOME[name]), name)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def __dir__() -> list[str]:
    return __all__
