"""Ctrl-C and SIGTERM as a flag that a loop looks at between two iterations."""

import contextlib
import signal
import threading
from collections.abc import Iterator


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
