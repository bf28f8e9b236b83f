"""VideoDataset: real and condensed clips as a map-style PyTorch data set."""

from collections.abc import Callable
from typing import Any, Literal, get_args

from torch import Tensor
from torch.utils.data import Dataset

from prism.artifacts.clips import as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.store import ClipStore, StoreSplit
from prism.errors import ConfigError
from prism.machine.randomness import generator

OutputFormat = Literal["CTHW", "TCHW", "THWC"]


class VideoDataset(Dataset[tuple[Any, int]]):
    """Labelled videos for a `DataLoader`.

    Args:
        source: a condensed set, or a store. A set whose videos stand for several clips each (`is_random`) shows
            the first of them, until `draw` draws others.
        split: which clips of a store; those of a condensed set are all for training.
        output_format: axes of a video.
        normalise: zero mean and unit variance over the real training pixels (as `prism evaluate` trains),
            else pixels in units of [0, 1]: real ones lie within, synthetic ones may exceed it.
        transform: called with each video.
        in_memory: read all clips of a store now, rather than from its files when they are indexed.

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
        is_set = isinstance(source, CondensedSet)
        if is_set and split != "train":
            what = f"split = {split!r}, but a condensed set has training videos alone."
            raise ConfigError(f"{what} Open the store for real clips.")
        clips = source.clips() if is_set else source.clips(split)
        self._frames = clips.frames.clone() if in_memory else clips.frames
        self._drawn = source if is_set and source.is_random else None
        self._normalisation = source.normalisation if normalise else None
        self._output_format = output_format
        self._transform = transform
        self.classes = list(clips.classes)
        self.class_to_idx = {name: label for label, name in enumerate(clips.classes)}
        self.targets: list[int] = clips.labels.tolist()

    def draw(self, epoch: int) -> None:
        """Show the clips of an epoch, where each video stands for several; the same epoch always gives the same.

        The processes of a `DataLoader` get to see them unless they are `persistent_workers`.
        """
        if self._drawn is not None:
            self._frames = self._drawn.clips(generator(0, "clips", epoch)).frames

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
