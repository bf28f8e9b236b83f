"""Where independent items are computed: here, one after the other, or wherever an Executor puts them."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, as_completed
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def completed(
    executor: Executor | None, function: Callable[[Item], Found], items: Iterable[Item]
) -> Iterator[tuple[Item, Found]]:
    """Every item with what the function makes of it, as they come.

    What has not begun is given up when one of them fails, or when the caller wants no more.

    Args:
        executor: computes them side by side, in any order; None: here, in their order, each when it is asked for.
        function: does not depend on other items, nor on where it is called.
        items: hashable.
    """
    if executor is None:
        yield from ((item, function(item)) for item in items)
        return
    futures = {executor.submit(function, item): item for item in items}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()
