"""A disk that fails: the n-th time that a run opens a file to write, writes, syncs, renames or makes a folder.

Every byte that Python writes goes through `open` and the functions of `os` that are replaced here, below
Python's own buffers: so a write fails where a real one would, when a buffer is full, flushed or closed.
"""

import builtins
import errno
import io
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch


class FailingDisk:
    """Counts what happens to files under a folder while it is entered, and makes one of these operations fail.

    Args:
        root: the folder; everything else works as ever.
        fail_at: the number of the operation that fails, from 1 on; None lets all of them pass.
        error: `errno.EIO` fails once; a disk that is full, `errno.ENOSPC`, stays so until the end.
    """

    def __init__(self, root: Path, fail_at: int | None = None, error: int = errno.EIO) -> None:
        self.root, self.fail_at, self.error = root.resolve(), fail_at, error
        self.operations: list[str] = []

    def touch(self, what: str, path: str | os.PathLike[str]) -> None:
        """Count an operation on a path, and fail if its turn has come."""
        if not Path(os.path.abspath(path)).is_relative_to(self.root):
            return
        self.operations.append(f"{what} {os.path.relpath(path, self.root)}")
        past = len(self.operations) - (self.fail_at or math.inf)
        if past == 0 or (past > 0 and self.error == errno.ENOSPC):
            raise OSError(self.error, os.strerror(self.error))

    def __enter__(self) -> "FailingDisk":
        disk, plain_open = self, io.open

        class Raw(io.FileIO):
            def write(self, data: Any, /) -> int:
                disk.touch("write", self.name)
                return super().write(data)

            def truncate(self, size: int | None = None, /) -> int:
                disk.touch("truncate", self.name)
                return super().truncate(size)

        def open_failing(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **options: Any) -> IO[Any]:
            if isinstance(file, int) or not set(mode) & set("wax+"):
                return plain_open(file, mode, buffering, *args, **options)
            disk.touch("open", file)
            raw = Raw(os.fspath(file), mode.replace("b", "").replace("t", ""))
            file = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return file if "b" in mode else io.TextIOWrapper(file, *args, **options)

        self._patches = [patch.object(builtins, "open", open_failing), patch.object(io, "open", open_failing)]
        for name in ("fsync", "posix_fallocate"):
            self._patches.append(patch.object(os, name, self._before(name, getattr(os, name), is_descriptor=True)))
        for name in ("rename", "replace", "mkdir", "truncate"):
            self._patches.append(patch.object(os, name, self._before(name, getattr(os, name))))
        for each in self._patches:
            each.start()
        return self

    def _before(self, name: str, function: Callable[..., Any], is_descriptor: bool = False) -> Callable[..., Any]:
        def failing(file: Any, *args: Any, **options: Any) -> Any:
            # A folder that is there already is not made, whatever the disk.
            if name != "mkdir" or not os.path.isdir(file):
                self.touch(name, os.readlink(f"/proc/self/fd/{file}") if is_descriptor else file)
            return function(file, *args, **options)

        return failing

    def __exit__(self, *error: object) -> None:
        for each in self._patches:
            each.stop()
