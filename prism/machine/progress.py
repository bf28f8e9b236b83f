"""One progress bar for all stages: count, rate and time left; in a log or a notebook a line a minute."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn


LINE_SECONDS = 60.0
"""Between two lines where no bar can be drawn."""


class Advance(Protocol):
    """Moves a bar forward; keyword values are shown after the time left."""

    def __call__(self, steps: int = 1, /, **shown: object) -> None: ...


def no_progress(steps: int = 1, /, **shown: object) -> None:
    """Move no bar."""


@contextmanager
def progress_bar(
    what: str, total: int | None, unit: str, *, enabled: bool = True, done: int = 0
) -> Iterator[Advance]:
    """Draw a progress bar on stderr while the block runs; where that is no terminal, write a line a minute.

    Args:
        what: a word for the stage, e.g. `Decoding`.
        total: steps of the whole stage; None where that is unknown.
        unit: plural of a step, e.g. `videos`.
        enabled: whether to show anything at all.
        done: steps of an earlier run, which do not count for the rate.

    Yields:
        A function to call with the number of steps done since the last call, from any thread.
    """
    if not enabled:
        yield no_progress
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with _drawn(console, what, total, unit, done) as advance:
            yield advance
    else:
        yield _in_lines(what, total, unit, done)


@contextmanager
def _drawn(console: "Console", what: str, total: int | None, unit: str, done: int) -> Iterator[Advance]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns: list[ProgressColumn] = [
        TextColumn("{task.description}"),
        # On 80 columns the count, the rate and the time left come before the width of the bar.
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[shown]}", markup=False),
    ]
    # An epoch may take longer than the half minute that Rich looks back for the rate.
    with Progress(*columns, console=console, speed_estimate_period=600) as bar:
        task = bar.add_task(what, total=total, completed=done, rate="", shown="")

        def advance(steps: int = 1, /, **shown: object) -> None:
            speed = bar.tasks[0].speed
            rate = f"{speed:.1f} {unit}/s" if speed else ""
            text = "  ".join(f"{name} {value}" for name, value in shown.items()) or bar.tasks[0].fields["shown"]
            bar.update(task, advance=steps, rate=rate, shown=text)

        yield advance


def _in_lines(what: str, total: int | None, unit: str, done: int) -> Advance:
    lock, started = threading.Lock(), time.monotonic()
    reached, said = done, started

    def advance(steps: int = 1, /, **shown: object) -> None:
        nonlocal reached, said
        with lock:
            reached, now = reached + steps, time.monotonic()
            if now - said < LINE_SECONDS or reached == done:
                return
            said, text = now, f"{what}: {reached:,} {unit}"
            if total is not None:
                left = (total - reached) * (now - started) / (reached - done)
                text = f"{what}: {reached:,} of {total:,} {unit}, about {round(left / 60):,} min left"
        note(text)

    return advance


def note(text: str, *, enabled: bool = True) -> None:
    """Print a line on stderr, above a progress bar if one is drawn."""
    if enabled and text:
        from rich.console import Console

        Console(stderr=True, soft_wrap=True).print(text, markup=False, highlight=False)
