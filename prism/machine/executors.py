"""Where independent items are computed: in this process, one after the other, or by an executor.

An executor is any `concurrent.futures.Executor`. It calls one function with one item at a time, in other threads,
processes or machines, which see the same files. The function must be one that can be pickled: it stands at the top
of a module, or is an object of a class that does.
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
"""Where the items of a verb are computed."""

_parent = 0
"""The process that this one was forked from; 0 for one that was not."""


def _remember_parent() -> None:
    global _parent
    _parent = os.getppid()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_remember_parent)

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
        if _parent == self.process and (torch := sys.modules.get("torch")):
            # Its threads did not come along, and the first computation would wait for them for ever.
            torch.set_num_threads(1)
        return self.function(item)


def completed(
    executor: Executor | None, function: Callable[[Item], Found], items: Iterable[Item]
) -> Iterator[tuple[Item, Found]]:
    """Every item with the result of a function for it, in the order in which they are done.

    Items that have not begun are given up when one fails, or when the caller stops asking.

    Args:
        executor: computes the items side by side. None computes them here, in their order, each when it is asked
            for.
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
        if module := _missing_module(error):
            raise EngineError(
                f"the executor cannot import '{module}'. Install it wherever its processes run, the scheduler's "
                "included, or put its folder on their PYTHONPATH."
            ) from None
        raise
    finally:
        for future in futures:
            # Dask may still end a future that is cancelled, and would log a traceback.
            vars(future).update(set_result=_ignored, set_exception=_ignored)
            future.cancel()


def _ignored(outcome: object) -> None:
    """What nobody waits for."""


def _missing_module(error: BaseException | None) -> str | None:
    """The module whose absence caused an error, as a part of your own may be missing on another machine."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError):
            return error.name
        error = error.__cause__
    return None


AGAIN = "Run the same command again to go on."


@contextlib.contextmanager
def opened(engine: str, address: str | None) -> Iterator[Executor | None]:
    """The executor of an engine; None for `local`, where everything is computed in this process.

    Args:
        engine: `local` or `dask`.
        address: the scheduler of a Dask cluster, as in tcp://127.0.0.1:8786. It gives the item of a lost worker
            to another one.

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
