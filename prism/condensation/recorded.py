"""Work that a GPU is asked for once, and then repeats as one order: a CUDA graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, cuda

from prism.errors import ConfigError

Work = Callable[..., tuple[Tensor, ...]]
"""Gives tensors for tensors."""
WARM_UPS = 3
"""Times that work is done before it is recorded: libraries choose algorithms, and ask for memory, in the first."""


class Recorded:
    """Work whose operations on a GPU are recorded in the first call, and repeated in later ones.

    A GPU computes the operations of a small network in less time than Python takes to ask for them. A recording is
    asked for in one call. It repeats the same operations on the same memory. So the work may depend on the values
    of its arguments, and of tensors that stay where they are, and on nothing else; and it must not wait for the
    GPU.

    Args:
        work: what is recorded.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self._recording: _Recording | None = None

    @torch.no_grad()
    def __call__(self, *given: Tensor) -> tuple[Tensor, ...]:
        """What the work gives for these tensors; other shapes than the last ones are recorded anew.

        Raises:
            ConfigError: the work cannot be recorded.
        """
        if self._recording is None or not self._recording.is_of(given):
            # The memory of the last one first: the next may need it.
            self._recording = None
            self._recording = _Recording.of(self.work, given)
        return self._recording.repeated(given)


@dataclass(frozen=True)
class _Recording:
    """Operations on the GPU that compute `found` of what is in `given`."""

    given: tuple[Tensor, ...]
    found: tuple[Tensor, ...]
    repeat: Callable[[], None]

    @classmethod
    def of(cls, work: Work, given: tuple[Tensor, ...]) -> "_Recording":
        kept, graph = tuple(tensor.clone() for tensor in given), cuda.CUDAGraph()
        here, aside = cuda.current_stream(), cuda.Stream()
        # A recording that fails leaves its own stream behind as the current one.
        with torch.enable_grad(), cuda.stream(here):
            aside.wait_stream(here)
            with cuda.stream(aside):
                for _ in range(WARM_UPS - 1):
                    work(*kept)
                # PyTorch's memory would stay in disorder after a recording in which something waits.
                with _refusing_to_wait(), _recordable():
                    work(*kept)
            here.wait_stream(aside)
            with _recordable(), cuda.graph(graph, stream=aside):
                found = work(*kept)
        return cls(kept, found, graph.replay)

    def is_of(self, given: tuple[Tensor, ...]) -> bool:
        """Whether it was recorded for tensors of such shapes."""
        return [tensor.shape for tensor in given] == [tensor.shape for tensor in self.given]

    def repeated(self, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """What is found of tensors, in memory of its own."""
        for kept, tensor in zip(self.given, given, strict=True):
            kept.copy_(tensor)
        self.repeat()
        return tuple(tensor.clone() for tensor in self.found)


@contextmanager
def _refusing_to_wait() -> Iterator[None]:
    """Let PyTorch raise an error where the CPU would wait for the GPU."""
    before = cuda.get_sync_debug_mode()
    cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        cuda.set_sync_debug_mode(before)


@contextmanager
def _recordable() -> Iterator[None]:
    """Say of an error that it comes from recording: the same work was done without."""
    try:
        yield
    except RuntimeError as error:
        # The end of a failed recording fails as well, and says less.
        problem = str(error.__context__ or error).partition("\n")[0].rstrip(".")
        raise ConfigError(f"no CUDA graph can be recorded: {problem}. Leave out the graph.") from error
