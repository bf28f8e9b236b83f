"""The goals, each beside what was measured of it: a reader of the other benchmarks' figures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.measure import GOAL, ON_GPU, Sizes, Spread

HEADINGS = ("goal", "ours", "peers' loop", "limit", "ratio or share", "reached?")
GPU = "gpu"
Figures = Mapping[str, Mapping[str, Any]]
"""For each benchmark its figures by label: numbers, and spreads as objects of JSON."""


@dataclass(frozen=True)
class Goal:
    """What is promised, and which figures tell whether it is kept.

    Attributes:
        goal: the promise.
        benchmark: whose figures they are; a goal whose benchmark has not run has no row; those of `GPU` always
            have one.
        figure: the ratio or share, whose median decides.
        least: the smallest median that keeps the promise.
        most: the largest.
        is_kept: it was reached once; a run that falls back behind it by more than its spread fails.
        unit: of the figure.
        ours: our side of it, where there is one.
        peers: the other side.
        limit: what cannot be passed.
    """

    goal: str
    benchmark: str
    figure: str = ""
    least: float = float("-inf")
    most: float = float("inf")
    is_kept: bool = False
    unit: str = ""
    ours: str = ""
    peers: str = ""
    limit: str = ""


def _iteration(precision: str, limit: str, is_kept: bool) -> Goal:
    return Goal(
        f"an iteration of the peers' work, {precision}: at least 2.5 times as fast",
        "peers",
        f"ratio in {precision}",
        least=2.5,
        is_kept=is_kept,
        unit="×",
        ours=f"our iteration in {precision}, s",
        peers="peers' iteration, s",
        limit=limit,
    )


def _on_gpu(precision: str) -> Goal:
    return Goal(
        f"the same on a GPU, 16×112×112, {precision}: at least 5 times as fast",
        GPU,
        f"GPU: ratio in {precision}",
        least=5.0,
        unit="×",
        ours=f"GPU: our iteration in {precision}, s",
        peers="GPU: peers' iteration, s",
    )


def _utilisation_of_gpu(precision: str) -> Goal:
    return Goal(
        f"on a GPU, 16×112×112, {precision}: at least 40 % of the rate of a matrix product",
        GPU,
        f"GPU: utilisation in {precision}",
        least=0.4,
    )


REAL_CLIPS = {"fresh": "a fresh real batch", "kept": "class means kept"}
"""What an iteration has of the real clips, in words."""


def _utilisation(real: str) -> Goal:
    return Goal(
        f"an iteration, {REAL_CLIPS[real]}: near the arithmetic limit",
        "utilisation",
        f"{real} utilisation",
        ours=f"{real} iteration, s",
        limit=f"{real} iteration at the matrix rate, s",
    )


def _overhead(real: str) -> Goal:
    return Goal(
        f"insertion, telemetry and checkpoints, {REAL_CLIPS[real]}: at most 3 % of a run",
        "overhead",
        f"{real}, together, %",
        most=3.0,
        is_kept=True,
        unit=" %",
    )


def _growth(field: str, what: str) -> Goal:
    # The time for one and the same number of clips varies by a few per cent from run to run.
    return Goal(
        f"an iteration's growth with {what}: a power of about 1 (at most 1.1)",
        "growth",
        f"{field}: power (1 is linear)",
        most=1.1,
        is_kept=True,
    )


GOALS = (
    _iteration("float32", "fresh iteration at the matrix rate, s", is_kept=False),
    _iteration("bfloat16", "", is_kept=True),
    _on_gpu("float32"),
    _on_gpu("bfloat16"),
    _utilisation_of_gpu("float32"),
    _utilisation_of_gpu("bfloat16"),
    _utilisation("fresh"),
    _utilisation("kept"),
    _overhead("fresh"),
    _overhead("kept"),
    Goal(
        "ingest: at least 90 % of a bare loop's rate",
        "ingest",
        "ingest as a share of the bare loop",
        least=0.9,
        is_kept=True,
        ours="ingest, videos/s",
        limit="bare loop, videos/s",
    ),
    _growth("classes", "the classes"),
    _growth("batch_real", "the real batch"),
    Goal(
        "several seeds: sooner side by side than one after the other",
        "seeds",
        "ratio to all threads",
        least=1.0,
        is_kept=True,
        unit="×",
        ours="side by side, one thread each, s",
        peers="one after the other, all threads, s",
        limit="side by side",
    ),
)


def rows(figures: Figures, sizes: Sizes) -> list[dict[str, str]]:
    """A row for each goal whose benchmark has run, by heading; also for those of a GPU, where there is none.

    Args:
        figures: of all benchmarks that have run.
        sizes: the work that they timed.
    """
    found = {label: value for benchmark in figures.values() for label, value in benchmark.items()}
    cells = [_cells(goal, found, sizes) for goal in GOALS if goal.benchmark in (GPU, *figures)]
    return [dict(zip(HEADINGS, row, strict=True)) for row in cells]


def _cells(goal: Goal, found: Mapping[str, Any], sizes: Sizes) -> tuple[str, ...]:
    if goal.benchmark == GPU and goal.figure not in found:
        return goal.goal, "–", "–", "–", "–", "no GPU here"
    sides = (_cell(found.get(label), _unit(label)) for label in (goal.ours, goal.peers, goal.limit))
    figure = found.get(goal.figure)
    return goal.goal, *sides, _cell(figure, goal.unit), reached(goal, figure, sizes)


def reached(goal: Goal, found: Any, sizes: Sizes) -> str:
    """Whether the median keeps the promise; – where the goal names no number."""
    if found is None:
        return "not measured"
    if isinstance(found, str):
        return found
    if goal.least == float("-inf") and goal.most == float("inf"):
        return "–"
    verdict = "yes" if goal.least <= _median(found) <= goal.most else "no"
    return verdict if is_goals_size(sizes) else f"{verdict} (other sizes)"


def fallen(figures: Figures, sizes: Sizes) -> list[str]:
    """The goals that were reached before, and that not even the best turn reaches now.

    Args:
        figures: of all benchmarks that have run.
        sizes: the work that they timed; at other sizes than the goals' nothing has fallen back.
    """
    found = {label: value for benchmark in figures.values() for label, value in benchmark.items()}
    if not is_goals_size(sizes):
        return []
    return [goal.goal for goal in GOALS if goal.is_kept and _is_missed(goal, found.get(goal.figure))]


def _is_missed(goal: Goal, found: Any) -> bool:
    if found is None or isinstance(found, str):
        return False
    smallest, largest = (found["smallest"], found["largest"]) if isinstance(found, Mapping) else (found, found)
    return largest < goal.least or smallest > goal.most


def is_goals_size(sizes: Sizes) -> bool:
    """Whether the goals' own work was timed, however often and by whatever clock."""
    timing = {name: getattr(GOAL, name) for name in ("repeats", "threads", "clock", "videos")}
    return replace(sizes, **timing) == GOAL


