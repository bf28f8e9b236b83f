"""Class means of real clips computed ahead, side by side: kept for all runs, or for the next iterations of one."""

import os
from collections.abc import Collection
from functools import partial

import torch
from torch import Tensor

from prism.artifacts.cache import KEPT_BYTES
from prism.condensation.chunk import threads_for
from prism.condensation.class_means import View, whole_clips
from prism.condensation.stream import DrawnNetwork, Need, NetworkStream
from prism.machine.devices import pick_device, send
from prism.machine.executors import completed
from prism.machine.progress import note, progress_bar
from prism.machine.run import Run
from prism.machine.threads import end_where_stopped, side_by_side, stop_signal


def keep_ahead(stream: NetworkStream, needs: Collection[Need], run: Run) -> None:
    """Compute the missing blocks of a run, by its executor or by threads of this process.

    Where they cannot be kept, or would take more than a store keeps, nothing is done: the run then computes the
    class means of each network, and of the next ones beside it, when it comes to them.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; finished blocks stay.
        EngineError: the executor lost a block.
    """
    device = pick_device(run.device)
    files = stream.files(needs, device)
    if not (files and os.access(stream.store.path, os.W_OK)):
        return
    num_bytes = sum(file.num_bytes for file in files.values())
    said = f"The class means of {stream.block * len(files):,} networks take {mib(num_bytes)} beside the clips"
    if num_bytes > KEPT_BYTES:
        note(
            f"{said}, more than the {mib(KEPT_BYTES)} that are kept there. They are computed as they are needed.",
            enabled=run.progress,
        )
        return
    missing = [need for need, file in files.items() if file.load() is None]
    if not missing:
        return
    note(f"{said}. Every later run on these clips shares them.", enabled=run.progress)
    missing.sort(key=lambda need: (need[1].__name__, need[0]))
    keep = partial(_keep, stream, run.device)
    done = stream.block * (len(files) - len(missing))
    bar = progress_bar("Real clips", stream.block * len(files), "networks", enabled=run.progress, done=done)
    with bar as advance:
        if run.executor is not None:
            for _ in completed(run.executor, keep, missing):
                advance(stream.block)
            return
        num = threads_for(device)
        with stop_signal() as stopped, side_by_side(num, device, stopped) as threads:
            for _ in completed(threads, keep, missing):
                advance(stream.block)


def _keep(stream: NetworkStream, device: str, need: Need) -> None:
    """Compute a block and keep it, unless it is there: in any thread, on any machine."""
    (block, view), place = need, pick_device(device)
    file = stream.files([need], place)[need]
    if file.load() is None:
        drawn, classes = DrawnNetwork(stream, place), range(len(stream.store.classes))
        said = "stopped; class means that are done are kept. Run the same command to continue."
        end_where_stopped(drawn.real_network, said)
        file.save(torch.stack([drawn.class_means(number, view, classes) for number in stream.numbers(block)]))


class ClassMeans:
    """The class means that synthetic clips shall have under one network of a stream after the other.

    Args:
        drawn: the network, which embeds the real clips as well, where their means are not kept.
        classes: the labels that are condensed, all by default.
    """

    def __init__(self, drawn: DrawnNetwork, classes: range | None = None) -> None:
        self.stream, self.device = drawn.stream, drawn.device
        self.classes = classes or range(len(drawn.stream.store.classes))
        self._networks = [drawn]
        self._need: Need | None = None
        self._found: dict[int, Tensor] = {}

    def of(self, number: int, view: View = whole_clips) -> Tensor:
        """(C, D) under the network of a number, of what a view shows: kept, or computed with the next ones."""
        need = number // self.stream.block, view
        if need != self._need:
            self._need, self._found = need, self._kept(need)
        if number not in self._found:
            self._found = self._computed(number, view)
        return self._found[number]

    def _kept(self, need: Need) -> dict[int, Tensor]:
        file = self.stream.files([need], self.device).get(need)
        if file is None or (means := file.load()) is None:
            return {}
        ours = send(means, self.device)[:, self.classes.start : self.classes.stop]
        return dict(zip(self.stream.numbers(need[0]), ours, strict=True))

    def _computed(self, first: int, view: View) -> dict[int, Tensor]:
        """Those of a network, and of as many of the next ones in its block as are embedded side by side."""
        num = threads_for(self.device)
        numbers = range(first, self.stream.numbers(first // self.stream.block).stop)[:num]
        # They stay, with the memory that they have, and with the size of a chunk that they have found.
        self._networks += [DrawnNetwork(self.stream, self.device) for _ in numbers[len(self._networks) :]]

        def compute(number: int) -> Tensor:
            return self._networks[number - first].class_means(number, view, self.classes)

        with side_by_side(len(numbers), self.device) as threads:
            return dict(completed(threads, compute, numbers))


def mib(num_bytes: int) -> str:
    """As a note says it: `1,500.0 MiB`."""
    return f"{num_bytes / 2**20:,.1f} MiB"
