"""Decoding videos in processes of their own: each takes the next video, and a dead one is replaced.

No library's pool does it: those of `multiprocessing`, `concurrent.futures` and `pebble` import the main module in
every process, so that a script without a main guard runs twice, or fork one that has threads and a GPU. Here
`python -m prism.ingestion.pool` reads tasks, writes outcomes as lines of JSON, and inherits nothing. The video
that ended it is known, and tried again after all others, alone: another video may have taken all the memory.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from prism.errors import OutputError, VideoError
from prism.ingestion.decode import Outcome, read_clips
from prism.ingestion.listing import VideoSource
from prism.ingestion.options import IngestConfig
from prism.ingestion.sampling import choose_windows
from prism.ingestion.working import sync_slots
from prism.machine.files import writing

COMMAND = (sys.executable, "-P", "-m", "prism.ingestion.pool")
READY = "ready"
"""The first line of a decoding process."""


@dataclass(frozen=True)
class Task:
    """One video to decode, and where its clips go: the file of slots, and the byte in it."""

    path: str
    relative: str
    split: str
    slots: str
    offset: int
    config: IngestConfig

    @classmethod
    def of(cls, video: VideoSource, config: IngestConfig, slots: Path, offset: int) -> "Task":
        return cls(str(video.path.absolute()), video.relative, video.split, str(slots), offset, config)


def decode(task: Task) -> Outcome:
    """Write the clips of a video to their slots."""
    path, config = Path(task.path), task.config
    # Frames may not lead out of the source by a link.
    root = path.anchor if config.follow_links else path.parents[task.relative.count("/")]
    try:
        outcome, clips = read_clips(
            path,
            lambda count, runs, rate: choose_windows(config, count, task.relative, task.split, rate, runs),
            config.num_frames,
            config.size,
            Path(root),
            whole=config.damaged == "skip",
        )
    except VideoError as error:
        return Outcome(reason=str(error))
    except OSError as error:
        return Outcome(reason=f"it cannot be read: {error.strerror}.")
    except MemoryError:
        return Outcome(reason="it takes more memory than there is, or than max_decode_bytes allows.")
    with writing(Path(task.slots)), open(task.slots, "r+b") as file:
        file.seek(task.offset)
        for clip in clips:
            file.write(clip.data)
    return outcome


def main() -> None:
    """Answer every task on stdin on stdout until stdin ends."""
    # Answers have a channel of their own: what a library prints must not be taken for one.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    print(READY, file=answers)
    config_of = lru_cache(IngestConfig)
    for line in sys.stdin:
        values = json.loads(line)
        task = Task(**values | {"config": config_of(**values["config"])})
        try:
            with _bounded(task):
                answer = decode(task).to_dict()
        except OutputError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), file=answers)


@contextlib.contextmanager
def _bounded(task: Task) -> Iterator[None]:
    """Let the system keep the limits: what needs too much memory fails, what takes too long ends this process.

    A library that hangs or computes for hours comes to no line of Python: only the end of the process stops it.
    Windows has neither limit: there a video takes what it takes.
    """
    with contextlib.suppress(ImportError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        wanted = task.config.max_decode_bytes
        wanted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        # macOS has the limit, but takes no number for it.
        resource.setrlimit(resource.RLIMIT_AS, (wanted, most))
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, task.config.max_decode_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Worker:
    """One decoding process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            # Ctrl-C goes to the parent's process group; the parent decides what it means. Each line is one
            # system's word for a group of one's own, and nothing on the other.
            process_group=0,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            # The child finds this very package, however the parent found it.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        )
        if self._line() != READY:
            raise RuntimeError(f"a decoding process did not start: {self.end()}.")

    def ask(self, task: Task) -> Outcome | str:
        """Have a video decoded; where that ends the process, how it ended."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            print(json.dumps(asdict(task)), file=self.process.stdin, flush=True)
        answer = self._line()
        if not answer:
            return self.end()
        message = json.loads(answer)
        if "error" in message:
            raise OutputError(message["error"])
        return Outcome.from_dict(message)

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return line.strip() if line.endswith("\n") else ""

    def end(self) -> str:
        """Kill the process if it still runs, and say how it ended."""
        self.process.kill()
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def decode_all(
    task_of: Callable[[int], Task], numbers: Sequence[int], num_workers: int, tries_again: bool = True
) -> Generator[tuple[int, Outcome] | None]:
    """Decode videos with several processes: outcomes as they come, and None now and then, to look around.

    Raises:
        OutputError: clips cannot be written.
    """
    own, workers, again, is_closed = threading.local(), [], [], threading.Event()
    results: queue.SimpleQueue[Future[tuple[int, Outcome | str]]] = queue.SimpleQueue()

    def decode_one(number: int) -> tuple[int, Outcome | str]:
        if getattr(own, "worker", None) is None:
            own.worker = Worker()
            workers.append(own.worker)
        found = "" if is_closed.is_set() else own.worker.ask(task_of(number))
        if isinstance(found, str):
            own.worker = None
        return number, found

    with ThreadPoolExecutor(num_workers) as threads:
        try:
            for number in numbers:
                threads.submit(decode_one, number).add_done_callback(results.put)
            left = len(numbers)
            while left:
                try:
                    number, found = results.get(timeout=0.2).result()
                except queue.Empty:
                    yield None
                    continue
                left -= 1
                if isinstance(found, Outcome):
                    yield number, found
                elif found == "SIGALRM":
                    most = f"max_decode_seconds = {task_of(number).config.max_decode_seconds:g}"
                    yield number, Outcome(reason=f"decoding it takes longer than {most}.")
                elif tries_again:
                    again.append(number)
                else:
                    yield number, Outcome(reason=f"decoding it ended its process ({found}).")
        finally:
            is_closed.set()
            # The threads wait for their processes.
            for worker in tuple(workers):
                worker.process.kill()
            threads.shutdown(cancel_futures=True)
            for worker in workers:
                worker.end()
    if again:
        yield from decode_all(task_of, again, 1, tries_again=False)


def decode_shard(shard: Sequence[tuple[int, Task]]) -> list[tuple[int, Outcome]]:
    """Decode videos of one file of slots with one supervised process, and put them on disk."""
    tasks = dict(shard)
    outcomes = [result for result in decode_all(tasks.__getitem__, list(tasks), 1) if result is not None]
    sync_slots(Path(shard[0][1].slots))
    return outcomes


if __name__ == "__main__":
    # The parent may be killed at any time; then nobody is left to answer.
    with contextlib.suppress(BrokenPipeError):
        main()
