"""All benchmarks, one after the other, and the table of goals that they make.

It fails where every turn misses a goal that was reached before.
"""

import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks import gpu, growth, ingest, overhead, peers, seeds, table
from benchmarks.measure import Sizes, read_arguments, report, save, where
from prism.machine.files import write_atomically

BENCHMARKS = {
    "peers": peers,
    "overhead": overhead,
    "growth": growth,
    "seeds": seeds,
    "ingest": ingest,
}
if torch.cuda.is_available():
    BENCHMARKS[table.GPU] = gpu


def run(sizes: Sizes, output: Path | None) -> dict[str, dict[str, Any]]:
    """The figures of all benchmarks, each of which is written as soon as it ends."""
    figures = {}
    for name, module in BENCHMARKS.items():
        started, own = time.monotonic(), table.sizes_of(name, sizes)
        rows = module.measure(own)
        figures[name] = report(name, own, rows, output / f"{name}.json" if output else None)
        print(f"  ({time.monotonic() - started:.0f} s in all)", flush=True)
    return figures


if __name__ == "__main__":
    sizes, output = read_arguments("All benchmarks; --output is a folder.")
    figures = run(sizes, output)
    rows = table.rows(figures, sizes)
    print(f"\n{table.markdown(rows)}")
    if output:
        save("table", sizes, rows, output / "table.json")
        write_atomically(output / "table.md", table.page(rows, sizes, where()).encode())
    if lost := table.fallen(figures, sizes):
        sys.exit("Reached before, and now missed in every turn: " + "; ".join(lost) + ".")
