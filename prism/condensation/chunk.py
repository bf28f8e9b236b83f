"""Chunks: how many clips go through a network together, and what happens where memory runs out."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch

from prism.errors import ConfigError
from prism.machine.free_memory import available_memory_bytes
from prism.networks.training_memory import gib

T = TypeVar("T")

FIRST_CHUNK = {"cpu": 8, "cuda": 512}
"""Clips that are tried together first, by device type. On a CPU few: memory that outgrows the caches, and that the
system must be asked for each time, costs more than larger batches save."""


class Chunk:
    """How many clips go through a network together: half as many from where memory runs out.

    Args:
        size: clips at first.
        device: whose memory it is.
    """

    def __init__(self, size: int, device: torch.device | str = "cpu") -> None:
        self.size, self.device = size, torch.device(device)

    @classmethod
    def on(cls, device: torch.device) -> "Chunk":
        """As many clips as are tried first on this device."""
        return cls(FIRST_CHUNK[device.type], device)

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

    def _halve(self, units: int, clips: int) -> None:
        """Remember that so many units were too many."""
        if units == 1:
            free = available_memory_bytes(self.device)
            left = "" if free is None else f" ({gib(free)} free)"
            what = "one clip" if clips == 1 else f"the {clips} videos of one class"
            remedy = "--width" if clips == 1 else "--vpc or --width"
            raise ConfigError(
                f"{self.device.type} has no memory left for {what}{left}. Pass a smaller {remedy}, or "
                "ingest smaller clips."
            )
        self.size = units // 2 * clips
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
