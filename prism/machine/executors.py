"""Computation of independent items, in this process or by an executor.

An executor is any `concurrent.futures.Executor`, whose threads, processes or machines see the same files. The
function that it calls must be one that can be pickled.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, as_completed
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from prism.errors import ConfigError, EngineError
from prism.machine.provenance import versions
from prism.machine.text_io import first_difference

Item = TypeVar("Item")
Found = TypeVar("Found")
AGAIN = "Run the same command again to go on."


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
    futures = {executor.submit(remote, item): item for item in items}
    try:
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
        raise EngineError(
            f"the executor cannot import '{cause.name}'. Install it wherever its processes run, the scheduler's "
            "included, or put its folder on their PYTHONPATH."
        ) from None
    finally:
        for future in futures:
            # Dask may still end a future that is cancelled, and would log a traceback.
            vars(future).update(set_result=bool, set_exception=bool)
            future.cancel()


def _remote(function: Callable[[Item], Found], wanted: dict[str, str], process: int, item: Item) -> Found:
    """The function in another process, which refuses to compute under other versions."""
    if versions() != wanted:
        difference = first_difference(versions(), wanted)
        raise EngineError(f"a worker has other versions than this process: {difference}. Install the same ones.")
    if os.getppid() == process and (torch := sys.modules.get("torch")):
        # In a forked process the threads of its parent are missing, and a computation would wait for them.
        torch.set_num_threads(1)
    return function(item)


@contextmanager
def opened(address: str | None) -> Iterator[Executor | None]:
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
        # No heartbeat or log of ours opens a port: a client only calls.
        client: Any = Client(address, timeout=20, set_as_default=False)
    except (OSError, ValueError) as error:
        raise EngineError(f"no Dask scheduler answers at '{address}': {error or type(error).__name__}.") from None
    with client:
        yield client.get_executor()
