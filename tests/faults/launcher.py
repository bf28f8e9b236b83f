"""Real processes of the `prism` command that start at once, and can be killed at any moment."""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass

FORKS = multiprocessing.get_context("forkserver")
# Importing torch takes longer than a tiny run does; one process imports it, and forks another for each run.
FORKS.set_forkserver_preload(["pytest", "torch", "prism.cli", "prism.reports.page", "prism.ingestion.build"])


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code (minus the signal, if one killed it), what it printed, and its seconds."""

    code: int | None
    text: str
    seconds: float

    @property
    def killed(self) -> bool:
        """Whether the kill came before the end."""
        return self.code == -signal.SIGKILL


def run_prism(*arguments: object, kill_after: float | None = None) -> Ended:
    """Run `prism` with some arguments; SIGKILL ends it after so many seconds if it still runs."""
    with tempfile.NamedTemporaryFile("r", errors="replace") as printed:
        started = time.monotonic()
        process = FORKS.Process(target=_run, args=([str(word) for word in arguments], printed.name))
        process.start()
        process.join(kill_after)
        process.kill()
        process.join()
        return Ended(process.exitcode, printed.read(), time.monotonic() - started)


def _run(arguments: list[str], printed: str) -> None:
    import torch

    from prism.cli import main
    from prism.ingestion import build

    output = os.open(printed, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    torch.set_num_threads(1)
    # Every video is put on disk at once, so that a kill finds a journal to go on from.
    build.SYNC_SECONDS = 0.0
    sys.argv = ["prism", *arguments]
    main(arguments)
