"""The `prism` command. The only place that parses arguments or prints results."""

import errno
import io
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from cyclopts import CycloptsError, UnknownOptionError, UnusedCliTokensError

from prism.cli import verbs
from prism.cli.commands import app, verbs_with
from prism.errors import AGAIN, PrismError
from prism.machine.devices import keep_freed_memory, set_environment
from prism.machine.text_io import printable

__all__ = ["app", "main", "run", "verbs"]


def run(command: Callable[[], Any]) -> int:
    """Run a command; an error that a user caused becomes one sentence on stderr and an exit code."""
    try:
        command()
        return 0
    except PrismError as error:
        text, code = str(error), error.exit_code
    except UnusedCliTokensError as error:
        text, code = f"'{' '.join(error.unused_tokens or [])}' belongs to no option: most take one value.", 2
    except CycloptsError as error:
        text, code = " ".join(str(error).split()).replace("requires an argument", "is missing"), 2
        if isinstance(error, UnknownOptionError) and (others := verbs_with(error.token.keyword or "")):
            text = f"{error.token.keyword} is an option of prism {', '.join(others)}, not of this verb."
    except KeyboardInterrupt:
        text, code = f"interrupted. {AGAIN}", 130
    except BrokenPipeError:
        # The reader of our output has closed it, such as `| head`; the unread rest must not raise at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        text, code = f"'{error.filename or 'standard output'}' cannot be used: {error.strerror}.", 1
    print(f"prism: {printable(text)}", file=sys.stderr)
    return code


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the `prism` command."""
    if arguments is None:
        # Threads that condense a batch in parallel would each keep the memory that they free.
        keep_freed_memory(in_one_pool=sys.argv[1:2] == ["condense"])
        set_environment()
        # SIGTERM ends a verb like Ctrl-C, so that it tidies up; a verb that can be resumed handles both itself.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # The terminal's encoding may lack a character such as ±, which must not fail a finished run.
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(lambda: app(given, exit_on_error=False, print_error=False)))
