"""Claim: networks of several seeds are trained sooner side by side than one after the other."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.data import random_store
from benchmarks.measure import Sizes, Spread, ratios, read_arguments, report, seconds
from prism.artifacts.store import ClipStore
from prism.evaluation.evaluate import evaluate
from prism.evaluation.options import EvaluateConfig
from prism.networks.build import allocate, build_for
from prism.networks.training import train

SEEDS = 4
EPOCHS = 24
WIDTH = 16
"""Largest width: that of the small scale, where several networks are trained for every number."""


def one_after_the_other(store: ClipStore, config: EvaluateConfig) -> None:
    """Train the networks one after the other, each with all of PyTorch's threads, and score nothing."""
    clips = store.clips("train")
    for seed in range(config.seeds):
        network = allocate(build_for(store, config.model, "meta", width=config.width), torch.device("cpu"))
        train(network, clips, store.normalisation, config.schedule, seed=seed, flip=store.flip)


def measure(sizes: Sizes) -> dict[str, Any]:
    """Seconds of several trainings either way; `prism evaluate` gives each network one thread."""
    sizes = replace(sizes, batch_real=sizes.vpc, width=min(sizes.width, WIDTH))
    threads = torch.get_num_threads()
    config = EvaluateConfig(epochs=EPOCHS, seeds=SEEDS, width=sizes.width)
    with tempfile.TemporaryDirectory() as folder:
        store = random_store(Path(folder) / "store", sizes)
        works = {
            "by turns": lambda: one_after_the_other(store, config),
            "one thread": lambda: evaluate(None, store, config, train=store, device="cpu", workers=1),
            "beside": lambda: evaluate(None, store, config, train=store, device="cpu", workers=threads),
        }
        # Being done sooner is a matter of wall time, whatever the other benchmarks are timed by.
        found = seconds(works, replace(sizes, clock="wall"))
    return {
        "networks": SEEDS,
        "side by side": min(SEEDS, threads),
        "one after the other, all threads, s": Spread.of(found["by turns"]),
        "one after the other, one thread, s": Spread.of(found["one thread"]),
        "side by side, one thread each, s": Spread.of(found["beside"]),
        "ratio to all threads": ratios(found["by turns"], found["beside"]),
        "ratio to one thread": ratios(found["one thread"], found["beside"]),
    }


if __name__ == "__main__":
    sizes, output = read_arguments(str(__doc__))
    report("seeds", sizes, measure(sizes), output)
