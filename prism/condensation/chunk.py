"""Chunks: how many clips go through a network together, and what happens where memory runs out."""

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TypeVar

import torch

from prism.errors import ConfigError
from prism.machine.devices import deterministic
from prism.networks.network import Network
from prism.networks.options import NETWORKS

T = TypeVar("T")


def threads_for(device: torch.device) -> int:
    """Networks, or parts of a batch, that a device computes at a time: each in a thread of a CPU, one on a GPU."""
    return torch.get_num_threads() if device.type == "cpu" else 1


FIRST_CHUNK = {"cpu": 8, "cuda": 512}
"""Clips that are tried together first, by device type. On a CPU few: memory that outgrows the caches, and that the
system must be asked for each time, costs more than larger batches save."""
FED_BYTES = 64 * 2**20
"""Pixels of real clips that a GPU is given together, at most: it embeds them while the next ones are read. It is a
power of two, to which PyTorch rounds pinned memory up."""
REAL_BYTES, MOST_REAL = 64 * 2**20, 64
"""Memory that a CPU gives to real clips which it embeds together, and their number from which on more gain
nothing. Threads that share a pool of memory take from it what lies in the other core's cache; less so in large
pieces."""
REAL_COPIES = 8
"""Memory of a real clip that is embedded, as a multiple of its pixels as float32: bytes, normalised, in another
layout, and the values of the largest layers. (ConvNet3D of width 16; a factor of two does not matter.)"""


class Chunk:
    """How many clips go through a network together: half as many from where memory runs out.

    Args:
        size: clips at first.
        device: whose memory it is.
        side_by_side: parts of the work that a CPU does at a time, each in a thread, where they go `each_exactly`.
    """

    def __init__(self, size: int, device: torch.device | str = "cpu", side_by_side: int = 1) -> None:
        self.size, self.device, self.side_by_side = size, torch.device(device), side_by_side

    @classmethod
    def on(cls, device: torch.device, side_by_side: int = 1) -> "Chunk":
        """As many clips as are tried first on this device."""
        return cls(FIRST_CHUNK[device.type], device, side_by_side)

    @classmethod
    def of_real_clips(cls, network: Network, device: torch.device) -> "Chunk":
        """As many real clips as are tried first: their gradients are not asked for.

        On a CPU that depends on their size, but for a network that rounds by the clips beside a clip.

        Args:
            network: the one that embeds them, frozen.
        """
        first, pixels = FIRST_CHUNK[device.type], 3 * network.num_frames * math.prod(network.size)
        if device.type != "cpu":
            first = min(first, max(1, FED_BYTES // pixels))
        elif network.IS_BATCH_INVARIANT and NETWORKS.is_builtin(type(network)):
            first = max(first, min(MOST_REAL, REAL_BYTES // (REAL_COPIES * 4 * pixels)))
        return cls(first, device)

    def each(
        self,
        num: int,
        work: Callable[[int, int], T],
        *,
        clips: int = 1,
        draws: Iterable[torch.Generator] = (),
    ) -> list[T]:
        """Do some work in parts that follow each other.

        Args:
            num: units of work.
            work: does the units from its first argument up to its second; where memory runs out it is done
                again, in smaller parts.
            clips: clips that a unit takes; a part has as many units as fit a chunk, but at least one.
            draws: generators that `work` uses, set back before it is done again.

        Returns:
            What the parts gave, in their order.

        Raises:
            ConfigError: there is no memory for a single unit.
        """
        draws, found, first = list(draws), [], 0
        while first < num:
            last = min(first + max(1, self.size // clips), num)
            before = [draw.get_state() for draw in draws]
            try:
                found.append(work(first, last))
            except torch.OutOfMemoryError:
                for draw, state in zip(draws, before, strict=True):
                    draw.set_state(state)
            else:
                first = last
                continue
            # After the handler: the error holds on to what the work had allocated.
            self._halve(last - first, clips)
        return found

    def each_exactly(
        self, num: int, work: Callable[[int, int], T], *, clips: int = 1, is_invariant: bool
    ) -> list[T]:
        """Do units of work that no other unit and no number of threads may change by a bit.

        How a network rounds depends on the threads that share a batch, and for most on the clips beside a clip. So
        on a CPU a part is done in one thread, `side_by_side` of them at a time; a GPU, whose rounding is its own,
        does them as `each` does.

        Args:
            num: units of work.
            work: does the units from its first argument up to its second.
            clips: clips that a unit takes.
            is_invariant: whether units may share a part: `Network.IS_BATCH_INVARIANT`.

        Returns:
            What the parts gave, in their order.

        Raises:
            ConfigError: there is no memory for a single unit.
        """
        if self.device.type != "cpu":
            with deterministic(self.device):
                return self.each(num, work, clips=clips)

        shares, size = (self.side_by_side, self.size) if is_invariant else (num, clips)
        ends = [num * share // shares for share in range(shares + 1)]

        def alone(first: int, last: int) -> list[T]:
            # The thread's own number of threads: another one may set that of the process meanwhile.
            with deterministic(self.device):
                part = Chunk(size, self.device)
                return part.each(last - first, lambda a, b: work(first + a, first + b), clips=clips)

        with deterministic(self.device):
            return [part for share in self._threads.map(alone, ends, ends[1:]) for part in share]

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        """Threads that stay, with the memory that they have."""
        return ThreadPoolExecutor(self.side_by_side, "prism-part")

    def _halve(self, units: int, clips: int) -> None:
        """Remember that so many units were too many."""
        if units == 1:
            what = "one clip" if clips == 1 else f"the {clips} videos of one class"
            remedy = "--width" if clips == 1 else "--vpc or --width"
            raise ConfigError(
                f"{self.device.type} has no memory left for {what}. Pass a smaller {remedy}, or "
                "ingest smaller clips."
            )
        self.size = units // 2 * clips
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
