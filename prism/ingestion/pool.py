"""Decoding of videos in parallel processes: each takes the next video, and a dead process is replaced.

The pools of `multiprocessing`, `concurrent.futures` and `pebble` import the main module in every process, so that
a script without a main guard runs twice, or fork a process that has threads and a GPU. Here each process is
`python -m prism.ingestion.pool`, which inherits nothing, reads tasks and writes outcomes as lines of JSON. A video
whose process dies is tried once more in a new process: another video may have taken all the memory.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

from prism.errors import OutputError, VideoError
from prism.ingestion.decode import Outcome, read_clips
from prism.ingestion.options import IngestConfig
from prism.ingestion.sampling import choose_windows
from prism.machine.executors import completed
from prism.machine.files import sync, writing
from prism.machine.text_io import as_text, reason, typed

COMMAND = (sys.executable, "-P", "-m", "prism.ingestion.pool")
READY = "ready"
SHARD_VIDEOS, WAITING_VIDEOS = 16, 4096
"""Videos in one item of an executor; and videos queued here at a time, each in 2 kB of memory."""


@dataclass(frozen=True)
class Task:
    """One video to decode, and the place of its clips: the path of the slots file, and the first byte in it."""

    number: int
    path: str
    relative: str
    split: str
    slots: str
    offset: int
    config: IngestConfig


def decode(task: Task) -> Outcome:
    """Decode a video, write its clips to its slots, and return its outcome."""
    path, config = Path(task.path), task.config
    # A frame that is a link may not lead out of the source.
    root = path.anchor if config.follow_links else path.parents[task.relative.count("/")]
    choose, is_strict = partial(choose_windows, config, task.relative, task.split), config.damaged == "skip"
    try:
        outcome, clips = read_clips(path, choose, config.num_frames, config.size, Path(root), whole=is_strict)
    except VideoError as error:
        return Outcome(reason=as_text(str(error)))
    except OSError as error:
        return Outcome(reason=f"it cannot be read: {reason(error)}.")
    except MemoryError:
        return Outcome(reason="it takes more memory than there is, or than max_decode_bytes allows.")
    with writing(Path(task.slots)), open(task.slots, "r+b") as file:
        file.seek(task.offset)
        for clip in clips:
            file.write(clip.data)
    return outcome


def main() -> None:
    """Read tasks from stdin until it ends, and write the outcome of each to stdout.

    The operating system enforces the limits: too much memory raises a MemoryError, and too much time ends this
    process, because a library that hangs returns to no line of Python.
    """
    # Outcomes have a file descriptor of their own, because a library may print to stdout.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    print(READY, file=answers)
    for line in sys.stdin:
        values = json.loads(line)
        task = Task(**values | {"config": IngestConfig(**values["config"])})
        # macOS accepts no number for this limit, and a lower limit may be set already.
        with contextlib.suppress(ValueError):
            most = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (task.config.max_decode_bytes, most))
        signal.setitimer(signal.ITIMER_REAL, task.config.max_decode_seconds)
        try:
            answer = asdict(decode(task))
        except OutputError as error:
            answer = {"error": str(error)}
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(answer), file=answers)


class Worker:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            # Ctrl-C reaches the parent's process group alone; the parent ends this process.
            process_group=0,
            # The child finds this very package, however the parent found it.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        )
        self.tasks, self.answers = cast(IO[str], self.process.stdin), cast(IO[str], self.process.stdout)
        if self._line() != READY:
            raise RuntimeError(f"a decoding process did not start: {self.end()}.")

    def ask(self, task: Task) -> Outcome | str:
        """Send a task and wait: the outcome of its video, or the signal or exit code of a process that ended."""
        with contextlib.suppress(OSError, ValueError):
            print(json.dumps(asdict(task)), file=self.tasks, flush=True)
        if not (answer := self._line()):
            return self.end()
        message = json.loads(answer)
        if "error" in message:
            raise OutputError(message["error"])
        return typed(Outcome, message)

    def _line(self) -> str:
        line = self.answers.readline()
        return line.strip() if line.endswith("\n") else ""

    def end(self) -> str:
        """Signal or exit code of the process, which is killed if it still runs."""
        self.process.kill()
        code = self.process.wait()
        for pipe in (self.tasks, self.answers):
            with contextlib.suppress(OSError):
                pipe.close()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def decode_all(tasks: Sequence[Task], workers: int | Executor) -> Generator[tuple[int, Outcome]]:
    """Number and outcome of each video in order of completion, decoded by `workers` processes or an executor."""
    if not isinstance(workers, int):
        # An abandoned worker may still run: it writes the same bytes to the same slots as its successor.
        shards = [tuple(tasks[k : k + SHARD_VIDEOS]) for k in range(0, len(tasks), SHARD_VIDEOS)]
        for _, outcomes in completed(workers, _decode_shard, shards):
            yield from outcomes
        return
    own, started, is_closed = threading.local(), list[Worker](), threading.Event()

    def decode_one(task: Task) -> Outcome:
        found = ""
        for _ in range(2):
            if (worker := getattr(own, "worker", None)) is None:
                worker = own.worker = Worker()
                started.append(worker)
            found = "" if is_closed.is_set() else worker.ask(task)
            if isinstance(found, Outcome):
                return found
            own.worker = None
            if found == "SIGALRM":
                most = f"max_decode_seconds = {task.config.max_decode_seconds:g}"
                return Outcome(reason=f"decoding it takes longer than {most}.")
            if is_closed.is_set():
                break
        return Outcome(reason=f"decoding it ended its process ({found}).")

    threads = ThreadPoolExecutor(workers)
    try:
        for first in range(0, len(tasks), WAITING_VIDEOS):
            for task, outcome in completed(threads, decode_one, tasks[first : first + WAITING_VIDEOS]):
                yield task.number, outcome
    finally:
        is_closed.set()
        # Each thread waits for its process, so the processes end first.
        for worker in tuple(started):
            worker.process.kill()
        threads.shutdown(cancel_futures=True)
        for worker in started:
            worker.end()


def _decode_shard(shard: Sequence[Task]) -> list[tuple[int, Outcome]]:
    outcomes = list(decode_all(shard, 1))
    with writing(slots := Path(shard[0].slots)):
        sync(slots)
    return outcomes


if __name__ == "__main__":
    # The parent may be killed at any time; then no process reads the outcome.
    with contextlib.suppress(BrokenPipeError):
        main()
