"""Claim: insertion, telemetry and checkpoints are at most 3 % of a run."""

import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.data import paper_config, random_store
from benchmarks.measure import CLOCKS, Sizes, Spread, fewer, read_arguments, report
from prism.artifacts.store import ClipStore
from prism.condensation.options import CondenseConfig
from prism.condensation.prepare import Setup
from prism.condensation.recorder import RunRecorder
from prism.config import as_dict
from prism.machine.run import Run

WIDTH = 16
"""Largest width: the smaller the network, the larger the share of everything else."""
CHECKPOINT_SECONDS = 60.0
"""Time between two checkpoints, as `prism condense` has it."""
ITERATIONS = {"fresh": 10, "kept": 300}
"""Iterations of a run, which take a few seconds."""
OF_A_RUN = ("insertion", "telemetry", "checkpoints")


class Watch:
    """Total time of some methods."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.spent = clock, 0.0

    def over(self, owner: object, name: str) -> None:
        """Time a method of an object from now on."""
        method = getattr(owner, name)

        def timed(*args: object) -> object:
            started = self.clock()
            result = method(*args)
            self.spent += self.clock() - started
            return result

        setattr(owner, name, timed)


def measure(sizes: Sizes) -> dict[str, Any]:
    """Shares of a run in per cent, with fresh class means and with kept ones, where they weigh most."""
    sizes = fewer(replace(sizes, width=min(sizes.width, WIDTH)))
    with tempfile.TemporaryDirectory() as folder:
        store = random_store(Path(folder) / "store", sizes)
        return {**_shares(store, sizes, "fresh"), **_shares(store, sizes, "kept")}


def _shares(store: ClipStore, sizes: Sizes, means: str) -> dict[str, Any]:
    turns = [_turn(store, sizes, means) for _ in range(1 + sizes.repeats)][1:]
    rows = {f"{means}, {name}, %": Spread.of([turn[name] for turn in turns]) for name in turns[0]}
    together = [sum(turn[name] for name in OF_A_RUN) for turn in turns]
    return rows | {f"{means}, together, %": Spread.of(together)}


def _turn(store: ClipStore, sizes: Sizes, means: str) -> dict[str, float]:
    """Shares of one whole run, with the paper's warm-up and cool-down."""
    clock = CLOCKS[sizes.clock]
    paper = CondenseConfig()
    config = paper_config(sizes, iterations=ITERATIONS[means], warmup=paper.warmup, cooldown=paper.cooldown)
    insertion, telemetry = Watch(clock), Watch(clock)
    with tempfile.TemporaryDirectory() as folder:
        if means == "kept":
            # A step only reads class means, and those over one clip are as large and made sooner.
            config = replace(config, batch_real=1)
            Setup(store, config).precompute(Run(device="cpu"))
        run = Setup(store, config).start(torch.device("cpu"))
        source = {"config": as_dict(config)}
        recorder = RunRecorder(run, Path(folder) / "set", Run(), source, checkpoint_seconds=60)
        with closing(recorder.telemetry):
            insertion.over(run, "insert")
            telemetry.over(recorder, "record")
            started = clock()
            while run.iteration < run.num_iterations:
                recorder.record(run.step())
            seconds = clock() - started
            started = clock()
            recorder.save_checkpoint()
            checkpoint = clock() - started
    return {
        "insertion": 100 * insertion.spent / seconds,
        "telemetry": 100 * telemetry.spent / seconds,
        "checkpoints": 100 * checkpoint / (CHECKPOINT_SECONDS + checkpoint),
    }


if __name__ == "__main__":
    sizes, output = read_arguments(str(__doc__))
    report("overhead", sizes, measure(sizes), output)
