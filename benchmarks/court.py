"""Claim: a data set can show whether a method that matches class means works.

Networks trained on all clips must score far higher than those trained on a few random clips, or there is nothing
to condense. And the mean clip of each class, the plainest result of matching class means, must train better
networks than random clips, or matching has nothing to find. Where either fails, no result speaks for or against
a method.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Mean, read_arguments, report
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.condensation.condense import condense
from prism.evaluation.evaluate import evaluate
from prism.evaluation.options import EvaluateConfig
from prism.ingestion.build import ingest
from prism.ingestion.motion import write_motion

ALL, RANDOM, MEANS = "all training clips, %", "a random clip of each class, %", "the mean clip of each class, %"
LEAST_RATIO = 2.0
"""Least ratio of the accuracy with all clips to that with random ones."""
LEAST_LEAD = 10.0
"""Least lead of mean clips over random ones, in points."""


@dataclass(frozen=True)
class Court:
    """The data set to check and the training of networks; the defaults take about five minutes on one core."""

    store: str = ""
    """Folder of the store to check; empty makes one of the built-in glyphs."""
    seed: int = 0
    """Seed of the built-in glyphs."""
    train_per_class: int = 100
    """Built-in videos per class, a fifth of which are set apart for validation."""
    test_per_class: int = 30
    """Built-in test videos per class."""
    split: str = "val"
    """Split to score on: choose a data set on `val`, report `test`."""
    width: int = 16
    """Channels of ConvNet3D's first block."""
    networks: int = 5
    """Networks for each kind of training clips (all, random, mean); each draws random clips of its own."""
    epochs: int = 250
    """Epochs of training on one clip of each class."""
    full_epochs: int = 15
    """Epochs of training on all clips."""
    batch_size: int = 10
    """Clips per training step."""
    lr: float = 0.005
    """Learning rate."""
    threads: int = 0
    """Threads of PyTorch; 0 leaves it to PyTorch."""


QUICK = Court(train_per_class=5, test_per_class=1, width=2, networks=2, epochs=1, full_epochs=1)


def mean_clips(store: ClipStore) -> CondensedSet:
    """One video of each class: the mean of its training clips, frame by frame."""
    return condense(store, init="mean", iterations=0, initial_keyframes=0, keyframe_scale=1, progress=False)


def measure(court: Court) -> dict[str, Any]:
    """Accuracy of networks trained on all, random and mean clips, and the verdicts."""
    with tempfile.TemporaryDirectory() as folder:
        store = ClipStore.open(court.store) if court.store else _glyphs(Path(folder), court)
        found = {
            ALL: evaluate(None, store, _schedule(court, court.full_epochs), train=store),
            RANDOM: evaluate(None, store, _schedule(court, court.epochs), train=store, train_vpc=1),
            MEANS: evaluate(mean_clips(store), store, _schedule(court, court.epochs)),
        }
    rows = {label: accuracy(result) for label, result in found.items()}
    return {"chance, %": 100 / len(store.classes), **rows, **verdicts(rows)}


def verdicts(found: Mapping[str, Mean]) -> dict[str, str]:
    """Yes or no to each of the two conditions and to both, by the mean accuracies."""
    full, floor, means = (found[label].mean for label in (ALL, RANDOM, MEANS))
    teaches = full >= LEAST_RATIO * floor
    leads = means - floor >= LEAST_LEAD
    said = {
        f"all clips: at least {LEAST_RATIO:g} times random ones": teaches,
        f"mean clips: at least {LEAST_LEAD:g} points ahead of them": leads,
        "can show a method that matches means": teaches and leads,
    }
    return {question: "yes" if answer else "no" for question, answer in said.items()}


def glyphs(folder: Path, seed: int, train_per_class: int, test_per_class: int, val_fraction: float) -> ClipStore:
    """A store of the built-in glyphs, 8 × 48 × 48."""
    videos = write_motion(
        folder / "videos",
        kind="glyphs",
        train_per_class=train_per_class,
        test_per_class=test_per_class,
        size=48,
        seed=seed,
        progress=False,
    )
    options = {"num_frames": 8, "size": 48, "stride": 2, "val_fraction": val_fraction, "seed": seed}
    return ingest(videos, folder / "store", progress=False, **options)


def _glyphs(folder: Path, court: Court) -> ClipStore:
    return glyphs(folder, court.seed, court.train_per_class, court.test_per_class, val_fraction=0.2)


def _schedule(court: Court, epochs: int) -> EvaluateConfig:
    options: dict[str, Any] = {"split": court.split}
    return EvaluateConfig(
        width=court.width,
        seeds=court.networks,
        epochs=epochs,
        lr=court.lr,
        batch_size=court.batch_size,
        **options,
    )


def accuracy(result: Result) -> Mean:
    """Top-1 in per cent over the networks of a result."""
    return Mean.of([100 * run.scores["top1"] for run in result.runs])


if __name__ == "__main__":
    court, output = read_arguments(str(__doc__), Court(), QUICK)
    report("court", court, measure(court), output)
