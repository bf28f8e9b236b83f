"""The folder of an unfinished store: a slot on disk for every clip, and a journal of the videos that are done.

    .STORE.partial/plan.json        the plan: settings, and a digest of every source file's size and time
    .STORE.partial/journal.jsonl    a line for each video that is done, written after its frames are on disk
    .STORE.partial/slots-PLAN.u8    the clips of all videos in their final order, holes where a video fails

A run that finds the folder of the same plan goes on where the journal ends; another plan starts again. At the end
the files of the store are written beside these, which go, and the folder gets the name of the store.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from prism.artifacts.kinds import typed
from prism.artifacts.store import ENTRIES
from prism.errors import OutputError
from prism.ingestion.decode import Outcome
from prism.machine.files import sync_folder, write_synced, writing
from prism.machine.text_io import count, parse_json

SYNC_SECONDS = 3.0


class WorkingFolder:
    """The folder of an unfinished store: the one of the same plan that is there, or a new one.

    The run holds the lock of the store. `offsets` are those of `Plan`; `outcomes` are of the videos that are done,
    by their position; `restarted` says that an unfinished store of another plan was here.
    """

    def __init__(self, path: Path, plan: str, offsets: Sequence[int]) -> None:
        self.path, self.offsets, self.outcomes = path, offsets, dict[int, Outcome]()
        # A decoding process that outlived a killed run must not write into the slots of another plan.
        self.slots = path / f"slots-{hashlib.sha256(plan.encode()).hexdigest()[:16]}.u8"
        self.plan, self.journal = path / "plan.json", path / "journal.jsonl"
        self._waiting, self._synced = list[str](), time.monotonic()
        with writing(path):
            path.mkdir(exist_ok=True)
        is_same = self.plan.is_file() and self.plan.read_bytes() == plan.encode()
        self.restarted = self.plan.exists() and not is_same
        if is_same and self.slots.exists() and self.journal.exists():
            self._read_journal()
        else:
            self._begin(plan.encode())

    def _begin(self, plan: bytes) -> None:
        names = {entry.name for entry in self.path.iterdir()} - {self.plan.name, self.journal.name, *ENTRIES}
        if any(not re.fullmatch(r"slots-\w+\.u8", name) for name in names):
            raise OutputError(f"'{self.path}' is in the way, and no unfinished store. Move it away.")
        try:
            with writing(self.path, self.offsets[-1]):
                # The plan goes first, and comes last: it promises the other files.
                self.plan.unlink(missing_ok=True)
                for entry in self.path.iterdir():
                    entry.unlink()
                self.journal.touch()
                with self.slots.open("wb") as empty:
                    empty.truncate(self.offsets[-1])
                # A full disk shows now rather than later.
                if shutil.disk_usage(self.path).free < self.offsets[-1]:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                write_synced(self.plan, plan)
                sync_folder(self.path)
        except OutputError:
            self.remove()
            raise

    def _read_journal(self) -> None:
        """Take over the outcomes of an earlier run; a line that was cut off, and all after it, is dropped."""
        whole = 0
        for line in self.journal.read_bytes().splitlines(keepends=True):
            try:
                entry = parse_json(line.decode())
                video, outcome = count(entry["video"]), typed(Outcome, entry["outcome"])
            except (ValueError, KeyError, TypeError):
                break
            if not line.endswith(b"\n") or video >= len(self.offsets) - 1:
                break
            self.outcomes[video] = outcome
            whole += len(line)
        with writing(self.journal):
            os.truncate(self.journal, whole)

    def record(self, video: int, outcome: Outcome) -> None:
        """Note that a video is done, and put on disk what is done if `SYNC_SECONDS` have passed."""
        self.outcomes[video] = outcome
        self._waiting.append(json.dumps({"video": video, "outcome": asdict(outcome)}) + "\n")
        if time.monotonic() - self._synced >= SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Put the videos that are done on disk: the frames first, then the lines that promise them."""
        sync_slots(self.slots)
        with writing(self.journal), self.journal.open("a", encoding="utf-8") as file:
            file.writelines(self._waiting)
            file.flush()
            os.fsync(file.fileno())
        self._waiting.clear()
        self._synced = time.monotonic()

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def sync_slots(slots: Path) -> None:
    """Put what is written into the slots on disk."""
    with writing(slots), slots.open("r+b") as file:
        os.fsync(file.fileno())
