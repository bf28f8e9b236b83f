"""Threads that compute networks side by side, and the signals that stop a run."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING

from prism.errors import Interrupted
from prism.machine.devices import deterministic, pick_device
from prism.machine.run import Run

if TYPE_CHECKING:
    import torch


class Stopped:
    """Whether a signal asked a run to stop, and which."""

    signal: int | None = None


@contextlib.contextmanager
def stop_signal() -> Iterator[Stopped]:
    """Turn Ctrl-C and SIGTERM into a flag that a loop looks at between two iterations.

    A second Ctrl-C stops at once. Outside the main thread signals are left alone.
    """
    stopped = Stopped()

    def note(number: int, frame: object) -> None:
        if stopped.signal is not None:
            raise KeyboardInterrupt
        stopped.signal = number

    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def stoppable(said: str | None) -> Iterator[None]:
    """End a block at once on Ctrl-C (in `prism` also on SIGTERM) with an Interrupted that has this sentence."""
    try:
        yield
    except KeyboardInterrupt:
        if said is None:
            raise
        raise Interrupted(said) from None


_HERE = threading.local()
"""`stopped`, in the threads of `side_by_side`."""


def computing(
    run: Run, num: int, workers: int | None = None
) -> contextlib.AbstractContextManager[Executor | None]:
    """What computes `num` networks: the executor of a run, or threads of this process, or its own thread (None).

    A GPU is busy with one network. A CPU is not, since each of them computes in one thread: without a number of
    `workers` as many are computed side by side as keep all cores busy.
    """
    import torch

    # An executor may have the device that this machine has not.
    if run.executor is not None or (device := pick_device(run.device)).type != "cpu":
        return contextlib.nullcontext(run.executor)
    return side_by_side(min(workers or workers_for(num, torch.get_num_threads()), num), device)


def workers_for(num_networks: int, num_threads: int) -> int:
    """Networks to train side by side: in rounds of equal size (three on two cores are one); no core idles."""
    rounds = max(1, num_networks // num_threads)
    return -(-num_networks // rounds)


@contextlib.contextmanager
def side_by_side(num: int, device: "torch.device") -> Iterator[Executor | None]:
    """Threads for `num` networks at a time; None for one, which the caller's thread computes.

    PyTorch releases Python's lock while it computes, so threads are about as fast as processes, and they share the
    clips. All of them end with the first error, or with Ctrl-C.
    """
    if num == 1:
        yield None
        return
    stopped = Stopped()
    # A thread takes over PyTorch's number of threads when it first computes, so one is set before the pool begins.
    # What computes sets it as well; it finds one, and so puts back one while others still compute.
    with (
        deterministic(device),
        ThreadPoolExecutor(num, "prism-network", setattr, (_HERE, "stopped", stopped)) as threads,
    ):
        try:
            yield threads
        except BaseException:
            # Before the threads are waited for: Ctrl-C must not wait for the ends of their work.
            stopped.signal = signal.SIGINT
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def end_where_stopped(network: "torch.nn.Module", said: str) -> None:
    """Let a network raise Interrupted before its next layer once its thread is stopped."""

    def go_on(*_: object) -> None:
        stopped: Stopped | None = getattr(_HERE, "stopped", None)
        if stopped and stopped.signal:
            raise Interrupted(said)

    for module in network.modules():
        module.register_forward_pre_hook(go_on)
