"""A store of random pixels, on which only the time of a computation means something."""

from pathlib import Path

import torch

from benchmarks.measure import Sizes
from prism.artifacts.store import ClipSource, ClipStore
from prism.condensation.options import CondenseConfig
from prism.machine.randomness import generator
from prism.testing import write_store


def random_store(path: Path, sizes: Sizes, num_test: int = 0) -> ClipStore:
    """Write `batch_real` training clips and `num_test` test clips of each class."""
    names = tuple(f"class{label:05}" for label in range(sizes.classes))
    counts = {"train": sizes.batch_real, "val": 0, "test": num_test}
    sources = [
        ClipSource(split, name, f"{name}/{split}{i}", 0, 1, sizes.num_frames)
        for split, count in counts.items()
        for name in names
        for i in range(count)
    ]
    shape = (len(sources), sizes.num_frames, 3, sizes.size, sizes.size)
    pixels = torch.randint(0, 256, shape, generator=generator(0, "pixels"), dtype=torch.uint8)
    return write_store(path, names, sources, pixels.numpy(), std=0.29)


def paper_config(sizes: Sizes, **options: object) -> CondenseConfig:
    """The paper's method, which scores and inserts frames in every iteration."""
    fixed = {
        "vpc": sizes.vpc,
        "batch_real": sizes.batch_real,
        "width": sizes.width,
        "initial_keyframes": 2,
        "keyframe_scale": 1,
        "insertion": "gradient",
        "lr": 1.0,
        "decay": "constant",
        "warmup": 0.0,
        "cooldown": 0.0,
    }
    return CondenseConfig(**(fixed | options))  # type: ignore[arg-type]
