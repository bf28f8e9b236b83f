"""The processes that decode videos, as the main process sees them: each takes the next video, and a dead one is
replaced.

A video that ended its process is tried again after all others, alone: the fault may have been another video's,
which took all the memory. A thread waits for each process, so that the main thread is free to write the journal
and to hear signals.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from prism.errors import OutputError
from prism.ingestion.task import READY, Outcome, Task

COMMAND = (sys.executable, "-P", "-m", "prism.ingestion.worker")


class Died(Exception):
    """A decoding process ended while it had a video; the message says how."""

    @property
    def is_late(self) -> bool:
        """Whether it was ended because the video took too long: it would again."""
        return str(self) == "SIGALRM"

    def outcome(self, task: Task) -> Outcome:
        """The outcome of the video that ended the process."""
        if self.is_late:
            return Outcome(
                reason=f"decoding it takes longer than max_decode_seconds = {task.limits.max_decode_seconds:g}."
            )
        return Outcome(reason=f"decoding it ended its process ({self}).")


class Worker:
    """One decoding process."""

    def __init__(self) -> None:
        # The child finds this very package, however the parent found it.
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            # Ctrl-C goes to the parent's process group; the parent decides what it means. Each line is one
            # system's word for a group of one's own, and nothing on the other.
            process_group=0,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            env={**os.environ, "PYTHONPATH": path},
        )
        if self._line() != READY:
            raise RuntimeError(f"a decoding process did not start: {self.end()}.")

    def ask(self, task: Task) -> Outcome:
        """Have a video decoded.

        Raises:
            OutputError: its clips cannot be written.
            Died: the process has ended; the message says how.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            print(task.to_json(), file=self.process.stdin, flush=True)
        answer = self._line()
        if not answer:
            raise Died(self.end())
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


class Pool:
    """Decodes videos with several processes.

    Args:
        task_of: gives the task of the video of a number.
        numbers: the numbers of the videos, which come back with their outcomes.
        num_workers: processes, at least 1.
        tries_again: whether a video that ended its process gets another one.
    """

    def __init__(
        self,
        task_of: Callable[[int], Task],
        numbers: Sequence[int],
        num_workers: int,
        tries_again: bool = True,
    ) -> None:
        self._task_of, self._tries_again = task_of, tries_again
        self._numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in numbers:
            self._numbers.put(number)
        self._results: queue.SimpleQueue[tuple[int, Outcome | Died] | Exception] = queue.SimpleQueue()
        self._left = len(numbers)
        self._closed = False
        self._workers: list[Worker] = []
        self._threads = [threading.Thread(target=self._decode) for _ in range(min(num_workers, len(numbers)))]

    def __enter__(self) -> "Pool":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed = True
        for worker in tuple(self._workers):
            worker.process.kill()
        for thread in self._threads:
            thread.join()

    def results(self) -> Iterator[tuple[int, Outcome] | None]:
        """The outcomes as they come; None now and then, so that the caller can look around.

        Raises:
            OutputError: clips cannot be written.
        """
        again: list[int] = []
        while self._left:
            try:
                result = self._results.get(timeout=0.2)
            except queue.Empty:
                yield None
                continue
            if isinstance(result, Exception):
                raise result
            self._left -= 1
            number, outcome = result
            if isinstance(outcome, Outcome):
                yield number, outcome
            elif self._tries_again and not outcome.is_late:
                again.append(number)
            else:
                yield number, outcome.outcome(self._task_of(number))
        if again:
            with Pool(self._task_of, again, 1, tries_again=False) as alone:
                yield from alone.results()

    def _decode(self) -> None:
        """Have one video after the other decoded, with a fresh process where the last one died."""
        worker = None
        try:
            while not self._closed:
                number = self._numbers.get_nowait()
                if worker is None:
                    worker = Worker()
                    self._workers.append(worker)
                    if self._closed:  # `__exit__` may not have seen this process.
                        break
                try:
                    self._results.put((number, worker.ask(self._task_of(number))))
                except Died as death:
                    worker = None
                    self._results.put((number, death))
        except queue.Empty:
            pass
        except Exception as error:
            # The main thread raises it.
            self._results.put(error)
        finally:
            if worker is not None:
                worker.end()
