"""Provenance of a result: versions, machine, command and date."""

import contextlib
import functools
import platform
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from prism.errors import ArtifactError
from prism.machine.text_io import as_text, first_difference


@functools.cache
def versions() -> dict[str, str]:
    """The versions that decide a result's bytes: PRISM, PyTorch, Python."""
    # Reading a version takes ten milliseconds, which `prism --help` saves.
    from importlib import metadata

    packages = {"prism": metadata.version("prism-condense"), "torch": metadata.version("torch")}
    return packages | {"python": platform.python_version()}


@functools.cache
def _commit() -> str | None:
    import subprocess

    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _processor() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    return platform.processor() or platform.machine()


def provenance(device: object = "auto") -> dict[str, Any]:
    """Versions, machine, command and date of a run on a device: for telemetry and results, never for artifacts."""
    import torch

    # Only where CUDA is in use: the call would initialise it, after which no process can be forked.
    name, is_used = str(device), torch.cuda.is_initialized() and str(device) != "cpu"
    return {
        **versions(),
        "commit": _commit(),
        "command": as_text(shlex.join([Path(sys.argv[0]).name.replace("__main__.py", "prism"), *sys.argv[1:]])),
        "host": platform.node(),
        "system": platform.platform(),
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(name if ":" in name else None) if is_used else None,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def check_same_run(what: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to resume `what`, a file or folder with its path, where another run than the wanted one left it."""
    if found != wanted:
        said = f"{what} belongs to another run: {first_difference(found, wanted)}"
        raise ArtifactError(f"{said}. Repeat that run's options, remove it, or choose another output.")


def peak_memory_bytes() -> int:
    """The largest resident memory of this process so far, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
