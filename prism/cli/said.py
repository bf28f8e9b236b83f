"""What the commands say to their user."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from prism.cli.options import LOCAL, Running
from prism.machine.devices import pick_device
from prism.machine.files import lock, lock_path
from prism.recipes import recipe_tables
from prism.reports.text import printable

if TYPE_CHECKING:
    from prism.artifacts.condensed import CondensedSet


def say(text: str) -> None:
    """Print lines for the user; what would move the terminal's cursor or colours is spelled out."""
    print("\n".join(map(printable, text.split("\n"))), flush=True)


def wrote(output: Path, contents: str = "") -> None:
    """Say what a verb wrote."""
    say(f"Wrote {output}: {contents}." if contents else f"Wrote {output}.")


def resumes(run: Running, output: Path, *kept: Path) -> None:
    """Say that a run which is to be resumed begins anew, where none of the files is there that it would need.

    Raises:
        BusyError: another run is writing the output.
    """
    if run.resume and not any(path.exists() for path in kept):
        if lock_path(output).exists():
            # That of a run which has kept nothing yet is said alone; a dead one may have left it, too.
            with lock(output):
                pass
        say(f"Nothing of an earlier run of {output} is there to resume: starting from the beginning.")


def next_is(*words: object, run: Running = LOCAL) -> None:
    """Say the command to go on with, to be pasted, with the recipes of the run that have options of it.

    Where none has, and no GPU is there, it has recipe small: the paper's size takes hours of a CPU.
    """
    shared = [recipe for recipe in run.recipe or () if words[0] in recipe_tables(recipe)]
    if not shared and words[0] in recipe_tables("small") and pick_device("auto").type == "cpu":
        shared = ["small"]
    recipes = [word for recipe in shared for word in ("--recipe", recipe)]
    say(f"Next: {shlex.join(map(str, ('prism', *words, *recipes)))}")


def evaluate_next(made: "CondensedSet", output: Path, store: Path, run: Running) -> None:
    """Say how a set is evaluated, or how it is read where no command can."""
    from prism.artifacts.encodings import ENCODINGS

    if isinstance(encoding := made.encoding, ENCODINGS):
        return next_is("evaluate", output, "--data", store, "-o", output.with_suffix(".json"), run=run)
    load = f"prism.CondensedSet.load({str(output)!r}, encodings=[{type(encoding).__name__}])"
    say(f"Read it in Python: {load}. No command imports an encoding.")


def report_next(output: Path) -> None:
    """Say how a result becomes a page beside it."""
    page = output.parent / "page.html"
    next_is("report", output, "-o", page, *(["--overwrite"] if page.exists() else []))


def complain(text: str) -> None:
    """Print one line on stderr."""
    print(f"prism: {printable(text)}", file=sys.stderr)
