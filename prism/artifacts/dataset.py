"""VideoDataset: real and condensed clips as a map-style PyTorch data set."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

from torch import Tensor
from torch.utils.data import Dataset

from prism.artifacts.clips import as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.options import StoreSplit
from prism.artifacts.store import ClipStore
from prism.errors import ConfigError
from prism.machine.randomness import generator

OutputFormat = Literal["CTHW", "TCHW", "THWC"]


class VideoDataset(Dataset[tuple[Any, int]]):
    """Labelled videos for a `DataLoader`.

    Args:
        source: a condensed set, or a store. A set whose videos stand for several clips each (`is_random`) shows
            the first of them, until `draw` draws others.
        split: which clips of a store; a condensed set has no splits.
        output_format: axes of a video.
        normalise: zero mean and unit variance over the real training pixels (as `prism evaluate` trains),
            else pixels in units of [0, 1].
        transform: called with each video.

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
    ) -> None:
        if output_format not in get_args(OutputFormat):
            allowed = ", ".join(get_args(OutputFormat))
            raise ConfigError(f"output_format = {output_format!r}, but it must be one of {allowed}.")
        clips = source.clips() if isinstance(source, CondensedSet) else source.clips(split)
        self._source, self._frames = source, clips.frames
        self._normalisation = source.normalisation if normalise else None
        self._output_format = output_format
        self._transform = transform
        self.classes = list(clips.classes)
        self.class_to_idx = {name: label for label, name in enumerate(clips.classes)}
        self.targets: list[int] = clips.labels.tolist()

    def draw(self, epoch: int) -> None:
        """Show the clips of an epoch, where each video stands for several; without such videos nothing changes.

        The processes of a `DataLoader` get to see them unless they are `persistent_workers`.

        Args:
            epoch: the same epoch always gives the same clips.
        """
        if isinstance(self._source, CondensedSet) and self._source.is_random:
            self._frames = self._source.clips(generator(0, "clips", epoch)).frames

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """The video at a position, float32, and its label."""
        frames = as_pixels(self._frames[index])
        frames = self._normalisation.apply(frames) if self._normalisation else frames
        video = frames.permute(*("TCHW".index(axis) for axis in self._output_format))
        return (self._transform(video) if self._transform else video), self.targets[index]


def load(path: str | Path, **options: Any) -> VideoDataset:
    """Open a condensed set's file or a store's folder as a PyTorch data set.

    Args:
        path: `out.safetensors`, or a store (with `split="test"` for its test clips).
        options: of `VideoDataset`.

    Raises:
        CondensedError: the file is missing, damaged, foreign or too new.
        StoreError: likewise for the folder.
    """
    path = Path(path)
    return VideoDataset(ClipStore.open(path) if path.is_dir() else CondensedSet.load(path), **options)
