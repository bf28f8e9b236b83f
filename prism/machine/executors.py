"""Where independent items are computed: in this process, one after the other, or by an executor.

An executor is any `concurrent.futures.Executor`, whose threads, processes or machines see the same files. The
function that it calls must be one that can be pickled.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, as_completed
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from prism.errors import ConfigError, EngineError
from prism.machine.provenance import versions
from prism.machine.text_io import first_difference

Engine = Literal["local", "dask"]
Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True)
class _Travelling(Generic[Item, Found]):
    """A function for another process, which refuses to run there under other versions."""

    function: Callable[[Item], Found]
    versions: dict[str, str]
    process: int = field(default_factory=os.getpid)

    def __call__(self, item: Item) -> Found:
        if versions() != self.versions:
            difference = first_difference(versions(), self.versions)
            raise EngineError(
                f"a worker has other versions than this process: {difference}. Install the same ones."
            )
        if os.getppid() == self.process and (torch := sys.modules.get("torch")):
            # In a forked process the threads of its parent are missing, and a computation would wait for them.
            torch.set_num_threads(1)
        return self.function(item)


def completed(
    executor: Executor | None, function: Callable[[Item], Found], items: Iterable[Item]
) -> Iterator[tuple[Item, Found]]:
    """Every item with the result of a function for it, in the order in which they are done.

    Items that have not begun are cancelled when one fails, or when the generator is closed.

    Args:
        executor: computes the items side by side. None computes them here, in their order.
        function: gives the same for an item wherever and in whatever order it is called.
        items: hashable values.

    Raises:
        EngineError: the executor lost an item, or has other versions than this process.
    """
    if executor is None:
        yield from ((item, function(item)) for item in items)
        return
    travelling = _Travelling(function, versions())
    futures = {executor.submit(travelling, item): item for item in items}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    except (BrokenExecutor, CancelledError) as error:
        raise EngineError(f"the executor lost what it was to compute ({type(error).__name__}). {AGAIN}") from None
    except Exception as error:
        # An error of Dask, by name, because Dask need not be installed.
        if type(error).__name__ == "KilledWorker":
            raise EngineError(f"the worker of one item was lost again and again. {AGAIN}") from None
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


AGAIN = "Run the same command again to go on."


@contextlib.contextmanager
def opened(engine: str, address: str | None) -> Iterator[Executor | None]:
    """The executor of `dask`, whose scheduler has the address tcp://HOST:PORT; None for `local`, this process.

    Raises:
        ConfigError: the engine has no address, or an address has no engine.
        EngineError: the scheduler does not answer.
    """
    if engine == "local":
        if address is not None:
            raise ConfigError(f"address = '{address}', but the engine is local. Pass --engine dask.")
        yield None
        return
    if address is None:
        raise ConfigError("engine = 'dask', which needs the --address of its scheduler, as tcp://127.0.0.1:8786.")
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        raise ConfigError(
            "engine = 'dask' needs Dask, which is not installed. Try pip install 'prism-condense[dask]'."
        ) from None
    try:
        # A client that is given no address fails half-built, and then cannot be closed.
        get_address_host_port(address)
        # No heartbeat or log of ours opens a port: a client only calls.
        client: Any = Client(address, timeout=20, set_as_default=False)
    except (OSError, ValueError) as error:
        raise EngineError(f"no Dask scheduler answers at '{address}': {error or type(error).__name__}.") from None
    with client:
        yield client.get_executor()
