"""Real processes of the `prism` command that start at once, and can be killed at any moment.

Importing torch takes longer than a tiny run does. So one process imports it and forks another for each run:
`python launcher.py` answers a line of JSON with a line of JSON. It is the parent of the runs, so the process
that it kills is always the one that was meant.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code (minus the signal, if one killed it), what it printed, and its seconds."""

    code: int
    text: str
    seconds: float

    @property
    def killed(self) -> bool:
        """Whether the kill came before the end."""
        return self.code == -signal.SIGKILL


class Launcher:
    """Starts runs of `prism`, one after another, each in a process of its own."""

    def __enter__(self) -> "Launcher":
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        # A second thread that waits must not take the processor from another test.
        environment["OMP_WAIT_POLICY"] = "passive"
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        return self

    def run(self, *arguments: object, kill_after: float | None = None) -> Ended:
        """Run `prism` with some arguments; SIGKILL ends it after so many seconds if it still runs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.NamedTemporaryFile("r", errors="replace") as printed:
            order = {"arguments": [str(a) for a in arguments], "printed": printed.name, "kill_after": kill_after}
            print(json.dumps(order), file=self._process.stdin, flush=True)
            answer = json.loads(self._process.stdout.readline())
            return Ended(answer["code"], printed.read(), answer["seconds"])

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def serve() -> None:
    """Do every run that is ordered on stdin."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import torch

    import prism.reports.page  # noqa: F401 (and with it what draws plots)
    from prism.ingestion import working

    # Every video is put on disk at once, so that a kill finds a journal to go on from.
    working.SYNC_SECONDS = 0.0
    torch.set_num_threads(1)
    for line in sys.stdin:
        print(json.dumps(_do(**json.loads(line))), file=answers)


def _do(arguments: list[str], printed: str, kill_after: float | None) -> dict[str, float]:
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _become(arguments, printed)
    watch = os.pidfd_open(child)
    try:
        if not select.select([watch], [], [], kill_after)[0]:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(watch)
    return {"code": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - started}


def _become(arguments: list[str], printed: str) -> None:
    """Go on as a run of `prism` in a session of its own, and never come back."""
    import traceback

    import torch

    code = 1
    try:
        os.setsid()
        torch.set_num_threads(1)
        output = os.open(printed, os.O_WRONLY | os.O_TRUNC)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["prism", *arguments]
        from prism.cli import main

        main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.path = [entry for entry in sys.path if Path(entry) != Path(__file__).parent]
    serve()
