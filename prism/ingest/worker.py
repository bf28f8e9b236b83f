"""A process that decodes videos: `python -m prism.ingest.worker`, a line of JSON in and out for each.

It is a process of its own kind rather than one of `multiprocessing`, so that a script without a main
guard can ingest, nothing heavy is inherited, and the video that killed a process is known.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

from prism.errors import OutputError, VideoError
from prism.ingest.decode import frame_rate, read_clips
from prism.ingest.sampling import Window
from prism.ingest.task import READY, Outcome, Task
from prism.runtime import writing


def decode(task: Task) -> Outcome:
    """Write the clips of a video to their slots.

    Raises:
        OutputError: they cannot be written.
    """
    path = Path(task.path)

    def choose(video_frames: int) -> list[Window]:
        return task.windows(video_frames, lambda: frame_rate(path))

    try:
        video_frames, windows, clips = read_clips(path, choose, task.num_frames, task.size)
    except VideoError as error:
        return Outcome(reason=str(error))
    except OSError as error:
        return Outcome(reason=f"it cannot be read: {error.strerror}.")
    except MemoryError:
        return Outcome(reason="it takes more memory than there is.")
    with writing(Path(task.slots)), open(task.slots, "r+b") as file:
        file.seek(task.offset)
        for clip in clips:
            file.write(clip.data)
    return Outcome(tuple(windows), video_frames)


def main() -> None:
    """Answer every task on stdin on stdout until stdin ends."""
    # Answers have a channel of their own: what a library prints must not be taken for one.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    print(READY, file=answers)
    for line in sys.stdin:
        print(_answer(line), file=answers)


def _answer(line: str) -> str:
    try:
        return json.dumps(decode(Task.from_json(line)).to_dict())
    except OutputError as error:
        return json.dumps({"error": str(error)})


if __name__ == "__main__":
    # The parent may be killed at any time; then nobody is left to answer.
    with contextlib.suppress(BrokenPipeError):
        main()
