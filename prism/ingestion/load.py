"""`prism.load`: a set, a store or a folder of videos as a PyTorch data set, in one line."""

import inspect
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.dataset import VideoDataset
from prism.artifacts.store import ClipStore
from prism.config import as_path, nearest, with_options
from prism.errors import ConfigError
from prism.ingestion.build import ingest
from prism.ingestion.options import IngestConfig


def load(path: str | Path, **options: Any) -> VideoDataset:
    """Open a condensed set, a store or a folder of videos as a PyTorch data set.

    Args:
        path: `out.safetensors`; a store (with `split="test"` for its test clips); or a folder of videos or a CSV
            list, like the source of `prism.ingest`, whose clips are decoded now and kept in memory.
        options: of `VideoDataset`, and for videos of `IngestConfig`. Where a folder names no splits, none is cut
            unless `val_fraction` or `test_fraction` says so.

    Raises:
        ArtifactError: the file or the store is missing, damaged, foreign or too new, or has no clips of the split.
        SourceError: there are no videos in the folder, or a class has none that can be used.
        ConfigError: an option is unknown or out of range, is for videos and there are none, or names a split of
            a set.
        OutputError: there is no room for temporary files.
    """
    path = as_path(path, "the path of a set, a store or videos")
    names = {field.name for field in fields(IngestConfig)}
    known = inspect.signature(VideoDataset).parameters.keys() - {"source"}
    if unknown := min(options.keys() - known - names, default=""):
        raise ConfigError(f"unknown key 'load.{unknown}'.{nearest(unknown, sorted(known | names))}")
    ingesting = {key: options.pop(key) for key in names & options.keys()}
    is_store = (path / "store.json").exists()
    if path.suffix.lower() == ".csv" or (path.is_dir() and not is_store):
        # Where a folder names no splits, all of its videos are training videos.
        config = with_options(IngestConfig(val_fraction=0.0, test_fraction=0.0), ingesting)
        with tempfile.TemporaryDirectory() as folder:
            store = ingest(path, Path(folder) / "store", config, progress=False)
            options["in_memory"] = True
            return VideoDataset(store, **options)
    if ingesting:
        kind = "store" if is_store else "condensed set"
        raise ConfigError(f"{min(ingesting)} is an option for videos, but '{path}' is a {kind}. Leave it out.")
    return VideoDataset(ClipStore.open(path) if is_store else CondensedSet.load(path), **options)
