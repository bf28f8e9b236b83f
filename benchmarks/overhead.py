"""Claim: insertion, telemetry and checkpoints are at most 3 % of an iteration."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.data import paper_config, random_store
from benchmarks.measure import CLOCKS, Sizes, Spread, read_arguments, report
from prism.condense.journal import Journal
from prism.condense.loop import Condensation
from prism.config import as_dict

WIDTH = 16
"""Channels at most: the smaller the network, the more everything else weighs."""
CHECKPOINT_SECONDS = 60.0
"""Time between two checkpoints, as `prism condense` has it."""


class Watch:
    """Adds up the time that some methods take."""

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
    """Shares of an iteration in per cent, the cheap kind with a bank included, where they weigh most."""
    sizes = replace(sizes, width=min(sizes.width, WIDTH))
    return {**_shares(sizes, "fresh"), **_shares(sizes, "bank")}


def _shares(sizes: Sizes, moments: str) -> dict[str, Any]:
    clock = CLOCKS[sizes.clock]
    config = paper_config(sizes, real_moments=moments, bank_size=1)
    insertion, telemetry = Watch(clock), Watch(clock)
    shares: dict[str, list[float]] = {"insertion": [], "telemetry": [], "checkpoints": []}
    with tempfile.TemporaryDirectory() as folder:
        run = Condensation(random_store(Path(folder) / "store", sizes), config, torch.device("cpu"))
        with Journal(
            run, Path(folder) / "set", {"config": as_dict(config)}, resume=False, overwrite=False
        ) as journal:
            for name in ("estimate", "insert"):
                insertion.over(run, name)
            telemetry.over(journal, "record")
            for turn in range(1 + sizes.repeats):
                insertion.spent = telemetry.spent = 0.0
                started = clock()
                journal.record(run.step())
                iteration = clock() - started
                journal.save_checkpoint()
                checkpoint = clock() - started - iteration
                if turn:
                    shares["insertion"].append(100 * insertion.spent / iteration)
                    shares["telemetry"].append(100 * telemetry.spent / iteration)
                    shares["checkpoints"].append(100 * checkpoint / (CHECKPOINT_SECONDS + checkpoint))
    together = [sum(parts) for parts in zip(*shares.values(), strict=True)]
    rows = {f"{moments}, {name}, %": Spread.of(values) for name, values in shares.items()}
    return rows | {f"{moments}, together, %": Spread.of(together)}


if __name__ == "__main__":
    sizes, output = read_arguments(str(__doc__))
    report("overhead", sizes, measure(sizes), output)
