"""Locks: one run at a time writes an output; the end of a process frees what it held."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from prism.errors import BusyError
from prism.machine.files import hidden_beside, writing

BEHIND_ALL = 2**62
"""The byte of a file that is locked on Windows: no file is so long, and nobody may read a byte that is locked."""

_CLAIMED = set[int]()
"""The open files by which this process keeps others off."""


def _leave_to_parent() -> None:
    """Close them in a process that was forked: while it has them open, the end of its parent frees nothing."""
    while _CLAIMED:
        os.close(_CLAIMED.pop())


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_leave_to_parent)


def hold(descriptor: int, path: Path) -> None:
    """Keep other runs off an open file until it is closed; the end of a process frees it.

    Raises:
        BusyError: another run holds it; its process is named where the system tells it.
    """
    try:
        _lock(descriptor)
    except BlockingIOError:
        raise BusyError(
            f"another run is writing '{path}'{_holder(descriptor)}. Wait for it, or choose another output."
        ) from None
    except (OSError, ImportError):
        # A file system or a platform without locks: the user has to know how many runs there are.
        return


def _lock(descriptor: int) -> None:
    """Lock an open file, or raise BlockingIOError if another run has locked it."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    import msvcrt

    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, BEHIND_ALL, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except PermissionError:
        raise BlockingIOError from None
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)


def _holder(descriptor: int) -> str:
    """` (process …)` with the process that holds an open file; empty where the system does not tell."""
    with contextlib.suppress(OSError):
        locks = Path("/proc/locks").read_text().splitlines()
        found = os.fstat(descriptor)
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        # 1: FLOCK  ADVISORY  WRITE 15672 fe:00:2146339 0 EOF; those that wait have an arrow after the number.
        for fields in map(str.split, locks):
            if fields[1] == "FLOCK" and fields[5] == place and int(fields[4]) > 0:
                return f" (process {fields[4]})"
    return ""


def lock_path(output: Path) -> Path:
    """The file that a run locks while it writes an output: hidden, beside it."""
    return hidden_beside(output, "lock")


@contextlib.contextmanager
def claim(output: str | Path | None) -> Iterator[None]:
    """Keep other runs off an output while the block runs; the end of a process gives it up.

    Args:
        output: a file or folder to be written; None claims nothing.

    Raises:
        OutputError: another run has claimed it, or its folder cannot be written.
    """
    if output is None:
        yield
        return
    lock = lock_path(Path(output))
    descriptor = _locked(lock, Path(output))
    _CLAIMED.add(descriptor)
    try:
        yield
    finally:
        # A process that was forked meanwhile has claimed nothing.
        if descriptor in _CLAIMED:
            _CLAIMED.remove(descriptor)
            _give_up(lock, descriptor)


def _give_up(lock: Path, descriptor: int) -> None:
    if sys.platform == "win32":
        # No open file can be removed there: neither this one nor that of a run which has just opened it.
        os.close(descriptor)
        with contextlib.suppress(PermissionError):
            lock.unlink(missing_ok=True)
    else:
        # While it is still locked: afterwards it may be the lock of another run.
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path, output: Path) -> int:
    while True:
        with writing(output):
            lock.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            hold(descriptor, output)
            # A run that has ended since the file was opened here has removed it: a lock on it locks nothing.
            if lock.exists() and os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
