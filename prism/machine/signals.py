"""Ctrl-C and SIGTERM: as a flag that a loop looks at between two iterations, or as an error with one sentence."""

import contextlib
import signal
import threading
from collections.abc import Iterator

from prism.errors import Interrupted


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
    """End a block at once on Ctrl-C or SIGTERM, where what is done is kept as it goes.

    Args:
        said: the sentence; None leaves signals alone, as they are outside the main thread.

    Raises:
        Interrupted: the block was ended.
    """
    if said is None:
        yield
        return
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler) if is_main else None
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(said) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
