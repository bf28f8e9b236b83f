"""Settings that many tests share, runs and sets with them, and what is left of them."""

import csv
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

from prism.artifacts.clips import Normalisation
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding
from prism.artifacts.encodings.sparse import Float32
from prism.artifacts.results import NetworkRun, Result
from prism.artifacts.store import ClipStore
from prism.condensation.condense import resolve
from prism.condensation.loop import Condensation
from prism.condensation.options import CondenseConfig
from prism.condensation.prepare import Setup
from prism.condensation.random_networks import Chunk
from prism.errors import PrismError
from prism.recipes import read_recipe

T = TypeVar("T")
CPU = torch.device("cpu")
PAPER = {key: value for key, value in read_recipe("paper")["condense"].items() if key != "method"}
"""The paper's options of `prism condense`: whole key-frames, insertion, an absolute learning rate."""


def setup_of(store: ClipStore, **options: object) -> Setup:
    """The parts of a run with some options."""
    return Setup(store, resolve(CondenseConfig(**options)))  # type: ignore[arg-type]


def started(store: ClipStore, classes: range | None = None, **options: object) -> Condensation:
    """A condensation on a CPU before its first iteration."""
    return setup_of(store, **options).start(CPU, classes)


def chunk_of(size: int, threads: int) -> Chunk:
    """A chunk of which a CPU computes so many parts at a time."""
    chunk = Chunk(size)
    chunk.threads = threads
    return chunk


def set_of(frames: torch.Tensor, storage: Encoding | None = None, **changes: Any) -> CondensedSet:
    """A set of whole clips (N, T, 3, H, W), each of a class of its own."""
    encoding = (storage or Float32()).with_frames(frames, torch.ones(frames.shape[:2], dtype=torch.bool))
    classes = tuple(f"class{label}" for label in range(len(frames)))
    fields = {"classes": classes, "normalisation": Normalisation((0.5,) * 3, (0.25,) * 3), "flip": True}
    return CondensedSet(encoding, torch.arange(len(frames)), **(fields | changes))


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file below a folder, by its path from there."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def skipped(store: ClipStore) -> dict[str, str]:
    """Why each video was passed over when a store was made."""
    with (store.path / "skipped.csv").open(newline="") as file:
        return {row["path"]: row["reason"] for row in csv.DictReader(file)}


def of_subject(result: Result, **changes: Any) -> Result:
    """A result whose subject differs in some fields."""
    return replace(result, subject=replace(result.subject, **changes))


def without_seconds(result: Result) -> list[NetworkRun]:
    """The runs of a result, without what depends on the clock."""
    return [replace(run, seconds=0.0) for run in result.runs]


def refusal_of(error: type[PrismError], call: Callable[..., object], *given: object, **named: object) -> str:
    """The one line with which a call is refused."""
    with pytest.raises(error) as caught:
        call(*given, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def command(*arguments: object) -> int:
    """The exit code of the `prism` command, run in this process."""
    from prism.cli import main

    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def printed(program: str, *arguments: object) -> str:
    """What a program of Python prints in a process of its own, which has to end well."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def wait_for(happened: Callable[[], object], seconds: float = 60) -> None:
    """Look again and again until something has happened."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let PyTorch use so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
        assert torch.get_num_threads() == number
    finally:
        torch.set_num_threads(before)


def load_telemetry(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Records by kind, without a last line that was cut off."""
    found = defaultdict[str, list[dict[str, Any]]](list)
    for record in map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1]):
        found[record["kind"]].append(record)
    return found


def either(short: T, long: T) -> T:
    """How much the fault tests do: less with every run of the tests, more with `make faults`."""
    return long if os.environ.get("PRISM_FAULTS") == "long" else short
