"""`prism.load` and VideoDataset: a set, a store or a folder of videos as a map-style PyTorch data set."""

import inspect
import operator
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

from torch import Tensor
from torch.utils.data import Dataset

from prism.artifacts.clips import as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.store import ClipStore, StoreSplit
from prism.config import as_path, described, with_options
from prism.errors import ConfigError, nearest
from prism.ingestion.build import ingest
from prism.ingestion.options import IngestConfig
from prism.machine.devices import plain_torch
from prism.machine.randomness import generator

OutputFormat = Literal["CTHW", "TCHW", "THWC"]


class VideoDataset(Dataset[tuple[Any, int]]):
    """Labelled videos for a `DataLoader`.

    Args:
        source: a condensed set, or a store. If the videos of a set stand for several clips each (`is_random`), the
            first clip of each is shown until `draw` is called.
        split: which clips of a store; a condensed set has only training clips.
        output_format: axes of a video.
        normalise: subtract the mean and divide by the deviation of the real training pixels, as `prism evaluate`
            does; else pixels are in units of [0, 1], which synthetic ones may exceed.
        transform: function of a video; the data set returns its result.
        in_memory: read all clips of a store now, rather than each from disk when it is indexed.

    Attributes:
        classes: the class names.
        class_to_idx: the label of each name.
        targets: the label of each video.
    """

    def __init__(
        self,
        source: CondensedSet | ClipStore,
        *,
        split: StoreSplit = "train",
        output_format: OutputFormat = "CTHW",
        normalise: bool = True,
        transform: Callable[[Tensor], Any] | None = None,
        in_memory: bool = False,
    ) -> None:
        if output_format not in get_args(OutputFormat):
            allowed = ", ".join(get_args(OutputFormat))
            raise ConfigError(f"output_format = {output_format!r}, but it must be one of {allowed}.")
        if type(normalise) is not bool:
            raise ConfigError(f"normalise = {normalise!r}, but it must be True or False.")
        if not isinstance(source, CondensedSet | ClipStore):
            opened = f"prism.load({str(source)!r})"
            raise ConfigError(f"a data set is made of an open set or store. Open it with {opened}.")
        is_set = isinstance(source, CondensedSet)
        if is_set and split != "train":
            what = f"split = {split!r}, but a condensed set has training videos alone."
            raise ConfigError(f"{what} Open the store for real clips.")
        clips = source.clips() if is_set else source.clips(split)
        self._frames = clips.frames.clone() if in_memory else clips.frames
        self._files = None if is_set or in_memory else (source, split)
        self._drawn = source if is_set and source.is_random else None
        self._normalisation = source.normalisation if normalise else None
        self._output_format, self._transform = output_format, transform
        self.classes = list(clips.classes)
        self.class_to_idx = {name: label for label, name in enumerate(clips.classes)}
        self.targets: list[int] = clips.labels.tolist()

    def __getstate__(self) -> dict[str, Any]:
        # Processes of a `DataLoader` open the store again: pickling would copy its frames into shared memory.
        return self.__dict__ | ({"_frames": None} if self._files else {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._files:
            store, split = self._files
            self._frames = store.clips(split).frames

    def draw(self, epoch: int) -> None:
        """Draw the clips of an epoch if videos stand for several clips; an epoch always gives the same clips.

        A running `DataLoader` with `persistent_workers` keeps the earlier clips.
        """
        if self._drawn is not None:
            self._frames = self._drawn.clips(generator(0, "clips", operator.index(epoch))).frames

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """The video at a position, float32, and its label."""
        if isinstance(index, slice):
            raise ConfigError("a data set gives one video at a time: data[0]. Take several with a DataLoader.")
        frames = as_pixels(self._frames[index])
        # A caller may change the video in place.
        frames = self._normalisation.apply(frames) if self._normalisation else frames.clone()
        video = frames.permute(*("TCHW".index(axis) for axis in self._output_format))
        return (self._transform(video) if self._transform else video), self.targets[index]


@plain_torch()
def load(path: str | Path, **options: Any) -> VideoDataset:
    """Open a condensed set, a store or a folder of videos as a PyTorch data set.

    Args:
        path: `out.safetensors`; a store (with `split="test"` for its test clips); or a folder of videos or a CSV
            list, like the source of `prism.ingest`, whose clips are decoded now and kept in memory.
        options: arguments of `VideoDataset`, and for videos fields of `IngestConfig`. If a folder names no splits,
            all videos are training videos unless `val_fraction` or `test_fraction` is given.

    Raises:
        ArtifactError: the file or the store is missing, damaged, foreign or too new, or has no clips of the split.
        SourceError: the folder has no videos, or a class has no usable training video.
        ConfigError: an option is unknown, out of range, or does not apply to what lies at the path.
        OutputError: there is no room for temporary files.
    """
    path = as_path(path, "the path of a set, a store or videos (VideoDataset takes an open one)")
    names = described(IngestConfig).keys()
    known = inspect.signature(VideoDataset).parameters.keys() - {"source"}
    if unknown := min(options.keys() - known - names, default=""):
        raise ConfigError(f"unknown key 'load.{unknown}'.{nearest(unknown, sorted(known | names))}")
    ingesting = {key: options.pop(key) for key in names & options.keys()}
    is_store = (path / "store.json").exists()
    if path.suffix.lower() == ".csv" or (path.is_dir() and not is_store):
        # If a folder names no splits, all of its videos are training videos.
        config = with_options(IngestConfig(val_fraction=0.0, test_fraction=0.0), ingesting)
        with tempfile.TemporaryDirectory() as folder:
            store = ingest(path, Path(folder) / "store", config, progress=False)
            if (split := options.get("split")) in ("val", "test") and not store.positions(split):
                raise ConfigError(f"'{path}' names no {split} videos. Pass {split}_fraction=0.2.")
            options["in_memory"] = True
            return VideoDataset(store, **options)
    if ingesting:
        kind = "store" if is_store else "condensed set"
        raise ConfigError(f"{min(ingesting)} is an option for videos, but '{path}' is a {kind}. Leave it out.")
    return VideoDataset(ClipStore.open(path) if is_store else CondensedSet.load(path), **options)
