"""Where and with what a run happens: seeds, device, provenance, atomic files.

torch is imported only by the functions that need it: decoding workers and `prism --help` do without.
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from prism.errors import BusyError, ConfigError, OutputError

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
"""Where networks may run."""


def derive_seed(seed: int, name: str, *indices: int | str) -> int:
    """A 63-bit seed for one named purpose; different names and indices give unrelated seeds."""
    key = json.dumps([seed, name, *indices]).encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") >> 1


def generator(
    seed: int, name: str, *indices: int | str, device: "torch.device | str" = "cpu"
) -> "torch.Generator":
    """The random generator of one named stream at one position.

    Streams have no state to save: iteration i asks for `generator(seed, "network", i)`, so a resumed
    run draws what an uninterrupted one would, and a new consumer of randomness changes no other stream.
    """
    import torch

    return torch.Generator(device).manual_seed(derive_seed(seed, name, *indices))


def skip(draw: "torch.Generator", num: int) -> "torch.Generator":
    """A stream of uniform numbers, behind its first `num` of them."""
    import torch

    torch.rand(num, generator=draw, device=draw.device)
    return draw


def pick_device(name: str) -> "torch.device":
    """The torch device for `auto`, `cpu` or `cuda`.

    Raises:
        ConfigError: it is none of these, or `cuda` was asked for and is not there.
    """
    import torch

    if name not in get_args(Device):
        raise ConfigError(f"device = {name!r}, but it must be one of {', '.join(get_args(Device))}.")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device = 'cuda', but this PyTorch sees no CUDA device. Use --device cpu.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


@contextlib.contextmanager
def in_one_thread(device: "torch.device") -> Iterator[None]:
    """Let PyTorch compute in this thread alone, where a CPU computes.

    Several threads sum the gradients of weights in parts, and so round them otherwise than one does.
    Threads that are begun in the block compute alone as well.
    """
    import torch

    if device.type != "cpu":
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def versions() -> dict[str, str]:
    """The versions that decide a result's bytes: PRISM, PyTorch, Python."""
    return {
        "prism": metadata.version("prism-condense"),
        "torch": metadata.version("torch"),
        "python": platform.python_version(),
    }


@functools.cache
def _commit() -> str | None:
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


VOLATILE = frozenset(
    [
        *("commit", "command", "host", "system", "processor", "threads", "gpu", "date"),
        *("seconds", "condense_seconds", "run_seconds", "peak_memory_bytes"),
    ]
)
"""The names under which results, telemetry and tables tell of the clock, the machine and the user's words.

Whatever else PRISM writes is the same in two runs of one command on one machine.
"""


def provenance() -> dict[str, Any]:
    """Who computed a result, with what and when: for telemetry and results, never for artifacts."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        **versions(),
        "commit": _commit(),
        "command": " ".join(["prism", *sys.argv[1:]]),
        "host": platform.node(),
        "system": platform.platform(),
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def peak_memory_bytes() -> int:
    """The largest resident memory of this process so far, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def canonical_json(value: Any, indent: int | None = None) -> str:
    """JSON with sorted keys: equal values give equal text."""
    return json.dumps(value, sort_keys=True, indent=indent, ensure_ascii=False, allow_nan=False)


def parse_json(text: str) -> Any:
    """The value of JSON that a stranger may have written.

    Raises:
        ValueError: `canonical_json` could not have written it: it is not JSON, holds NaN, infinity or half a
            character, or is nested too deeply.
    """
    try:
        value = json.loads(text)
        canonical_json(value).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def first_difference(found: dict[str, Any], wanted: dict[str, Any], prefix: str = "") -> str:
    """`its a.b is 1, not 2` for the first key, in the order of names, at which two nested tables differ."""
    for key in sorted(found.keys() | wanted.keys()):
        old, new = found.get(key), wanted.get(key)
        if old != new:
            if isinstance(old, dict) and isinstance(new, dict):
                return first_difference(old, new, f"{prefix}{key}.")
            return f"its {prefix}{key} is {old!r}, not {new!r}"
    return "nothing differs"


