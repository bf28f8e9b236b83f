"""Files and folders that appear whole or not at all, whatever fails while they are written."""

import contextlib
import errno
import hashlib
import os
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from filelock import FileLock, Timeout

from prism.errors import BusyError, OutputError

ELSEWHERE = "Choose an output in a folder of your own."
PARTIAL = ".{}.partial"
OLDER = ".{}.prism-old"  # Removed without a question, so its name is one that no other program gives.


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def beside(path: Path, name: str) -> Path:
    """The path `name` beside an output, where `{}` is the name of the output; an output such as `.` is refused."""
    if not path.name:
        raise OutputError(f"output '{path}' is a folder that is there. Name a file or a folder in it.")
    return path.with_name(name.replace("{}", path.name))


def partial_path(path: Path) -> Path:
    """Place where the unfinished `path` is written, so that a rename completes it."""
    return beside(path, PARTIAL)


def check_output(path: Path, overwrite: bool) -> None:
    """Refuse an output that exists, with an OutputError; its lock has shown that it can be written."""
    if path.exists() and not overwrite:
        raise OutputError(f"output '{path}' exists already. Choose another path, or pass --overwrite.")


def check_output_folder(path: Path, overwrite: bool, mark: str, what: str, entries: Collection[str]) -> None:
    """Like `check_output`, for a folder: replaced only if it has the file `mark` and nothing but `entries`.

    Entries are paths in the folder, of files or of folders with any content. The caller holds the output's lock.
    """
    discard_older(path)
    check_output(path, overwrite)
    if path.is_symlink():
        raise OutputError(f"output '{path}' is a link. Name the folder that it is to lead to.")
    if path.exists() and not (path / mark).is_file():
        raise OutputError(f"output '{path}' is not {what}, so it is not overwritten. Choose another path.")
    if path.exists() and not os.access(path, os.W_OK):
        raise OutputError(f"output '{path}' is protected: chmod -R u+w {shlex.quote(str(path))} ends this.")
    own = set(map(PurePosixPath, entries)) - {PurePosixPath()}
    for found in sorted(path.rglob("*")):
        name = PurePosixPath(found.relative_to(path).as_posix())
        if (found.is_symlink() or not found.is_dir()) and own.isdisjoint((name, *name.parents)):
            wrong = f"'{found}' is no part of {what}, so '{path}' is not overwritten"
            raise OutputError(f"{wrong}. Move it away, or choose another path.")


def check_output_file(path: Path, overwrite: bool = False, reads: Iterable[object] = ()) -> None:
    """Like `check_output`, for a file; also refuse a folder, and a path that is or lies in an input of `reads`."""
    there = [Path(read) for read in reads if isinstance(read, str | Path) and os.path.exists(read)]
    if path.exists() and any(path.samefile(read) or read.resolve() in path.resolve().parents for read in there):
        raise OutputError(f"output '{path}' is what is read. Choose another path.")
    if path.is_dir():
        raise OutputError(f"output '{path}' is a folder, but a file is to be written. Choose another path.")
    check_output(path, overwrite)


@contextlib.contextmanager
def writing(path: Path, num_bytes: int | None = None) -> Iterator[None]:
    """Turn a failing write into one sentence with the path, its bytes if known, and the bytes that are free."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(path.parent).free if path.parent.exists() else 0
            takes = "" if num_bytes is None else f", which takes {num_bytes:,} bytes"
            raise OutputError(f"no space left to write '{path}'{takes} ({free / 2**20:.1f} MiB free).") from None
        raise OutputError(f"'{path}' cannot be written: {error.strerror or error}. {ELSEWHERE}") from None


@contextlib.contextmanager
def new_folder(output: Path, name: str = PARTIAL) -> Iterator[Path]:
    """An empty folder beside an output, named by `beside`; removed after the block, unless that renames it."""
    folder = beside(output, name)
    try:
        with writing(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sync(path: Path) -> None:
    """Make what a file holds, or renames inside a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_atomically(source: Path, target: Path) -> None:
    """Give a finished, synced file or folder its final name."""
    os.replace(source, target)
    sync(target.parent)


def replace_folder(source: Path, target: Path) -> None:
    """Give a finished folder of synced files its final name; an older one is renamed first, then removed."""
    for folder in (source, *filter(Path.is_dir, source.rglob("*"))):
        sync(folder)
    if target.exists():
        os.rename(target, beside(target, OLDER))
    replace_atomically(source, target)
    discard_older(target)


def discard_older(path: Path) -> None:
    """Remove the older folder that `replace_folder` had to leave behind, unless it is still the only one."""
    if path.exists():
        shutil.rmtree(beside(path, OLDER), ignore_errors=True)


def discard(path: Path) -> None:
    """Remove a file, and the unfinished one that a killed run may have left beside it."""
    partial_path(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file that survives a power cut, once its folder is synced too."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Write a whole file, or leave the one that had its name before and raise an OutputError."""
    partial = partial_path(path)
    try:
        with writing(path, len(data)):
            write_synced(partial, data)
            replace_atomically(partial, path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


@contextlib.contextmanager
def lock(output: str | Path | None) -> Iterator[None]:
    """Keep other runs off an output (BusyError) while the block runs; the end of a process unlocks it."""
    if output is None:
        yield
        return
    output, path = Path(output), beside(Path(output), ".{}.lock")
    # A single try could meet the file of a run that is just removing it.
    held = FileLock(path, timeout=0.2, poll_interval=0.02, thread_local=False)
    with writing(output):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            held.acquire()
        except Timeout:
            if not path.exists():
                raise OutputError(f"output '{output}' has no room for a file beside it. {ELSEWHERE}") from None
            raise BusyError(f"another run is writing '{output}'. Wait for it, or choose another output.") from None
    try:
        yield
    finally:
        # While it is still locked: afterwards it may be the file of another run.
        path.unlink(missing_ok=True)
        held.release()
