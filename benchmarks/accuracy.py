"""Claim: with a moment bank a set gets as far as with fresh moments, and is there sooner.

How far is told by the loss on networks that no run has seen, with exact class means, which is what either kind of
moments estimates. Accuracy stands beside it; where it does not rise, a time to it would be noise.
"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from torch import Tensor

from benchmarks.measure import CLOCKS, Spread, read_arguments, report
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.store import ClipStore
from prism.condensation.class_means import whole_clips
from prism.condensation.loop import Condensation
from prism.condensation.moments import MomentBank
from prism.condensation.objectives import match, squared_distance
from prism.condensation.options import CondenseConfig
from prism.config import as_dict
from prism.evaluation.evaluate import evaluate
from prism.evaluation.options import EvaluateConfig
from prism.ingestion.build import ingest
from prism.ingestion.motion import write_motion
from prism.machine.devices import pick_device

SHARE = 0.9
"""Of the way from a set's first loss to its last with fresh moments."""
NEVER = "never"
UNSEEN_SEED = 2**31
"""Of the networks that the loss is measured on; the runs' banks have the seeds 0, 1, …"""


@dataclass(frozen=True)
class Study:
    """What is condensed and how it is judged; the defaults take about eight minutes on two cores."""

    store: str = ""
    """Folder of a store with validation clips; empty makes one of the built-in videos."""
    train_per_class: int = 128
    """Built-in videos per class, half of which are set apart for validation."""
    num_frames: int = 8
    """Frames of their clips."""
    size: int = 48
    """Height and width of their clips."""
    vpc: int = 1
    """Synthetic videos per class."""
    init: str = "real"
    """What they start as: `real` or `noise`."""
    initial_keyframes: int = 4
    """Key-frames that they start with."""
    lr: float = 1.0
    """Learning rate of the condensation."""
    iterations: int = 256
    """Iterations of a condensation."""
    batch_real: int = 64
    """Real clips per class and iteration of fresh moments."""
    bank_size: int = 8
    """Networks of a bank."""
    unseen: int = 8
    """Networks that the loss is measured on."""
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
    initial_keyframes=2,
    bank_size=1,
    unseen=1,
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
        loss: on unseen networks, summed over the classes.
        keyframes: of a video, on average.
        accuracy: mean top-1 of its networks on validation clips, in 0..1; None where it was not judged.
    """

    iteration: int
    seconds: float
    loss: float
    keyframes: float
    accuracy: float | None = None


def judged(last: int) -> list[int]:
    """Where networks are trained: at the start, at an eighth, a quarter and a half of the run, and at its end."""
    return sorted({0} | {last >> halvings for halvings in range(4)})


def taken(last: int) -> list[int]:
    """Where the loss is measured: there, and 32 times along the run."""
    return sorted({*judged(last), *range(0, last, max(1, last // 32))})


class UnseenNetworks:
    """Random networks, other than those of all runs, with the exact class means of the training clips.

    Args:
        store: the data set.
        config: of the runs that are compared.
        num: networks.
    """

    def __init__(self, store: ClipStore, config: CondenseConfig, num: int) -> None:
        self.config = replace(config, bank_seed=UNSEEN_SEED, bank_size=num)
        self.bank = MomentBank(store, self.config, pick_device("cpu"))

    def loss(self, clips: Tensor) -> float:
        """Mean loss over the networks of normalised clips (V, T, C, H, W), summed over the classes."""
        losses = []
        for place in range(self.config.bank_size):
            self.bank.draw_network(UNSEEN_SEED, "bank", place, 0)
            real = self.bank.exact_means(place, 0, whole_clips)
            of_classes, _ = match(self.bank.network, real, clips, squared_distance, chunk=self.bank.chunk)
            losses.append(float(of_classes.sum()))
        return fmean(losses)


def curve(store: ClipStore, config: CondenseConfig, study: Study) -> list[Point]:
    """Condense once; the clock stands still while a set is judged, and runs while a bank is built."""
    clock, points, spent = CLOCKS[study.clock], [], 0.0
    judges = EvaluateConfig(
        epochs=study.epochs, lr=0.005, batch_size=32, seeds=study.networks, width=study.width, split="val"
    )
    unseen = UnseenNetworks(store, config, study.unseen)
    started = clock()
    run = Condensation(store, config, pick_device("cpu"))
    for iteration in taken(config.iterations):
        while run.iteration < iteration:
            run.step()
        spent += clock() - started
        loss = unseen.loss(run.videos.render(iteration).detach())
        scored = None
        if iteration in judged(config.iterations):
            source = {"method": config.method, "config": as_dict(config)}
            scored = accuracy(run.videos.condensed(store, config, source), store, judges)
        points.append(Point(iteration, spent, loss, run.videos.mean_keyframes(), scored))
        started = clock()
    return points


def accuracy(condensed: CondensedSet, store: ClipStore, judges: EvaluateConfig) -> float:
    """Mean top-1 of several networks on validation clips, in 0..1."""
    return fmean(run.scores["top1"] for run in evaluate(condensed, store, judges, device="cpu").runs)


def goal_of(points: list[Point]) -> float:
    """The loss that is 90 % of the way from a curve's first to its last; none is as low where it does not fall."""
    fall = points[0].loss - points[-1].loss
    return points[0].loss - SHARE * fall if fall > 0 else float("-inf")


