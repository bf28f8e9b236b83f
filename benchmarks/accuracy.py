"""Claim: our videos reach the score of the peers' whole run 20 times sooner, with kept class means 60 times.

The peers' loop trains every frame of random real clips, one class after the other, with 64 real clips of each
class for each network. It runs once, and its videos are scored on the way. Our learning rate falls over a whole
run, so each point of ours is a run of that length: first with an empty cache, then with the class means that it
left there, as another VPC, rule or seed of the same store finds them. Seconds are those of condensation alone,
with all of PyTorch's threads. Every set trains networks of its own.
"""

import itertools
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.measure import Sizes, read_arguments, report
from benchmarks.peers import PeersLoop
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings.sparse import Float32
from prism.artifacts.estimates import Sample, sample_of
from prism.artifacts.store import ClipStore
from prism.condensation.condense import condense
from prism.evaluation.evaluate import evaluate
from prism.ingestion.build import ingest
from prism.ingestion.motion import write_motion
from prism.machine.devices import keep_freed_memory

PEERS = "peers' loop"
EMPTY, FILLED = "ours, empty cache", "ours, kept class means"
GOALS = {EMPTY: 20, FILLED: 60}
"""Speed-ups over the peers' loop to reach."""


@dataclass(frozen=True)
class Race:
    """The runs that are compared; the defaults take about fifteen minutes on two cores."""

    store: str = ""
    """Folder of a store, which is copied without its cache; empty makes one of the built-in glyphs."""
    train_per_class: int = 80
    """Built-in videos per class."""
    test_per_class: int = 30
    """Built-in test videos per class, on which all sets are scored."""
    vpc: int = 1
    """Videos per class."""
    width: int = 16
    """Channels of ConvNet3D's first block."""
    peers_iterations: int = 300
    """Iterations of the peers' loop, which is scored after 0, 10, 30, 100, 300 and so on of them."""
    peers_batch_real: int = 64
    """Real clips per class and iteration of the peers' loop."""
    peers_lr: float = 30.0
    """Published learning rate (DM at one video of each class)."""
    peers_momentum: float = 0.5
    """Published momentum."""
    batch_real: int = 4
    """Real clips per class and iteration of ours, as in the recipe small."""
    iterations: int = 400
    """Iterations of our longest run; the others have a half, a quarter and so on, six in all."""
    networks: int = 3
    """Networks trained on each set."""
    epochs: int = 250
    """Epochs of each network, in steps of ten clips."""
    seed: int = 0
    """Seed of the sets; the networks' seeds follow from it."""
    threads: int = 0
    """Threads of PyTorch; 0 leaves it to PyTorch."""


QUICK = Race(train_per_class=3, test_per_class=1, width=2, peers_iterations=2, iterations=2, networks=1, epochs=1)
Timed = tuple[int, float, CondensedSet]
"""Iterations, seconds, and the set at that time."""


@dataclass(frozen=True)
class Point:
    """A set: the seconds of its condensation, and the accuracy of networks trained on it, with its error, in %."""

    seconds: float
    accuracy: float
    error: float

    def __str__(self) -> str:
        return f"{self.accuracy:.1f} ± {self.error:.1f} after {self.seconds:.3g} s"


def glyphs(folder: Path, seed: int, train_per_class: int, test_per_class: int) -> Path:
    """A store of the built-in glyphs, 8 × 48 × 48."""
    videos = folder / "videos"
    counts = {"train_per_class": train_per_class, "test_per_class": test_per_class}
    write_motion(videos, kind="glyphs", size=48, seed=seed, progress=False, **counts)
    options = {"num_frames": 8, "size": 48, "stride": 2, "val_fraction": 0.0, "seed": seed}
    return ingest(videos, folder / "store", progress=False, **options).path


def marks(last: int) -> list[int]:
    """Iterations after which the peers' videos are scored: 0, 10, 30, 100, 300 and so on up to the last."""
    ladder = [10**power * step for power in range(1, 6) for step in (1, 3)]
    return [0, *(mark for mark in ladder if mark < last), last]


def lengths(last: int) -> list[int]:
    """Iterations of our runs, the shortest first."""
    return sorted({max(1, last >> halvings) for halvings in range(6)})


def whole_clips(store: ClipStore, frames: Tensor, race: Race) -> CondensedSet:
    """A set of every frame, float32, from clips as a network sees them."""
    labels = torch.arange(len(store.classes)).repeat_interleave(race.vpc)
    pixels = store.normalisation.invert(frames.detach().transpose(1, 2))
    encoding = Float32().with_frames(pixels)
    return CondensedSet(encoding, labels, store.classes, store.normalisation, store.flip, {"method": "peers"})


def peers(store: ClipStore, race: Race) -> list[Timed]:
    """The peers' loop from random real clips."""
    torch.manual_seed(race.seed)
    sizes = Sizes(len(store.classes), race.peers_batch_real, race.vpc, store.num_frames, store.size, race.width)
    loop = PeersLoop(store, sizes, race.peers_lr, race.peers_momentum)
    for syn, clips in zip(loop.syn.detach().split(race.vpc), loop.of_class, strict=True):
        syn.copy_(loop.clips[clips[torch.randperm(len(clips))[: race.vpc]]])
    found, seconds = [(0, 0.0, whole_clips(store, loop.syn, race))], 0.0
    for before, mark in itertools.pairwise(marks(race.peers_iterations)):
        started = time.perf_counter()
        for _ in range(mark - before):
            loop.step()
        seconds += time.perf_counter() - started
        found.append((mark, seconds, whole_clips(store, loop.syn, race)))
    return found