MAX_TEXT_BYTES = 2**28
"""No text file that PRISM reads is larger; the longest official list has 30 MB."""


def read_text(path: Path) -> str:
    """The text of a file that a stranger may have written, or may have put in a file's place.

    Raises:
        OSError: it is missing, cannot be read, or is a folder.
        ValueError: it is a pipe or a device, which may never end, is too large, or is not UTF-8.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError("it is a pipe or a device, not a file")
    with path.open("rb") as file:
        data = file.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        raise ValueError(f"it is larger than {MAX_TEXT_BYTES:,} bytes")
    return data.decode("utf-8-sig")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def partial_path(path: Path) -> Path:
    """Where the unfinished `path` is written: hidden, beside it, so that a rename completes it."""
    return path.with_name(f".{path.name}.partial")


def check_output(path: Path, overwrite: bool = False) -> None:
    """Refuse an output before the first expensive step rather than after the last.

    Raises:
        OutputError: the path exists (and `overwrite` is off), or its folder cannot be written.
    """
    if path.exists() and not overwrite:
        raise OutputError(f"output '{path}' exists already. Choose another path, or pass --overwrite.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"output '{path}' cannot be written: {error.strerror}.") from None
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"output '{path}' cannot be written: its folder is read-only.")


def check_output_file(path: Path, overwrite: bool = False) -> None:
    """Like `check_output`, for an output that is a file: a folder is never replaced by one.

    Raises:
        OutputError: the path is a folder, exists, or cannot be written.
    """
    if path.is_dir():
        raise OutputError(f"output '{path}' is a folder, but a file is to be written. Choose another path.")
    check_output(path, overwrite)


@contextlib.contextmanager
def writing(path: Path, num_bytes: int | None = None) -> Iterator[None]:
    """Turn a failing write into one sentence that names the path, the bytes it takes and those that are left.

    Args:
        path: what is written.
        num_bytes: its size, where that is known.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(path.parent).free if path.parent.exists() else 0
            takes = "" if num_bytes is None else f", which takes {num_bytes:,} bytes"
            raise OutputError(f"no space left to write '{path}'{takes} ({free / 2**20:.1f} MiB free).") from None
        raise OutputError(f"'{path}' cannot be written: {error.strerror or error}.") from None


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_atomically(source: Path, target: Path) -> None:
    """Give a finished, synced file or folder its final name."""
    os.replace(source, target)
    sync_folder(target.parent)


def replace_folder(source: Path, target: Path) -> None:
    """Give a finished, synced folder its final name; an older one of that name makes room whole, then goes."""
    discard_older(target)
    if target.exists():
        os.rename(target, _older_path(target))
    replace_atomically(source, target)
    discard_older(target)


def discard_older(path: Path) -> None:
    """Remove the older folder that `replace_folder` had to leave behind, unless it is still the only one."""
    if path.exists():
        shutil.rmtree(_older_path(path), ignore_errors=True)


def _older_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


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


def discard(path: Path) -> None:
    """Remove a file, and the unfinished one that a killed run may have left beside it."""
    partial_path(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file that no power cut can empty, once the folder that it is in is synced too."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Write a whole file, or leave what stood under its name before.

    Raises:
        OutputError: the file cannot be written, or the disk is full.
    """
    partial = partial_path(path)
    try:
        with writing(path, len(data)):
            write_synced(partial, data)
            replace_atomically(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


class Stopped:
    """Whether a signal asked a run to stop, and which."""

    signal: int | None = None


@contextlib.contextmanager
def stop_signal() -> Iterator[Stopped]:
    """Turn Ctrl-C and SIGTERM into a flag that a loop looks at between two iterations.

    A second Ctrl-C stops at once. Outside the main thread signals are left alone.
    """
    stopped = Stopped()

    def note(number: int, frame: object) -> None:
        if stopped.signal is not None:
            raise KeyboardInterrupt
        stopped.signal = number

    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