def seconds_to_loss(points: list[Point], goal: float) -> float | None:
    """Seconds until a curve's loss first is as low; None where it never is."""
    return next((point.seconds for point in points if point.loss <= goal), None)


def measure(study: Study) -> dict[str, Any]:
    """Curves over time with either kind of moments, and how long each takes to get as far as fresh ones."""
    with tempfile.TemporaryDirectory() as folder:
        store = _store(Path(folder), study)
        curves = {
            moments: [curve(store, _config(study, moments, seed), study) for seed in range(study.seeds)]
            for moments in ("fresh", "bank")
        }
    # What the loop without a bank comes to is the measure of both.
    goals = [goal_of(points) for points in curves["fresh"]]
    times = {
        moments: [seconds_to_loss(*pair) for pair in zip(found, goals, strict=True)]
        for moments, found in curves.items()
    }
    rows: dict[str, Any] = {}
    for moments, found in curves.items():
        rows |= _rows(moments, found)
    rows |= _at_equal_seconds(curves["fresh"], [points[-1].seconds for points in curves["bank"]])
    for moments, found in times.items():
        reached = [seconds for seconds in found if seconds is not None]
        rows[f"{moments}, time to the loss, s"] = Spread.of(reached) if reached else NEVER
        rows[f"{moments}, seeds that reach the loss"] = f"{len(reached)} of {len(found)}"
    return rows | {"fresh / bank, time to the loss": _ratio(*times.values())}


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
        initial_keyframes=study.initial_keyframes,
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
        if points[0].accuracy is None:
            continue
        name = f"{moments}, iteration {points[0].iteration}"
        rows[f"{name}, s"] = Spread.of([point.seconds for point in points])
        rows |= _state(name, points)
    return rows


def _state(name: str, points: Sequence[Point]) -> dict[str, Any]:
    """The loss, the key-frames and the accuracy of sets, one of each seed, where they were judged."""
    scores = [100 * point.accuracy for point in points if point.accuracy is not None]
    return {
        f"{name}, loss": Spread.of([point.loss for point in points]),
        f"{name}, key-frames": Spread.of([point.keyframes for point in points]),
        f"{name}, accuracy in %": Mean.of(scores),
    }


def _at_equal_seconds(fresh: list[list[Point]], ends: list[float]) -> dict[str, Any]:
    """How far fresh moments are, by the last set that was judged, when the bank's run ends."""
    found = [
        [point for point in points if point.seconds <= end and point.accuracy is not None][-1:] or points[:1]
        for points, end in zip(fresh, ends, strict=True)
    ]
    return _state("fresh, after the seconds of the whole run with a bank", [point for (point,) in found])


def _ratio(fresh: list[float | None], bank: list[float | None]) -> Spread | str:
    """How many times as soon the bank is there, over the seeds that get there with either."""
    both = [(a, b) for a, b in zip(fresh, bank, strict=True) if a is not None and b]
    return Spread.of([a / b for a, b in both]) if both else NEVER


if __name__ == "__main__":
    study, output = read_arguments(str(__doc__), Study(), QUICK)
    report("accuracy", study, measure(study), output)
