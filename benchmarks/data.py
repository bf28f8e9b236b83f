"""A store of random pixels, on which only the time of a computation means something."""

from pathlib import Path

from benchmarks.measure import Sizes
from prism.artifacts.store import ClipStore
from prism.condensation.options import CondenseConfig
from prism.testing import tiny_store


def random_store(path: Path, sizes: Sizes) -> ClipStore:
    """Write `batch_real` training clips and a test clip of each class."""
    return tiny_store(path, sizes.classes, sizes.batch_real, sizes.num_frames, sizes.size)


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
