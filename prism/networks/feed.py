"""Clips for a device that computes on earlier ones meanwhile."""

import functools
from collections import deque

import torch
from torch import Tensor, cuda

AHEAD = 2
"""Parts that may wait while a GPU computes on the one in front of them. More would only take more memory."""


class Feed:
    """Gathers rows of a tensor part by part, and sends them to a device.

    A GPU copies a part from pinned memory while it computes on the part before, and the next one is gathered.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copies = None if device.type == "cpu" else cuda.Stream(device)
        self._waiting: deque[torch.Event] = deque()

    def rows(self, source: Tensor, positions: Tensor) -> Tensor:
        """Rows (n, ...) of a tensor on the CPU at positions (n,), sent when the work before has been started."""
        if self._copies is None:
            return source.index_select(0, positions)
        computing = cuda.current_stream(self.device)
        self._waiting.append(computing.record_event())
        if len(self._waiting) > AHEAD:
            self._waiting.popleft().synchronize()
        # PyTorch keeps pinned memory for the next part, and gives it out when the copy is made.
        gathered = torch.empty(len(positions), *source.shape[1:], dtype=source.dtype, pin_memory=True)
        torch.index_select(source, 0, positions, out=gathered)
        with cuda.stream(self._copies):
            sent = gathered.to(self.device, non_blocking=True)
        computing.wait_stream(self._copies)
        # Or its memory would be given to the next copy as soon as Python drops it.
        sent.record_stream(computing)
        return sent


@functools.cache
def feed_of(device: torch.device) -> Feed:
    """The one feed of a device: a stream has memory of its own, and all that waits counts together."""
    return Feed(device)
