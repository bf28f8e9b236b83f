"""Timing of the benchmarks: interleaved, in one process, as a median with its spread."""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from prism.machine.files import write_atomically
from prism.machine.provenance import provenance
from prism.machine.text_io import canonical_json

CLOCKS = {
    "wall": time.perf_counter,
    "process": time.process_time,
    "children": lambda: sum(os.times()[:4]),
}


@dataclass(frozen=True)
class Sizes:
    """The work that is timed; the defaults are those of the goal for a CPU."""

    classes: int = 10
    """Number of classes."""
    batch_real: int = 64
    """Real clips per class and iteration; each class has as many."""
    vpc: int = 1
    """Synthetic videos per class."""
    num_frames: int = 8
    """Frames per clip."""
    size: int = 64
    """Height and width in pixels."""
    width: int = 64
    """Channels of ConvNet3D's first block."""
    repeats: int = 5
    """Measurements of each work, after one that is not counted."""
    threads: int = 0
    """Threads of PyTorch; 0 leaves it to PyTorch."""
    clock: str = "wall"
    """`wall`; or for a busy machine `process`, process time, which means something with one thread only; or
    `children`, process time with that of child processes which have ended."""
    videos: str = ""
    """Folder of videos for the ingest benchmark, by default the built-in ones, and for the table of a GPU."""


Options = TypeVar("Options")
GOAL = Sizes()
ON_GPU = replace(GOAL, num_frames=16, size=112)
"""The work of the goals for a GPU: the paper's clips."""
QUICK = Sizes(classes=2, batch_real=2, num_frames=4, size=43, width=2, repeats=2)


@dataclass(frozen=True)
class Spread:
    """Several measurements of one thing."""

    median: float
    smallest: float
    largest: float
    repeats: int

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        """Sum up at least one measurement."""
        return cls(median(values), min(values), max(values), len(values))

    def __str__(self) -> str:
        return f"{self.median:.3g} [{self.smallest:.3g}, {self.largest:.3g}]"


def seconds(works: dict[str, Callable[[], object]], sizes: Sizes) -> dict[str, list[float]]:
    """Time pieces of work in turns, so that other load of the machine falls on all of them alike."""
    clock = CLOCKS[sizes.clock]
    found: dict[str, list[float]] = {name: [] for name in works}
    for round_ in range(1 + sizes.repeats):
        for name, work in works.items():
            started = clock()
            work()
            if round_:
                found[name].append(clock() - started)
    return found


def fewer(sizes: Sizes) -> Sizes:
    """The same work, three times at most: for pieces that take many seconds each."""
    return replace(sizes, repeats=min(sizes.repeats, 3))


def ratios(slower: list[float], faster: list[float]) -> Spread:
    """Speed-ups, turn by turn."""
    return Spread.of([a / b for a, b in zip(slower, faster, strict=True)])


def read_arguments(description: str, start: Options = GOAL, quick: Options = QUICK) -> tuple[Options, Path | None]:
    """The sizes on the command line, and where to write the result.

    Args:
        description: for --help.
        start: a dataclass with a default for each of its fields, `threads` among them; every field is an option.
        quick: the same for --quick.
    """
    import torch

    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--quick", action="store_true", help="the smallest sizes: whether it runs, not how fast")
    for field in fields(start):
        choices = list(CLOCKS) if field.name == "clock" else None
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), choices=choices)
    given = vars(parser.parse_args())
    output, chosen = given.pop("output"), quick if given.pop("quick") else start
    sizes = replace(chosen, **{name: value for name, value in given.items() if value is not None})
    if sizes.threads:
        torch.set_num_threads(sizes.threads)
    return sizes, output


def report(name: str, sizes: object, rows: dict[str, Any], output: Path | None) -> dict[str, Any]:
    """Print rows of figures, write them with their provenance, and return them as they are written."""
    print(f"\n{name}")
    for label, value in rows.items():
        print(f"  {label:44} {value if not isinstance(value, float) else format(value, '.4g')}", flush=True)
    figures = {label: asdict(value) if is_dataclass(value) else value for label, value in rows.items()}
    save(name, sizes, figures, output)
    return figures


def save(name: str, sizes: object, figures: object, output: Path | None) -> None:
    """Write figures with their provenance."""
    if output is None:
        return
    content = {"benchmark": name, "sizes": asdict(sizes), "figures": figures, "provenance": where()}
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, (canonical_json(content, indent=1) + "\n").encode())


def where() -> dict[str, Any]:
    """The provenance of figures, with the command that made them."""
    return provenance() | {"command": " ".join(["python", "-m", "benchmarks", *sys.argv[1:]])}
