"""The table of goals, each beside its measured figures, which it reads from the other benchmarks.

From kept files: `python -m benchmarks.table results/bench/*.json results/gpu/benchmark.json`.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import GOAL, ON_GPU, Sizes, Spread

HEADINGS = ("goal", "ours", "compared with", "ratio or share", "reached?")
GPU = "gpu"
Figures = Mapping[str, Mapping[str, Any]]
"""For each benchmark its figures by label: numbers, and spreads as objects of JSON."""


@dataclass(frozen=True)
class Goal:
    """A promise, and the figures that tell whether it is kept.

    Attributes:
        goal: the promise.
        benchmark: source of the figures; a goal whose benchmark has not run has no row, but for those of `GPU`.
        figure: the ratio or share, whose median decides.
        least: the smallest median that keeps the promise.
        most: the largest.
        is_kept: it was reached once; a run that falls back behind it by more than its spread fails.
        unit: of the figure.
        ours: label of our side, where there is one.
        beside: label of the side that it is compared with.
    """

    goal: str
    benchmark: str
    figure: str = ""
    least: float = float("-inf")
    most: float = float("inf")
    is_kept: bool = False
    unit: str = ""
    ours: str = ""
    beside: str = ""


def _faster(precision: str, least: float, benchmark: str = "peers", start: str = "", **more: Any) -> Goal:
    where = " on a GPU, 16×112×112" if start else ""
    return Goal(
        f"an iteration{where} in {precision}: {least:g} times as fast as the peers'",
        benchmark,
        f"{start}ratio in {precision}",
        least=least,
        unit="×",
        ours=f"{start}our iteration in {precision}, s",
        beside=f"{start}peers' iteration, s",
        **more,
    )


def _share_on_gpu(precision: str) -> Goal:
    goal = f"on a GPU, 16×112×112, {precision}: 40 % of a matrix product's rate"
    return Goal(goal, GPU, f"GPU: utilisation in {precision}", least=0.4)


def _overhead(real: str, what: str) -> Goal:
    goal = f"insertion, telemetry and checkpoints, {what}: at most 3 % of a run"
    return Goal(goal, "overhead", f"{real}, together, %", most=3.0, is_kept=True, unit=" %")


def _growth(field: str, what: str) -> Goal:
    # The time for one and the same number of clips varies by a few per cent from run to run.
    goal = f"growth with {what}: a power of at most 1.1"
    return Goal(goal, "growth", f"{field}: power (1 is linear)", most=1.1, is_kept=True)


GOALS = (
    _faster("float32", 2.5),
    _faster("bfloat16", 2.5, is_kept=True),
    _faster("float32", 5.0, GPU, "GPU: "),
    _faster("bfloat16", 5.0, GPU, "GPU: "),
    _share_on_gpu("float32"),
    _share_on_gpu("bfloat16"),
    _overhead("fresh", "a fresh real batch"),
    _overhead("kept", "class means kept"),
    Goal(
        "ingest: at least 90 % of a bare loop's rate",
        "ingest",
        "ingest as a share of the bare loop",
        least=0.9,
        is_kept=True,
        ours="ingest, videos/s",
        beside="bare loop, videos/s",
    ),
    _growth("classes", "the classes"),
    _growth("batch_real", "the real batch"),
    Goal(
        "four networks, two at a time: sooner than one by one",
        "seeds",
        "ratio to all threads",
        least=1.0,
        is_kept=True,
        unit="×",
        ours="side by side, one thread each, s",
        beside="one after the other, all threads, s",
    ),
)


def kept_in(files: Iterable[str | Path]) -> Figures:
    """The figures that `python -m benchmarks --output FOLDER` has written to some files."""
    written = (json.loads(Path(file).read_text(encoding="utf-8")) for file in files)
    return {one["benchmark"]: one["figures"] for one in written if one["benchmark"] != "table"}


def _by_label(figures: Figures) -> dict[str, Any]:
    return {label: value for benchmark in figures.values() for label, value in benchmark.items()}


def rows(figures: Figures, sizes: Sizes) -> list[dict[str, str]]:
    """A row by heading for each goal whose benchmark has run, and for those of a GPU even without a GPU."""
    found = _by_label(figures)
    cells = [_cells(goal, found, sizes) for goal in GOALS if goal.benchmark in (GPU, *figures)]
    return [dict(zip(HEADINGS, row, strict=True)) for row in cells]


def _cells(goal: Goal, found: Mapping[str, Any], sizes: Sizes) -> tuple[str, ...]:
    if goal.benchmark == GPU and goal.figure not in found:
        return goal.goal, "–", "–", "–", "no GPU here"
    sides = (_median(found.get(label), label) for label in (goal.ours, goal.beside))
    figure = found.get(goal.figure)
    return goal.goal, *sides, _cell(figure, goal.unit), reached(goal, figure, sizes)


def reached(goal: Goal, found: Any, sizes: Sizes) -> str:
    """Whether the median keeps the promise."""
    if found is None:
        return "not measured"
    verdict = "yes" if goal.least <= found["median"] <= goal.most else "no"
    return verdict if is_goals_size(sizes) else f"{verdict} (other sizes)"


def fallen(figures: Figures, sizes: Sizes) -> list[str]:
    """The goals that were reached before and that not even the best turn reaches now; none at other sizes."""
    found = _by_label(figures)
    if not is_goals_size(sizes):
        return []
    return [goal.goal for goal in GOALS if goal.is_kept and _is_missed(goal, found.get(goal.figure))]


def _is_missed(goal: Goal, found: Any) -> bool:
    return found is not None and (found["largest"] < goal.least or found["smallest"] > goal.most)


def is_goals_size(sizes: Sizes) -> bool:
    """Whether the goals' own work was timed, however often and by whatever clock."""
    timing = {name: getattr(GOAL, name) for name in ("repeats", "threads", "clock", "videos")}
    return replace(sizes, **timing) == GOAL


def sizes_of(benchmark: str, sizes: Sizes) -> Sizes:
    """The sizes of a benchmark: a GPU has goals for larger clips than a CPU."""
    if benchmark != GPU or not is_goals_size(sizes):
        return sizes
    return replace(sizes, num_frames=ON_GPU.num_frames, size=ON_GPU.size)


def _median(found: Any, label: str) -> str:
    _, _, unit = label.rpartition(", ")
    return f"{found['median']:.3g} {unit}" if found else "–"


def _cell(found: Any, unit: str) -> str:
    return f"{Spread(**found)}{unit}" if found else "–"


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """A table of rows by heading."""
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *(tuple(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page(rows: Sequence[Mapping[str, str]], sizes: Sizes, where: Mapping[str, Any]) -> str:
    """The table, how to read it, and where its numbers are from."""
    work = ", ".join(f"{name} {value}" for name, value in asdict(sizes).items() if value)
    made = ", ".join(f"{name} {where[name]}" for name in ("commit", "processor", "threads", "torch", "date"))
    return (
        f"# Goals of performance\n\n{markdown(rows)}\nMedians, [smallest, largest]; the median decides.\n\n"
        f"Sizes: {work}.\n\nMade by `{where['command']}`: {made}.\n"
    )


if __name__ == "__main__":
    print(markdown(rows(kept_in(sys.argv[1:]), GOAL)), end="")
