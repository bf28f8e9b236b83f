"""The program of a decoding process: `python -m prism.ingestion.worker` reads tasks and writes outcomes, as lines
of JSON.

It does without `multiprocessing`, so that a script without a main guard can ingest, nothing heavy is inherited,
and the video that killed a process is known.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from prism.errors import OutputError, VideoError
from prism.ingestion.decode import read_clips
from prism.ingestion.task import READY, Limits, Outcome, Task
from prism.machine.files import writing


def decode(task: Task) -> Outcome:
    """Write the clips of a video to their slots.

    Raises:
        OutputError: they cannot be written.
    """
    path = Path(task.path)
    try:
        found = read_clips(
            path,
            task.windows,
            task.sampling.num_frames,
            task.size,
            task.limits,
            task.root,
            whole=task.damaged == "skip",
        )
    except VideoError as error:
        return Outcome(reason=str(error))
    except OSError as error:
        return Outcome(reason=f"it cannot be read: {error.strerror}.")
    except MemoryError:
        return Outcome(reason="it takes more memory than there is, or than max_decode_bytes allows.")
    with writing(Path(task.slots)), open(task.slots, "r+b") as file:
        file.seek(task.offset)
        for clip in found.clips:
            file.write(clip.data)
    return Outcome(tuple(found.windows), found.video_frames, damage=found.damage)


def main() -> None:
    """Answer every task on stdin on stdout until stdin ends."""
    # Answers have a channel of their own: what a library prints must not be taken for one.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    print(READY, file=answers)
    for line in sys.stdin:
        task = Task.from_json(line)
        try:
            with _bounded(task.limits):
                answer = decode(task).to_dict()
        except OutputError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), file=answers)


@contextlib.contextmanager
def _bounded(limits: Limits) -> Iterator[None]:
    """Let the system keep the limits: what needs too much memory fails, what takes too long ends this process.

    A library that hangs or computes for hours comes to no line of Python: only the end of the process stops it.
    Windows has neither limit: there a video takes what it takes.
    """
    with contextlib.suppress(ImportError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        wanted = limits.max_decode_bytes if most == resource.RLIM_INFINITY else min(limits.max_decode_bytes, most)
        # macOS has the limit, but takes no number for it.
        resource.setrlimit(resource.RLIMIT_AS, (wanted, most))
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limits.max_decode_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    # The parent may be killed at any time; then nobody is left to answer.
    with contextlib.suppress(BrokenPipeError):
        main()