def ours(race: Race, fresh: Callable[[], ClipStore]) -> dict[str, list[Timed]]:
    """Whole runs of ours, each first with an empty cache, then with the class means that it left there.

    Args:
        race: the sizes.
        fresh: gives a copy of the store without a cache.
    """
    found: dict[str, list[Timed]] = {name: [] for name in GOALS}
    options = {"vpc": race.vpc, "width": race.width, "batch_real": race.batch_real, "seed": race.seed}
    for iterations in lengths(race.iterations):
        copy = fresh()
        for name in GOALS:
            started = time.perf_counter()
            condensed = condense(copy, iterations=iterations, progress=False, **options)
            found[name].append((iterations, time.perf_counter() - started, condensed))
    return found


def score(store: ClipStore, race: Race, condensed: CondensedSet, index: int) -> Sample:
    """Test accuracy of networks trained on a set, whose seeds no other index has."""
    result = evaluate(
        condensed,
        store,
        split="test",
        width=race.width,
        epochs=race.epochs,
        batch_size=10,
        lr=0.005,
        seeds=race.networks,
        seed=1000 * race.seed + index * race.networks,
        progress=False,
    )
    return sample_of([result])


def measure(race: Race) -> dict[str, Any]:
    """Seconds and accuracy of every set, and how many times sooner ours reach the last accuracy of the peers'."""
    with tempfile.TemporaryDirectory() as folder:
        counts = race.train_per_class, race.test_per_class
        given = Path(race.store) if race.store else glyphs(Path(folder), race.seed, *counts)
        copies = (Path(folder) / f"copy{i}" for i in itertools.count())

        def fresh() -> ClipStore:
            return ClipStore.open(shutil.copytree(given, next(copies), ignore=shutil.ignore_patterns("cache")))

        store = fresh()
        runs = {PEERS: peers(store, race), **ours(race, fresh)}
        for name, timed in runs.items():
            print(f"  {name}: {timed[-1][0]} iterations in {timed[-1][1]:.3g} s", flush=True)
        points = _scored(store, race, runs)
    return {f"{name}, {iterations} iterations": point for (name, iterations), point in points.items()} | verdicts(
        points
    )


def _scored(store: ClipStore, race: Race, runs: Mapping[str, Sequence[Timed]]) -> dict[tuple[str, int], Point]:
    points: dict[tuple[str, int], Point] = {}
    for name, timed in runs.items():
        for iterations, seconds, condensed in timed:
            # Kept class means change no byte of a set, so that it need not be scored again.
            twin = points.get((EMPTY, iterations)) if name == FILLED else None
            if twin is None:
                sample = score(store, race, condensed, len(points))
                twin = Point(seconds, 100 * sample.mean, 100 * (sample.spread or 0.0))
            points[name, iterations] = replace(twin, seconds=seconds)
    return points


def verdicts(points: Mapping[tuple[str, int], Point]) -> dict[str, Any]:
    """Speed-up of ours to the accuracy of the peers' last videos, and whether it reaches the goal."""
    whole = [point for (name, _), point in points.items() if name == PEERS][-1]
    said: dict[str, Any] = {}
    for name, goal in GOALS.items():
        own = [point for (who, _), point in points.items() if who == name]
        soonest = min((p.seconds for p in own if p.accuracy >= whole.accuracy), default=None)
        sooner = whole.seconds / soonest if soonest else 0.0
        said |= {f"{name}: times sooner": sooner, f"{name}: at least {goal}": "yes" if sooner >= goal else "no"}
    return said


def draw(report: Path, picture: Path) -> None:
    """Plot accuracy against seconds, both from a report."""
    found = json.loads(report.read_text(encoding="utf-8"))["figures"]
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    for name, marker in zip((PEERS, *GOALS), "osD", strict=True):
        points = [row for label, row in found.items() if label.startswith(f"{name}, ") and row["seconds"]]
        points.sort(key=lambda row: row["seconds"])
        seconds, means = [row["seconds"] for row in points], [row["accuracy"] for row in points]
        errors = [row["error"] for row in points]
        axes.errorbar(seconds, means, errors, marker=marker, capsize=3, label=name)
    start = found[f"{PEERS}, 0 iterations"]["accuracy"]
    axes.axhline(start, linestyle="--", color="grey", label="random real clips")
    axes.set(xscale="log", xlabel="seconds of condensation", ylabel="top-1 on test clips, %")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    # As the command `prism` does; the peers' loop gains by it as well.
    keep_freed_memory(in_one_pool=True)
    race, output = read_arguments(str(__doc__), Race(), QUICK)
    report("accuracy", race, measure(race), output)
    if output:
        draw(output, output.with_suffix(".png"))
