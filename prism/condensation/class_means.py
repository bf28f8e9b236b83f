"""The mean embedding of each class of real clips under a network, with a part of the clips in memory at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from prism.artifacts.clips import Normalisation, flip_at_random, to_model_input
from prism.condensation.chunk import Chunk
from prism.machine.devices import deterministic, send
from prism.networks.feed import feed_of
from prism.networks.network import Network, check_embeddings

View = Callable[[Tensor, torch.Generator], Tensor]
"""What of the real clips (N, T, C, H, W) is matched: clips of the same shape."""


def whole_clips(clips: Tensor, generator: torch.Generator) -> Tensor:
    """The clips as they are."""
    return clips


def held_frames(clips: Tensor, generator: torch.Generator) -> Tensor:
    """One random frame of each clip, held for the length of the clip: what a still image is compared with."""
    num_clips, num_frames = clips.shape[:2]
    times = torch.randint(num_frames, (num_clips,), generator=generator, device=generator.device)
    everyone = torch.arange(num_clips, device=clips.device)
    return clips[everyone, send(times, clips.device), None].expand_as(clips)


class ClassSums:
    """The sums of each class's rows, of which only a part is in memory at a time.

    Rows are added one by one, in their order: neither threads, nor the device's scheduling, nor the parts that
    they come in change a bit.

    Args:
        num_classes: C.
    """

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes
        self.sums: Tensor | None = None

    def add(self, rows: Tensor, labels: Tensor) -> None:
        """Add rows (n, D) to the sums of their classes (n,)."""
        if self.sums is None:
            self.sums = rows.new_zeros(self.num_classes, rows.shape[1], dtype=torch.float64)
        for label, row in zip(labels.tolist(), rows.double(), strict=True):
            self.sums[label].add_(row)

    def means(self, counts: Tensor) -> Tensor:
        """(C, D) float32 means of classes with so many rows (C,)."""
        assert self.sums is not None
        return (self.sums / counts[:, None]).float()


def between_class_energy(means: Tensor) -> Tensor:
    """Energy of the class means around their common mean: what a loss must fall below to tell classes apart."""
    with deterministic(means.device):
        return (means - means.mean(dim=0)).square().sum()


@dataclass(frozen=True)
class Showing:
    """How real clips are shown to a network.

    Attributes:
        flips: a generator mirrors each clip at random; False shows the clips as they are.
        view: the part of the clips that is shown.
        draw: the view's randomness; None for a view that has none.
    """

    flips: torch.Generator | Literal[False] = False
    view: View = whole_clips
    draw: torch.Generator | None = None


@torch.no_grad()
def real_class_means(
    network: Network,
    frames: Tensor,
    clips: Tensor,
    labels: Tensor,
    num_classes: int,
    normalisation: Normalisation,
    showing: Showing,
    chunk: Chunk,
) -> Tensor:
    """Mean embedding of the real clips of each class.

    Only a chunk of the clips is in memory at a time.

    Args:
        network: on the device, and in the number format, that do the work.
        frames: (N, T, C, H, W) uint8 of all clips; they may stay on disk.
        clips: (n,) positions of the clips to use, grouped by class.
        labels: (N,) class of every clip.
        showing: mirrored or not, whole or in part.
        chunk: clips that go through the network together.

    Returns:
        (C, D) float32 on the network's device.

    Raises:
        ConfigError: the network gives something else than embeddings.
    """
    weight = next(network.parameters())
    device, precision = weight.device, weight.dtype

    sums, flips, draw = ClassSums(num_classes), showing.flips, showing.draw or torch.Generator()
    feed = feed_of(device)

    def add(first: int, last: int) -> None:
        # Nothing here waits for a GPU: it embeds a chunk while the next one is read from disk.
        pixels = showing.view(feed.rows(frames, clips[first:last]), draw)
        if flips:
            pixels = flip_at_random(pixels, flips)
        shown = to_model_input(pixels, normalisation).to(precision)
        embeddings = network.embed(shown)
        check_embeddings(network, embeddings, shown)
        sums.add(embeddings.float(), labels[clips[first:last]])

    counts, ends = torch.bincount(labels[clips], minlength=num_classes), [0, len(clips)]
    if chunk.device.type == "cpu" and not network.IS_BATCH_INVARIANT:
        # It rounds by the clips beside a clip, and these must not depend on the classes that are asked for.
        ends = [0, *counts.cumsum(0).tolist()]
    for start, stop in pairwise(ends):
        chunk.each(
            stop - start,
            lambda first, last, start=start: add(start + first, start + last),
            draws=[draw, flips] if flips else [draw],
        )
    return sums.means(send(counts, device))
