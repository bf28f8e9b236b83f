"""Locks: one run at a time writes an output; the end of a process frees what it held."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from prism.errors import BusyError
from prism.machine.files import writing


def hold(descriptor: int, path: Path) -> None:
    """Keep other runs off an open file or folder until it is closed; the end of a process frees it.

    Raises:
        BusyError: another run holds it; its process is named where the system tells it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BusyError(
            f"another run is writing '{path}'{_holder(descriptor)}. Wait for it, or choose another output."
        ) from None
    except OSError:
        # A file system without locks: the user has to know how many runs there are.
        return


def _holder(descriptor: int) -> str:
    """` (process …)`, the one that holds an open file; empty where the system does not tell."""
    found = os.fstat(descriptor)
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with contextlib.suppress(OSError):
        # 1: FLOCK  ADVISORY  WRITE 15672 fe:00:2146339 0 EOF; those that wait have an arrow after the number.
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5] == place and int(fields[4]) > 0:
                return f" (process {fields[4]})"
    return ""


def lock_path(output: Path) -> Path:
    """The file that a run locks while it writes an output: hidden, beside it."""
    return output.with_name(f".{output.name}.lock")


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
    try:
        yield
    finally:
        # Before it is given up: a run that waits for nothing else must not lose its own.
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path, output: Path) -> int:
    while True:
        with writing(output):
            lock.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            hold(descriptor, output)
            # A run that has ended since the file was opened here took it along: what is held is no file any more.
            if lock.exists() and os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
