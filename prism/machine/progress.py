"""One progress bar for all stages: count, rate and time left, on a terminal only."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import ProgressColumn


class Advance(Protocol):
    """Moves a bar forward; keyword values are shown after the time left."""

    def __call__(self, steps: int = 1, **shown: object) -> None: ...


@contextmanager
def progress_bar(what: str, total: int, unit: str, *, enabled: bool = True, done: int = 0) -> Iterator[Advance]:
    """Draw a progress bar on stderr while the block runs.

    Args:
        what: a word for the stage, e.g. `Decoding`.
        total: steps of the whole stage.
        unit: plural of a step, e.g. `videos`; the rate is shown in it.
        enabled: whether to draw at all; a stderr that is no terminal gets nothing either.
        done: steps that an earlier run has done; they do not count for the rate.

    Yields:
        A function to call with the number of steps done since the last call.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not (enabled and console.is_terminal):
        # Rich would work out the rate after every step even if it never drew it.
        yield lambda steps=1, **shown: None
        return
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}"),
        # On 80 columns the count, the rate and the time left come before the width of the bar.
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[shown]}"),
    ]
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=total, completed=done, rate="", shown="")

        def advance(steps: int = 1, **shown: object) -> None:
            speed = bar.tasks[0].speed
            rate = f"{speed:.1f} {unit}/s" if speed else ""
            text = "  ".join(f"{name} {value}" for name, value in shown.items())
            bar.update(task, advance=steps, rate=rate, shown=text)

        yield advance


def note(text: str, *, enabled: bool = True) -> None:
    """Print a line on stderr, above a progress bar if one is drawn."""
    from rich.console import Console

    if enabled and text:
        Console(stderr=True, soft_wrap=True).print(text, markup=False, highlight=False)
