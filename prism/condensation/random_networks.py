"""Random networks, and the class means of real clips under each of them (paper, section 3.4).

The number of a network fixes its values, its real clips and their class means. The videos, their method, rule,
rate and seed change none of these, so class means are kept beside the clips for later runs (`prepare.py`).
"""

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice, pairwise
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, cuda, nn

from prism.artifacts.clips import mirror, to_model_input
from prism.artifacts.store import ClipStore
from prism.condensation import Settings
from prism.errors import ConfigError
from prism.machine.devices import deterministic, free_bytes, is_out_of_memory, send
from prism.machine.randomness import generator
from prism.networks.feed import Feed
from prism.networks.initial import copy_values, initialise, lay_out, pinned_copy
from prism.networks.network import Network, check_output

T = TypeVar("T")

BLOCK = 16
"""Number of networks whose class means are computed together and kept in one file."""
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Number formats in which real clips are embedded. Synthetic clips are always embedded in float32, which PyTorch
computes as TF32 on a GPU. Rounding may change which value of a pooling window is the largest, and so moves the
gradient of the clips: by 4 % in TF32, but by 16 % in bfloat16 (measured on an H100)."""
FEW, MOST_ON_CPU, MOST_ON_GPU = 8, 64, 256
"""Numbers of clips that first go through a network together: on a CPU from few on, so that they fit its caches."""
REAL_BYTES, COPIES, GPU_COPIES = 64 * 2**20, 32, 160
"""Bytes in a network of the real clips that a CPU embeds together; and the memory of a clip in a network, on a CPU
and on a GPU (with its gradient, at the published width), as a multiple of its uint8 pixels, to a factor of two."""


def number_format(config: Settings, device: torch.device) -> str:
    """The number format of real clips: bfloat16 for `auto` on a GPU that computes in it, else float32."""
    if config.precision != "auto":
        return config.precision
    return "bfloat16" if device.type == "cuda" and cuda.get_device_capability(device) >= (8, 0) else "float32"


def shares(num: int, most: int) -> list[range]:
    """At most `most` ranges of about equal length, which together are range(num)."""
    ends = [num * i // min(num, most) for i in range(min(num, most) + 1)]
    return [range(first, last) for first, last in pairwise(ends)]


class Chunk:
    """Number of clips that go through a network together: `size` at first, halved whenever memory runs out.

    A CPU computes `threads` such chunks side by side, one in each thread of PyTorch.
    """

    def __init__(self, size: int, device: torch.device | str = "cpu", clip_bytes: int = 0) -> None:
        self.size, self.device, self.clip_bytes = size, torch.device(device), clip_bytes
        self.threads = torch.get_num_threads() if self.device.type == "cpu" else 1

    @classmethod
    def of(cls, store: ClipStore, device: torch.device, *, differentiated: bool = False) -> "Chunk":
        """The chunk for a store: by the free memory of a GPU; on a CPU few clips, or more small ones to embed."""
        clip_bytes = store.clip_bytes * (GPU_COPIES if device.type == "cuda" else COPIES)
        if device.type == "cuda":
            return cls(max(1, min(MOST_ON_GPU, (free_bytes(device) or 0) // clip_bytes)), device, clip_bytes)
        fitting = 0 if differentiated else min(MOST_ON_CPU, REAL_BYTES // clip_bytes)
        return cls(max(FEW, fitting), device, clip_bytes)

    def map(self, num: int, work: Callable[[int, int], T], *, clips: int = 1) -> list[T]:
        """Results of consecutive parts of some work, in order and repeatable; a CPU computes some side by side.

        Args:
            num: number of units of work, each of which has `clips` clips.
            work: the result of units first..last − 1; called with smaller ranges where memory runs out.
        """

        def of_share(share: range) -> list[T]:
            # Again in this thread: another thread may change PyTorch's number of threads meanwhile.
            with deterministic(self.device):
                return self._parts(share.start, share.stop, work, clips)

        with deterministic(self.device):
            every = shares(num, self.threads)
            found = map(of_share, every) if len(every) == 1 else self._pool.map(of_share, every)
            return [part for parts in found for part in parts]

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads, "prism-part")

    def _parts(self, first: int, end: int, work: Callable[[int, int], T], clips: int) -> list[T]:
        found = []
        while first < end:
            last = min(first + max(1, self.size // clips), end)
            try:
                found.append(work(first, last))
                first = last
                continue
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            # Outside of the handler, in which the error still holds the memory of the work.
            self._halve(last - first, clips)
        return found

    def _halve(self, units: int, clips: int) -> None:
        if units == 1:
            what = "one clip" if clips == 1 else f"the {clips} videos of one class"
            needed, free = clips * self.clip_bytes / 2**20, (free_bytes(self.device) or 0) / 2**20
            said = f"{what}, which takes about {needed:,.0f} MiB at the published width: {free:,.0f} are free."
            remedy = "Pass a smaller --vpc or --width, or ingest smaller clips."
            raise ConfigError(f"{self.device.type} has no memory left for {said} {remedy}")
        self.size = units // 2 * clips
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def between_class_energy(means: Tensor) -> Tensor:
    """Sum of the squared distances of class means (C, D) from their mean: a loss below it separates classes."""
    with deterministic(means.device):
        return (means - means.mean(dim=0)).square().sum()


class DrawnAhead:
    """Values of the next `NUM` networks, which CPU threads draw while a GPU computes with the current network."""

    NUM: ClassVar[int] = 3

    def __init__(self, network: Network, device: torch.device, draw: Callable[[nn.Module, int], None]) -> None:
        # A custom network may draw from PyTorch's global generator, which threads would share.
        num_threads = 1 if ":" in network.name else self.NUM
        self.draw, self.device, self.pool = draw, device, ThreadPoolExecutor(num_threads, "prism-draw")
        self.copies = deque((pinned_copy(network), cuda.Event()) for _ in range(self.NUM + 1))
        self.coming = deque[tuple[int, Future[tuple[nn.Module, cuda.Event]]]]()

    def give(self, network: Network, number: int, following: Iterable[int]) -> None:
        """Copy the values of network `number` into a network on the GPU; start to draw those of `following`."""
        wanted = [number, *islice(following, self.NUM)]
        if [one for one, _ in self.coming] != wanted[: len(self.coming)]:
            wait(drawn for _, drawn in self.coming)
            self.coming.clear()
        for one in wanted[len(self.coming) :]:
            self.coming.append((one, self.pool.submit(self._drawn, one, *self.copies[0])))
            self.copies.rotate(-1)
        copied, is_sent = self.coming.popleft()[1].result()
        copy_values(copied, network)
        is_sent.record(cuda.current_stream(self.device))

    def _drawn(self, number: int, copied: nn.Module, is_sent: cuda.Event) -> tuple[nn.Module, cuda.Event]:
        # The values drawn here before may still be on their way to the GPU.
        is_sent.synchronize()
        self.draw(copied, number)
        return copied, is_sent


@dataclass(eq=False, repr=False)
class RandomNetworks:
    """The random network of each iteration, and the mean embeddings of real clips under it.

    An objective needs two calls: `draw(iteration)` gives the network, `real_clips(iteration)` the real clips, one
    class after the other. Most objectives use `class_means(iteration)`, which is computed from both.

    Attributes:
        network: the only one in memory; `RandomNetworks` of other names also draw their values into it.
        store, config, device: the data set, the options, and where the network is.
        feed: pixels of the store's training clips, for the device.
        classes: labels of the classes that are condensed.
        number_of: maps an iteration to the number of its network.
        shows_stills: whether an iteration shows single frames of real clips, held for the length of a clip.
        name: of the random streams: under another name the same number has other values and other real clips.
        trained: maps a number, from 0, to a frozen network that was trained on all training clips.
        file_of: maps all that class means depend on to their file; None where they are not kept.
        elsewhere: files from workers with another device, by (block, whether its clips are stills).
    """

    network: Network
    store: ClipStore
    feed: Feed
    config: Settings
    classes: range
    trained: Callable[[int], Network]
    file_of: Callable[[dict[str, Any]], Any] | None
    number_of: Callable[[int], int] = int
    shows_stills: Callable[[int], bool] = lambda iteration: False
    name: str = "network"
    block: int = BLOCK

    def __post_init__(self) -> None:
        self.device, self.elsewhere = self.feed.device, dict[tuple[int, bool], Any]()
        self.real, self.chunk = self.store.clips("train"), Chunk.of(self.store, self.device)
        self.precision = number_format(self.config, self.device)
        # In eval mode an embedding does not depend on the clips beside it, so neither does a class mean.
        self.real_network = self.network.eval().requires_grad_(False)
        if self.precision != "float32":
            self.real_network = copy.deepcopy(self.network).to(PRECISIONS[self.precision])
            layout = self.network.CPU_LAYOUT if self.device.type == "cpu" else torch.channels_last_3d
            lay_out(self.real_network, layout)
        self._block, self._means = None, None

    def of_classes(self, classes: range) -> "RandomNetworks":
        """The same networks for other classes."""
        other = copy.copy(self)
        other.classes, other._block = classes, None
        return other

    @cached_property
    def whole(self) -> "RandomNetworks":
        """The same networks for all classes, whichever are condensed."""
        return self.of_classes(range(self.network.num_classes))

    def draw(self, iteration: int) -> Network:
        """The network of an iteration, frozen, in eval mode; the next draw replaces its fresh random values."""
        return self.draw_number(self.number_of(iteration), map(self.number_of, count(iteration + 1)))

    def real_clips(self, iteration: int) -> Iterator[Tensor]:
        """Normalised real clips (n, C, T, H, W) of an iteration, one class after the other.

        Each class has `config.batch_real` random ones, mirrored at random where mirroring keeps the labels.
        """
        batch = self._batch(self.number_of(iteration), self.shows_stills(iteration))
        counts = self.real.labels[batch[0]].unique_consecutive(return_counts=True)[1].tolist()
        for of_class in zip(*(part.split(counts) for part in batch), strict=True):
            yield self._shown(*of_class)

    def class_means(self, iteration: int) -> Tensor:
        """(C, D) mean embeddings of the real clips of an iteration (equation 8); the store keeps them."""
        number, still = self.number_of(iteration), self.shows_stills(iteration)
        block, within = divmod(number, self.block)
        if self._block != (block, still):
            file, self._block = self.kept(block, still), (block, still)
            means, own = file.load() if file else None, self.classes
            self._means = None if means is None else send(means, self.device)[:, own.start : own.stop]
        return self.compute_means(number, still) if self._means is None else self._means[within]

    def kept(self, block: int, still: bool) -> Any:
        """The file of the class means of a block of networks; None where they are not kept."""
        if self.file_of is None:
            return None
        # Of other networks an embedding's last bits depend on the clips in its part, and so on the threads.
        key = {"threads": self.chunk.threads} if self.network.name != "convnet3d" else {}
        key |= {"model": self.network.name, "width": self.config.width or self.network.WIDTH, "name": self.name}
        key |= {"seed": self.config.network_seed, "clips": real_batch(self.store, self.config)}
        key |= {"block": block, "precision": self.precision, "view": "held_frames" if still else "whole_clips"}
        return self.elsewhere.get((block, still)) or self.file_of(key)

    @torch.no_grad()
    def compute_means(self, number: int, still: bool) -> Tensor:
        """(C, D) float32 class means under network `number`."""
        self.draw_number(number, count(number + 1))
        batch, network = self._batch(number, still), self.real_network
        labels = self.real.labels[batch[0]] - self.classes.start

        def embed(first: int, last: int) -> Tensor:
            # Nothing here waits for a GPU: it embeds a chunk while the next one is gathered.
            shown = self._shown(*(rows[first:last] for rows in batch)).to(PRECISIONS[self.precision])
            embeddings = network.embed(shown)
            check_output(network, "embed", embeddings, shown)
            return embeddings

        embeddings = torch.cat(self.chunk.map(len(labels), embed))
        counts = send(torch.bincount(labels, minlength=len(self.classes)), self.device)
        with deterministic(self.device):
            # Clips are grouped by class. `unsafe` skips a check of the counts, which would wait for the GPU.
            return torch.segment_reduce(embeddings.double(), "mean", lengths=counts, unsafe=True).float()

    def draw_number(self, number: int, following: Iterable[int]) -> Network:
        """The network with the values of `number`; for a GPU, threads draw those of `following` meanwhile."""
        # Networks of another name may have been drawn into the same memory meanwhile.
        drawn = self.config.network_seed, self.name, number, self.precision
        if any(getattr(one, "drawn", None) != drawn for one in (self.network, self.real_network)):
            if self.device.type == "cpu":
                initialise(self.network, generator(self.config.network_seed, self.name, number))
            else:
                self._ahead.give(self.network, number, following)
            if self.real_network is not self.network:
                copy_values(self.network, self.real_network)
                # And back, so that real and synthetic clips are embedded with the same rounded weights.
                copy_values(self.real_network, self.network)
            self.network.drawn = self.real_network.drawn = drawn  # type: ignore[assignment]
        return self.network

    @cached_property
    def _ahead(self) -> DrawnAhead:
        # A function of `self` would keep this object, and its clips on the GPU, alive in a reference cycle.
        seed, name = self.config.network_seed, self.name
        return DrawnAhead(self.network, self.device, lambda own, n: initialise(own, generator(seed, name, n)))

    def _batch(self, number: int, still: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Real clips of network `number`, (n,) each: position, whether mirrored, and time of the still or -1."""
        seed, num_frames = self.config.network_seed, self.store.num_frames
        batch, flips, view = (generator(seed, what, self.name, number) for what in ("batch", "flip", "view"))
        # Drawn for all classes, so that no class depends on which others are condensed.
        positions = self.store.sample(real_batch(self.store, self.config), batch)
        mirrored = torch.rand(len(positions), generator=flips) < 0.5
        drawn = torch.randint(num_frames, positions.shape, generator=view)
        times = drawn if still else torch.full_like(positions, -1)
        labels = self.real.labels[positions]
        ours = (labels >= self.classes.start) & (labels < self.classes.stop)
        return positions[ours], mirrored[ours] & self.store.flip, times[ours]

    def _shown(self, positions: Tensor, mirrored: Tensor, times: Tensor) -> Tensor:
        pixels = self.feed.rows(positions)
        if times[0] >= 0:
            every = torch.arange(len(pixels), device=pixels.device)
            pixels = pixels[every, send(times, self.device), None].expand_as(pixels)
        return to_model_input(mirror(pixels, mirrored), self.store.normalisation)


def real_batch(store: ClipStore, config: Settings) -> int:
    """Largest number of real clips per class that a network embeds; for `batch_real` 0, of the largest class."""
    most = int(store.counts("train").max())
    return min(config.batch_real or most, most)
