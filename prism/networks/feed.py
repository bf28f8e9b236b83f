"""Rows of a tensor for the device that computes on them: kept there where they fit, else sent part by part."""

from collections import deque
from functools import cached_property

import torch
from torch import Tensor, cuda

from prism.machine.devices import free_bytes, send

AHEAD = 2
"""Parts that may wait while a GPU computes on the part before them. More would only take more memory."""
SHARE = 0.5
"""Largest share of a GPU's free memory for a tensor that is kept there; the rest is for the computation."""


class Feed:
    """Rows (n, ...) of a tensor on the CPU, for a device.

    A GPU keeps the whole tensor if it takes at most half of the free memory. Else three parts are there at most:
    the GPU computes on one while it copies the next from pinned memory, and the CPU gathers the one after.
    """

    def __init__(self, source: Tensor, device: torch.device) -> None:
        self.source, self.device = source, device
        self._waiting: deque[torch.Event] = deque()

    @cached_property
    def resident(self) -> Tensor | None:
        """The whole tensor on the device, from the first time that it is read; None where it does not fit."""
        fits = self.device.type == "cpu" or self.source.nbytes <= SHARE * (free_bytes(self.device) or 0)
        return self.source.to(self.device) if fits else None

    @cached_property
    def _copies(self) -> cuda.Stream:
        return cuda.Stream(self.device)

    def rows(self, positions: Tensor) -> Tensor:
        """The rows at positions (n,), on the device."""
        if self.resident is not None:
            return self.resident.index_select(0, send(positions, self.device))
        computing = cuda.current_stream(self.device)
        self._waiting.append(computing.record_event())
        if len(self._waiting) > AHEAD:
            self._waiting.popleft().synchronize()
        # PyTorch reuses pinned memory for another part once the copy from it is made.
        gathered = torch.empty(len(positions), *self.source.shape[1:], dtype=self.source.dtype, pin_memory=True)
        torch.index_select(self.source, 0, positions, out=gathered)
        with cuda.stream(self._copies):
            sent = gathered.to(self.device, non_blocking=True)
        computing.wait_stream(self._copies)
        # Else its memory would be given to the next copy as soon as Python drops it.
        sent.record_stream(computing)
        return sent
