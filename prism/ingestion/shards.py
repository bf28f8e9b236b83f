"""Decoding on an executor: neighbouring videos are one item, which is decoded into a file of its own."""

import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from prism.ingestion.pool import Pool
from prism.ingestion.task import Outcome, Task
from prism.machine.files import writing


@dataclass(frozen=True)
class Shard:
    """Videos whose slots lie side by side.

    Attributes:
        folder: where their file goes.
        tasks: the number and the task of each video; the offset in a task is that in the whole store.
        end: the byte behind their slots.
    """

    folder: Path
    tasks: tuple[tuple[int, Task], ...]
    end: int

    @property
    def start(self) -> int:
        """The byte where their slots start."""
        return self.tasks[0][1].offset


def decode_shard(shard: Shard) -> tuple[str, list[tuple[int, Outcome]]]:
    """Decode videos with one supervised process, like a run without an executor.

    Returns:
        The file of their slots, whole and on disk, and the number and outcome of each video.

    Raises:
        OutputError: it cannot be written.
    """
    # A name that nobody else has: a worker that was given up may still be writing what another one does again.
    path = shard.folder / f"{shard.tasks[0][0]:07}-{uuid.uuid4().hex}.u8"
    tasks = {n: replace(task, slots=str(path), offset=task.offset - shard.start) for n, task in shard.tasks}
    with writing(path, shard.end - shard.start):
        with path.open("wb") as file:
            file.truncate(shard.end - shard.start)
        with Pool(tasks.__getitem__, list(tasks), 1) as pool:
            outcomes = [result for result in pool.results() if result is not None]
        # Windows syncs only files that are open for writing.
        with path.open("r+b") as file:
            os.fsync(file.fileno())
    return str(path), sorted(outcomes)
