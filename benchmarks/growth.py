"""Claim: the time of an iteration grows no faster than the classes, and than the real batch."""

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.data import paper_config, random_store
from benchmarks.measure import Sizes, Spread, read_arguments, report, seconds
from benchmarks.peers import FirstRun

FACTORS = (1, 2, 5, 10)
WIDTH = 16
"""Largest width: growth is the same for a small network, and is measured sooner."""


def measure(sizes: Sizes) -> dict[str, Any]:
    """Seconds of an iteration over a decade of classes and of the real batch, and the power they grow with."""
    start = replace(sizes, width=min(sizes.width, WIDTH), classes=2, batch_real=min(sizes.batch_real, 8))
    rows: dict[str, Any] = {}
    for field in ("classes", "batch_real"):
        counts = [getattr(start, field) * factor for factor in FACTORS]
        with tempfile.TemporaryDirectory() as folder:
            runs = {}
            for count in counts:
                larger = replace(start, **{field: count})
                store = random_store(Path(folder) / str(count), larger)
                runs[str(count)] = FirstRun(store, paper_config(larger))
            found = seconds({count: run.work for count, run in runs.items()}, start)
            found = {count: [time / runs[count].num for time in times] for count, times in found.items()}
        rows |= {f"{field} {count}, s": Spread.of(found[str(count)]) for count in counts}
        decade = zip(found[str(counts[0])], found[str(counts[-1])], strict=True)
        powers = [math.log(many / few) / math.log(FACTORS[-1]) for few, many in decade]
        rows[f"{field}: power (1 is linear)"] = Spread.of(powers)
    return rows


if __name__ == "__main__":
    sizes, output = read_arguments(str(__doc__))
    report("growth", sizes, measure(sizes), output)
