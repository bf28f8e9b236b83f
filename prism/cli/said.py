"""What the commands say to their user."""

import sys
from pathlib import Path

from prism.cli.options import Running
from prism.machine.files import lock, lock_path
from prism.reports.text import printable


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


def complain(text: str) -> None:
    """Print one line on stderr."""
    print(f"prism: {printable(text)}", file=sys.stderr)
