"""Claim: the memory that a condensation takes is known within 15 % before it starts.

The paper's sizes are counted. A tenth of their classes is condensed, each in a process of its own, which keeps
freed memory as the `prism` command does. Its memory is what no file backs: the mapped pages of a store can be
dropped at any time. What it had after a tiny condensation, which loads every library, does not count.
"""

import os
import tempfile
import threading
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from benchmarks.data import random_store
from benchmarks.measure import QUICK, Sizes, Spread, read_arguments, report
from prism.artifacts.index import StoreHeader
from prism.artifacts.store import ClipStore
from prism.condensation.condense import condense
from prism.condensation.condensing_memory import condensing_memory
from prism.condensation.options import CondenseConfig, settled
from prism.machine.devices import keep_freed_memory

MIB = 2**20
SECONDS = 0.001
"""Time between two looks at the memory."""
ITERATIONS = 3
"""Of each condensation."""
SHARE = "counted as a share of the peak"
"""Over all that are measured."""
STATM = Path("/proc/self/statm")
"""Where Linux tells the memory of a process."""
PUBLISHED = {"MiniUCF": 50, "Kinetics-400": 400}
"""Classes of all."""
METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "DM": {"method": "dm"},
    "static-dynamic": {"method": "static-dynamic", "static_iterations": 2},
}
"""By name, options of `prism condense`."""


def anonymous_bytes() -> int:
    """Memory of this process that no file backs."""
    resident, shared = (int(pages) for pages in STATM.read_text().split()[1:3])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


class Peak(threading.Thread):
    """Looks at the memory of this process until it is asked for the largest that it saw."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before = self.largest = anonymous_bytes()
        self.is_over = threading.Event()
        self.start()

    def run(self) -> None:
        """Look."""
        while not self.is_over.wait(SECONDS):
            self.largest = max(self.largest, anonymous_bytes())

    def num_bytes(self) -> int:
        """What came in addition, at most."""
        self.is_over.set()
        self.join()
        return self.largest - self.before


def peak_bytes(path: Path, tiny: Path, options: dict[str, Any]) -> int:
    """What a condensation of a store takes; for a process that has done nothing else."""
    keep_freed_memory(in_one_pool=True)
    torch.set_num_threads(1)
    condense(tiny, device="cpu", **(options | {"width": 2}))
    store = ClipStore.open(path)
    peak = Peak()
    condense(store, device="cpu", **options)
    return peak.num_bytes()


def predicted_bytes(problem: Sizes, options: dict[str, Any]) -> int:
    """What a condensation of so many classes is said to take; without any clips."""
    names = tuple(f"class{label:05}" for label in range(problem.classes))
    side = (problem.size, problem.size)
    header = StoreHeader(problem.num_frames, side, names, {}, 0, True, (0.5,) * 3, (0.29,) * 3, {}, {})
    config = settled(CondenseConfig(**options))
    return condensing_memory(ClipStore(Path(), header, []), config, torch.device("cpu")).total_bytes


def measure(sizes: Sizes) -> dict[str, Any]:
    """Measured and predicted memory of a tenth of the classes, and predicted memory of all, in MiB.

    Real clips are two of each class: enough for a chunk of eight. One thread computes, since each takes memory of
    its own.
    """
    if not STATM.exists():
        return {SHARE: "not measured"}
    shape = replace(sizes, batch_real=2, vpc=1)
    problems = {
        "MiniUCF": replace(shape, classes=min(5, sizes.classes), num_frames=16, size=112),
        "Kinetics-400": replace(shape, classes=4 * sizes.classes, num_frames=8, size=64),
    }
    rows = dict[str, Any]()
    server = get_context("forkserver")
    server.set_forkserver_preload(["prism.condensation.condense"])
    with tempfile.TemporaryDirectory() as folder:
        tiny = random_store(Path(folder) / "tiny", replace(QUICK, size=48))
        for name, problem in problems.items():
            store = random_store(Path(folder) / name, problem)
            for method, chosen in METHODS.items():
                options = {"width": shape.width, "batch_real": shape.batch_real, "iterations": ITERATIONS} | chosen
                with server.Pool(1) as process:
                    measured = process.apply(peak_bytes, (store.path, tiny.path, options))
                predicted = predicted_bytes(problem, options)
                label = f"{name}, {method}, {problem.classes} classes"
                rows |= {f"{label}: measured": measured / MIB, f"{label}: predicted": predicted / MIB}
                rows[f"{label}: ratio"] = predicted / measured
                whole = replace(problem, classes=PUBLISHED[name])
                rows[f"{name}, {method}, all {whole.classes} classes: predicted"] = (
                    predicted_bytes(whole, options) / MIB
                )
    return rows | {SHARE: Spread.of([found for label, found in rows.items() if label.endswith(": ratio")])}


if __name__ == "__main__":
    sizes, output = read_arguments(str(__doc__))
    report("memory", sizes, measure(sizes), output)
