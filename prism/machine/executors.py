"""Computation of independent items, in this process, its threads or by an executor, and the signals that stop it.

An executor is any `concurrent.futures.Executor`, whose threads, processes or machines see the same files. The
function that it calls must be picklable.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from prism.errors import AGAIN, ConfigError, EngineError, Interrupted
from prism.machine.devices import deterministic, pick_device
from prism.machine.provenance import versions
from prism.machine.run import Run
from prism.machine.text_io import first_difference

if TYPE_CHECKING:
    import torch

Item = TypeVar("Item")
Found = TypeVar("Found")


def completed(
    executor: Executor | None, function: Callable[[Item], Found], items: Iterable[Item]
) -> Iterator[tuple[Item, Found]]:
    """Every item (hashable) with the result of a function for it, in the order in which they are done.

    Without an executor they are computed here, in their order. Items that have not begun are cancelled when one
    fails, or when the generator is closed. An executor that loses an item raises EngineError.
    """
    if executor is None:
        yield from ((item, function(item)) for item in items)
        return
    remote = partial(_remote, function, versions(), os.getpid())
    futures = dict[Future[Found], Item]()
    try:
        futures.update((executor.submit(remote, item), item) for item in items)
        for future in as_completed(futures):
            yield futures[future], future.result()
    except Exception as error:
        # An error of Dask, by name, because Dask need not be installed.
        if isinstance(error, BrokenExecutor | CancelledError) or type(error).__name__ == "KilledWorker":
            lost = f"the executor lost what it was to compute ({type(error).__name__})"
            raise EngineError(f"{lost}. {AGAIN}") from None
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ModuleNotFoundError):
            cause = cause.__cause__
        if cause is None:
            raise
        # A custom part, for one, may be missing on another machine.
        said = f"the executor cannot import '{cause.name}'. Install it wherever its processes run"
        raise EngineError(f"{said}, the scheduler's included, or put its folder on their PYTHONPATH.") from None
    finally:
        for future in futures:
            # Dask may still end a future that is cancelled, and would log a traceback.
            vars(future).update(set_result=bool, set_exception=bool)
            future.cancel()


def _remote(function: Callable[[Item], Found], wanted: dict[str, str], process: int, item: Item) -> Found:
    """Call a function in a worker, which must have the wanted versions."""
    if versions() != wanted:
        difference = first_difference(versions(), wanted)
        raise EngineError(f"a worker has other versions than this process: {difference}. Install the same ones.")
    if os.getppid() == process and (torch := sys.modules.get("torch")):
        # In a forked process the threads of its parent are missing, and a computation would wait for them.
        torch.set_num_threads(1)
    return function(item)


@contextmanager
def dask_executor(address: str | None) -> Iterator[Executor | None]:
    """The executor of the Dask cluster whose scheduler has the address tcp://HOST:PORT; None for this process."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        raise ConfigError("Dask is not installed. Try pip install 'prism-condense[dask]'.") from None
    try:
        # A client that is given no address fails half-built, and then cannot be closed.
        get_address_host_port(address)
        # A client only calls out: nothing here opens a port.
        client: Any = Client(address, timeout=20, set_as_default=False)
    except (OSError, ValueError) as error:
        raise EngineError(f"no Dask scheduler answers at '{address}': {error or type(error).__name__}.") from None
    with client:
        yield client.get_executor()


@contextmanager
def stop_signal() -> Iterator[threading.Event]:
    """Turn Ctrl-C and SIGTERM into an event that a loop looks at between two iterations.

    A second Ctrl-C stops at once. Outside the main thread signals are left alone.
    """
    stopped = threading.Event()

    def stop(number: int, frame: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stoppable(said: str) -> Iterator[None]:
    """End a block at once on Ctrl-C (in `prism` also on SIGTERM) with an Interrupted that has this sentence."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(said) from None


_HERE = threading.local()
"""Storage of each thread of `computing`: the event `stopped`."""


@contextmanager
def computing(run: Run, num: int, workers: int | None = None) -> Iterator[Executor | None]:
    """The executor of a run for `num` networks, or threads of this process; None where one thread computes them.

    One network keeps a GPU busy. On a CPU each network computes in one thread, so `workers` of them are computed
    side by side; by default as many as keep all cores busy. PyTorch releases Python's lock while it computes, so
    threads are as fast as processes, and share the clips. All end with the first error, or Ctrl-C.
    """
    import torch

    # The workers of an executor may have a device that this machine lacks.
    if run.executor is not None or (device := pick_device(run.device)).type != "cpu":
        yield run.executor
        return
    num = min(workers or workers_for(num, torch.get_num_threads()), num)
    if num == 1:
        yield None
        return
    stopped = threading.Event()
    # A thread inherits PyTorch's number of threads when it first computes, so it is 1 before the pool begins.
    # Each thread enters `deterministic` too, which then finds 1, and restores 1 while other threads still compute.
    pool = ThreadPoolExecutor(num, "prism-network", setattr, (_HERE, "stopped", stopped))
    with deterministic(device), pool:
        try:
            yield pool
        except BaseException:
            # Before the threads are waited for: Ctrl-C must not wait for the ends of their work.
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def workers_for(num_networks: int, num_threads: int) -> int:
    """Number of networks to train side by side: rounds of about equal size, no idle core; 3 on 2 cores are one."""
    rounds = max(1, num_networks // num_threads)
    return -(-num_networks // rounds)


def end_where_stopped(network: "torch.nn.Module") -> None:
    """Let a network raise Interrupted before its next layer once the thread of `computing` is stopped."""
    stopped: threading.Event | None = getattr(_HERE, "stopped", None)

    def go_on(*_: object) -> None:
        if stopped and stopped.is_set():
            raise Interrupted("stopped.")

    for module in network.modules():
        module.register_forward_pre_hook(go_on)
