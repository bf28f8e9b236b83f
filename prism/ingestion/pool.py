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
Done = tuple[int, Outcome]


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
        num_workers = min(num_workers, len(numbers))
        self._left = len(numbers)
        self._keepers = [_Keeper() for _ in range(num_workers)]
        self._threads = [threading.Thread(target=self._serve, args=(keeper,)) for keeper in self._keepers]

    def __enter__(self) -> "Pool":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        for keeper in self._keepers:
            keeper.close()
        for thread in self._threads:
            thread.join()

    def results(self) -> Iterator[Done | None]:
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

    def _serve(self, keeper: "_Keeper") -> None:
        """One thread: keep one process busy until there are no more videos."""
        try:
            while not keeper.closed:
                number = self._numbers.get_nowait()
                try:
                    self._results.put((number, keeper.decode(self._task_of(number))))
                except Died as death:
                    self._results.put((number, death))
        except queue.Empty:
            pass
        except Exception as error:
            # The main thread raises it.
            self._results.put(error)
        finally:
            keeper.end()


class _Keeper:
    """Keeps one process alive, until it is closed from any thread."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self.closed = False

    def decode(self, task: Task) -> Outcome:
        """Decode, with a fresh process if the last one died.

        Raises:
            Died: the process has ended.
        """
        self.worker = self.worker or Worker()
        try:
            return self.worker.ask(task)
        except Died:
            self.worker = None
            raise

    def close(self) -> None:
        """Kill the process, whatever it is doing."""
        self.closed = True
        if self.worker is not None:
            self.worker.process.kill()

    def end(self) -> None:
        """Kill the process and wait for its end."""
        if self.worker is not None:
            self.worker.end()
