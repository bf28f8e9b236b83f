"""Claim: the time of an iteration grows no faster than the classes, and than the real batch."""

import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.data import paper_config, random_store
from benchmarks.measure import Sizes, Spread, read_arguments, report, seconds
from benchmarks.peers import FirstRun

FACTORS = (1, 2, 5, 10)
AXES = {"classes": "classes", "batch_real": "real clips of each class"}
WIDTH = 16
"""Channels at most: growth is the same for a small network, and is measured sooner."""


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


def draw(figures: Path, picture: Path) -> None:
    """Plot the seconds of an iteration that a report holds, on logarithmic axes, beside the linear line."""
    found = json.loads(figures.read_text(encoding="utf-8"))["figures"]
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    for axes, field in zip(figure.subplots(1, 2), ("classes", "batch_real"), strict=True):
        rows = {int(label.split()[1][:-1]): row for label, row in found.items() if label.startswith(f"{field} ")}
        # A report is sorted by its labels, in which 10 comes before 2.
        rows = dict(sorted(rows.items()))
        counts, times = list(rows), [row["median"] for row in rows.values()]
        below = [row["median"] - row["smallest"] for row in rows.values()]
        above = [row["largest"] - row["median"] for row in rows.values()]
        power = found[f"{field}: power (1 is linear)"]["median"]
        axes.errorbar(counts, times, [below, above], marker="o", capsize=3, label=f"measured, power {power:.2f}")
        axes.plot(counts, [times[0] * count / counts[0] for count in counts], "--", color="grey", label="linear")
        axes.set(xscale="log", yscale="log", xlabel=AXES[field], ylabel="seconds of an iteration")
        axes.set_xticks(counts, map(str, counts), minor=False)
        axes.set_xticks([], minor=True)
        axes.legend(frameon=False)
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    sizes, output = read_arguments(str(__doc__))
    report("growth", sizes, measure(sizes), output)
    if output:
        draw(output, output.with_suffix(".png"))
