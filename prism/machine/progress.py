"""Progress of the long stages, and notes to the user; both on stderr."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prism.machine.text_io import printable

LINE_SECONDS, BAR_SECONDS = 60.0, 0.1
"""Seconds between two lines where stderr is no terminal, and between two states of one line where it is."""
CLEARED = "\r\x1b[K"
Advance = Callable[..., None]
"""Moves a bar forward by a number of steps, 1 by default; keyword values are shown after the time left."""


def no_progress(steps: int = 1, /, **shown: object) -> None:
    """Move no bar."""


def is_watched() -> bool:
    """Whether stderr is read while it is written, on a terminal or in a notebook."""
    return _is_terminal() or "ipykernel" in sys.modules


def _is_terminal() -> bool:
    # A program without a console has no stderr, and a logger in its place may be no file.
    return bool(getattr(sys.stderr, "isatty", bool)())


@contextmanager
def progress_bar(
    what: str, total: int | None, unit: str, *, enabled: bool = True, done: int = 0
) -> Iterator[Advance]:
    """Show how much of `total` (None: unknown) is done: in one line of a terminal, elsewhere in a line a minute.

    The block gets a function to call with the steps that are done since the last call, from any thread. The rate
    leaves out the `done` steps of an earlier run.
    """
    if not enabled:
        yield no_progress
        return
    lock, started, is_terminal = threading.Lock(), time.monotonic(), _is_terminal()
    reached, said, values = done, started, dict[str, object]()

    def state(seconds: float) -> str:
        parts, rate = [f"{what}: {reached:,}"], (reached - done) / max(seconds, 1e-9)
        parts[0] += f" {unit}" if total is None else f" of {total:,} {unit}"
        if total is not None and rate:
            left = (total - reached) / rate
            parts.append(f"{left / 60:,.0f} min left" if left >= 90 else f"{left:.0f} s left")
        parts += [f"{rate:.3g} {unit}/s"] if rate else []
        return ", ".join([*parts, *(f"{name} {value}" for name, value in values.items())])

    def draw(text: str) -> None:
        # What does not fit is left out: rate and values come behind the count and the time left.
        while len(text) >= shutil.get_terminal_size().columns and ", " in text:
            text = text.rpartition(", ")[0]
        print(f"{CLEARED}{text}", end="", file=sys.stderr, flush=True)

    def advance(steps: int = 1, /, **shown: object) -> None:
        nonlocal reached, said
        with lock:
            reached, now = reached + steps, time.monotonic()
            values.update(shown)
            if reached > done and now - said >= (BAR_SECONDS if is_terminal else LINE_SECONDS):
                said = now
                (draw if is_terminal else note)(state(now - started))

    if is_terminal:
        draw(state(0))
    try:
        yield advance
    finally:
        if is_terminal:
            draw(state(time.monotonic() - started))
            print(file=sys.stderr)


def note(text: str, *, enabled: bool = True) -> None:
    """Print a line on stderr, above a progress bar if one is drawn."""
    if enabled and text and sys.stderr is not None:
        print(f"{CLEARED if _is_terminal() else ''}{printable(text)}", file=sys.stderr, flush=True)
