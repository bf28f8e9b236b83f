"""Class means of real clips computed ahead of a run, side by side, and kept for every later one."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from prism.artifacts.cache import KEPT_BYTES
from prism.artifacts.store import ClipStore
from prism.condensation.class_means import View
from prism.condensation.condensing_memory import networks_side_by_side
from prism.condensation.options import CondenseConfig
from prism.condensation.stream import BLOCK, NetworkStream
from prism.errors import Interrupted
from prism.machine.devices import pick_device, repeatably
from prism.machine.executors import completed
from prism.machine.progress import note, progress_bar
from prism.machine.run import Run
from prism.machine.signals import Stopped, stop_signal

Need = tuple[int, View]
"""A block of the stream, and how its real clips are shown."""


@dataclass(frozen=True)
class BlockOrder:
    """The order to compute blocks of class means, as it travels to where that is done.

    Attributes:
        device: `auto`, `cpu` or `cuda` of the machine that computes.
        name: of the networks, as in `NetworkStream`.
        block: networks of a block.
        stopped: what ends the work at the network's next layer; None where nobody could say so.
    """

    store: ClipStore
    config: CondenseConfig
    device: str
    name: str = "network"
    block: int = BLOCK
    stopped: Stopped | None = None

    def __call__(self, need: Need) -> None:
        """Compute a block and keep it, unless it is there.

        Raises:
            Interrupted: the run was stopped.
        """
        stream = self.stream()
        for module in stream.real_network.modules():
            module.register_forward_pre_hook(self._go_on)
        stream.keep(*need)

    def stream(self) -> NetworkStream:
        """The stream that the blocks are of."""
        return NetworkStream(self.store, self.config, pick_device(self.device), name=self.name, block=self.block)

    def _go_on(self, *_: object) -> None:
        if self.stopped and self.stopped.signal:
            raise Interrupted("stopped; class means that are done are kept. Run the same command to continue.")


def keep_ahead(order: BlockOrder, needs: Iterable[Need], run: Run) -> None:
    """Compute the missing blocks of a run, by its executor or by threads of this process.

    Where they cannot be kept, or would take more than a store keeps, nothing is done: the run then computes the
    class means of each network, and of the next ones beside it, when it comes to them.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; finished blocks stay.
        EngineError: the executor lost a block.
    """
    stream = order.stream()
    kept = {need for need in needs if stream.may_keep(need[1])}
    if not (kept and os.access(order.store.path, os.W_OK)):
        return
    needs = sorted(kept, key=lambda need: (need[1].__name__, need[0]))
    files = {need: stream.file(*need) for need in needs}
    num_bytes = sum(file.num_bytes for file in files.values())
    said = f"The class means of {order.block * len(needs):,} networks take {mib(num_bytes)} beside the clips"
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
    done = order.block * (len(needs) - len(missing))
    bar = progress_bar("Real clips", order.block * len(needs), "networks", enabled=run.progress, done=done)
    with bar as advance:
        if run.executor is not None:
            for _ in completed(run.executor, order, missing):
                advance(order.block)
            return
        num = networks_side_by_side(order.store, order.config, stream.device)
        with stop_signal() as stopped, repeatably(stream.device), ThreadPoolExecutor(num) as threads:
            for _ in completed(threads, replace(order, stopped=stopped), missing):
                advance(order.block)


def mib(num_bytes: int) -> str:
    """As a note says it: `1,500 MiB`."""
    return f"{num_bytes / 2**20:,.1f} MiB"