def sizes_of(benchmark: str, sizes: Sizes) -> Sizes:
    """The work of one of all benchmarks: a GPU has goals for larger clips than a CPU."""
    if benchmark != GPU or not is_goals_size(sizes):
        return sizes
    return replace(sizes, num_frames=ON_GPU.num_frames, size=ON_GPU.size)


def _median(found: Any) -> float:
    return found["median"] if isinstance(found, Mapping) else found


def _unit(label: str) -> str:
    """What a label ends with behind a comma."""
    _, comma, unit = label.rpartition(", ")
    return f" {unit}" if comma else ""


def _cell(found: Any, unit: str) -> str:
    if found is None or isinstance(found, str):
        return found or "–"
    return f"{Spread(**found) if isinstance(found, Mapping) else format(found, '.3g')}{unit}"


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """A table of rows by heading."""
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *(tuple(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page(rows: Sequence[Mapping[str, str]], sizes: Sizes, where: Mapping[str, Any]) -> str:
    """The table, how to read it, and where its numbers are from."""
    work = ", ".join(f"{name} {value}" for name, value in asdict(sizes).items() if value)
    made = ", ".join(f"{name} {where[name]}" for name in ("commit", "processor", "threads", "torch", "date"))
    return (
        f"# Goals of performance\n\n{markdown(rows)}\nMedian [smallest, largest]; the median decides. A goal "
        "without a number is neither reached nor missed.\n\n"
        f"Sizes: {work}.\n\nMade by `{where['command']}`: {made}.\n"
    )
