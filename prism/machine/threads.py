"""Networks side by side: threads of this process, which end at a network's next layer once they are stopped."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING

from prism.errors import Interrupted
from prism.machine.devices import repeatably
from prism.machine.signals import Stopped

if TYPE_CHECKING:
    import torch

_HERE = threading.local()
"""`stopped`, in the threads of `side_by_side`."""


@contextlib.contextmanager
def side_by_side(num: int, device: "torch.device", stopped: Stopped | None = None) -> Iterator[Executor | None]:
    """Threads for `num` networks, each of which computes alone; None for one, which the caller's thread computes.

    PyTorch releases Python's lock while it computes, so threads are about as fast as processes would be, and
    they share the clips. What computes in them, at any depth, ends with the first error or Ctrl-C.

    Args:
        num: networks that compute at a time.
        device: where they do.
        stopped: ends them as well, once a signal is noted in it; even one then has a thread, which can be ended.
    """
    if num == 1 and stopped is None:
        yield None
        return
    stopped = stopped or Stopped()
    # A thread takes over PyTorch's number of threads when it first computes, so one is set before the pool begins.
    # What computes sets it as well; it finds one, and so puts back one while others still compute.
    with (
        repeatably(device),
        ThreadPoolExecutor(num, "prism-network", setattr, (_HERE, "stopped", stopped)) as threads,
    ):
        try:
            yield threads
        except BaseException:
            # Before the threads are waited for: Ctrl-C must not wait for the ends of their work.
            stopped.signal = stopped.signal or signal.SIGINT
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def end_where_stopped(network: "torch.nn.Module", said: str) -> None:
    """Let a network look before every layer whether its thread is stopped: Python cannot end one from outside.

    It then raises Interrupted, with what is said.
    """

    def go_on(*_: object) -> None:
        stopped: Stopped | None = getattr(_HERE, "stopped", None)
        if stopped and stopped.signal:
            raise Interrupted(said)

    for module in network.modules():
        module.register_forward_pre_hook(go_on)
