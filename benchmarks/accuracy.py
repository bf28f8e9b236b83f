"""Claim: with a moment bank a set reaches its accuracy sooner than with fresh moments."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks.measure import CLOCKS, Spread, read_arguments, report
from prism.condense.loop import Condensation
from prism.condensed import CondensedSet
from prism.config import CondenseConfig, EvaluateConfig, as_dict
from prism.evaluate import evaluate
from prism.ingest.build import ingest
from prism.motion import write_motion
from prism.runtime import pick_device
from prism.store import ClipStore

SHARE = 0.9
"""Of its final accuracy, that a set has to reach."""
NEVER = "never above the start"


@dataclass(frozen=True)
class Study:
    """What is condensed and how it is judged; the defaults take about ten minutes on two cores."""

    store: str = ""
    """Folder of a store with validation clips; empty makes one of the built-in videos."""
    train_per_class: int = 64
    """Built-in videos per class, half of which are set apart for validation."""
    num_frames: int = 8
    """Frames of their clips."""
    size: int = 48
    """Height and width of their clips."""
    vpc: int = 3
    """Synthetic videos per class."""
    init: str = "real"
    """What they start as: `real` or `noise`."""
    lr: float = 1.0
    """Learning rate of the condensation."""
    iterations: int = 128
    """Iterations of a condensation."""
    batch_real: int = 32
    """Real clips per class and iteration of fresh moments."""
    bank_size: int = 8
    """Networks of a bank."""
    width: int = 16
    """Channels of ConvNet3D's first block, for condensation and judgement alike."""
    seeds: int = 3
    """Condensations of either kind."""
    networks: int = 2
    """Networks that are trained on every set."""
    epochs: int = 60
    """Epochs of their training."""
    threads: int = 0
    """Threads of PyTorch; 0 leaves it to PyTorch."""
    clock: str = "wall"
    """As for the other benchmarks."""


QUICK = Study(
    train_per_class=2,
    size=44,
    vpc=1,
    iterations=2,
    batch_real=1,
    bank_size=1,
    width=2,
    seeds=2,
    networks=1,
    epochs=1,
)


@dataclass(frozen=True)
class Mean:
    """Accuracies in per cent, one of each condensation."""

    mean: float
    deviation: float
    num: int

    @classmethod
    def of(cls, values: list[float]) -> "Mean":
        """Sum up at least one."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else 0.0, len(values))

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.deviation:.1f} ({self.num})"


@dataclass(frozen=True)
class Point:
    """A set that was taken along a run.

    Attributes:
        iteration: iterations done.
        seconds: spent on condensing until then.
        accuracy: mean top-1 of its networks on validation clips, in 0..1.
    """

    iteration: int
    seconds: float
    accuracy: float


def iterations(last: int) -> list[int]:
    """Where sets are taken: at the start, then at twice as many iterations each time, up to the last."""
    return sorted({0} | {last >> halvings for halvings in range(6)})


def curve(store: ClipStore, config: CondenseConfig, study: Study) -> list[Point]:
    """Condense once; the clock stands still while a set is judged, and runs while a bank is built."""
    clock, points, spent = CLOCKS[study.clock], [], 0.0
    judges = EvaluateConfig(
        epochs=study.epochs, lr=0.005, batch_size=32, seeds=study.networks, width=study.width, split="val"
    )
    started = clock()
    run = Condensation(store, config, pick_device("cpu"))
    for iteration in iterations(config.iterations):
        while run.iteration < iteration:
            run.step()
        spent += clock() - started
        taken = run.videos.condensed(store, config, {"method": config.method, "config": as_dict(config)})
        points.append(Point(iteration, spent, accuracy(taken, store, judges)))
        started = clock()
    return points


def accuracy(taken: CondensedSet, store: ClipStore, judges: EvaluateConfig) -> float:
    """Mean top-1 of several networks on validation clips, in 0..1."""
    return fmean(run.scores["top1"] for run in evaluate(taken, store, judges, device="cpu").runs)


def seconds_to(points: list[Point]) -> float | None:
    """Seconds until a curve first has 90 % of its final accuracy; None where that is not above the start."""
    final = points[-1].accuracy
    if final <= points[0].accuracy:
        return None
    return next(point.seconds for point in points if point.accuracy >= SHARE * final)


def measure(study: Study) -> dict[str, Any]:
    """Curves of accuracy over time with either kind of moments, and the time to 90 % of the final accuracy."""
    with tempfile.TemporaryDirectory() as folder:
        store = _store(Path(folder), study)
        curves = {
            moments: [curve(store, _config(study, moments, seed), study) for seed in range(study.seeds)]
            for moments in ("fresh", "bank")
        }
    rows: dict[str, Any] = {}
    for moments, found in curves.items():
        rows |= _rows(moments, found)
    return rows | {"fresh / bank, time to accuracy": _ratio(*([seconds_to(c) for c in curves[m]] for m in curves))}


def _store(folder: Path, study: Study) -> ClipStore:
    """A store without the class means of earlier runs."""
    if study.store:
        path = shutil.copytree(study.store, folder / "store", ignore=shutil.ignore_patterns("cache"))
        return ClipStore.open(path)
    videos = write_motion(
        folder / "videos", train_per_class=study.train_per_class, test_per_class=1, size=study.size, progress=False
    )
    options = {"num_frames": study.num_frames, "size": study.size, "stride": 2, "val_fraction": 0.5}
    return ingest(videos, folder / "store", progress=False, **options)


def _config(study: Study, moments: str, seed: int) -> CondenseConfig:
    """A bank of its own for each seed: none is found in the store's cache."""
    options: dict[str, Any] = {"init": study.init, "real_moments": moments}
    return CondenseConfig(
        vpc=study.vpc,
        iterations=study.iterations,
        lr=study.lr,
        batch_real=study.batch_real,
        bank_size=study.bank_size,
        bank_seed=seed,
        width=study.width,
        seed=seed,
        **options,
    )


def _rows(moments: str, curves: list[list[Point]]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for points in zip(*curves, strict=True):
        name = f"{moments}, iteration {points[0].iteration}"
        rows[f"{name}, s"] = Spread.of([point.seconds for point in points])
        rows[f"{name}, accuracy in %"] = Mean.of([100 * point.accuracy for point in points])
    times = [seconds_to(points) for points in curves]
    for seed, time in enumerate(times):
        rows[f"{moments}, seed {seed}, s to {SHARE:.0%} of the final accuracy"] = NEVER if time is None else time
    risen = [time for time in times if time is not None]
    return rows | {f"{moments}, time to accuracy, s": Spread.of(risen) if risen else NEVER}


def _ratio(fresh: list[float | None], bank: list[float | None]) -> Spread | str:
    """How many times as soon the bank is there, over the seeds whose accuracy rises with either."""
    both = [(a, b) for a, b in zip(fresh, bank, strict=True) if a is not None and b]
    return Spread.of([a / b for a, b in both]) if both else NEVER


if __name__ == "__main__":
    study, output = read_arguments(str(__doc__), Study(), QUICK)
    report("accuracy", study, measure(study), output)
