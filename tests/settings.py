"""Settings that many tests share, and a condensation with them."""

import os
from typing import TypeVar

import torch

from prism.artifacts.store import ClipStore
from prism.condensation.condense import resolve
from prism.condensation.loop import Condensation
from prism.condensation.options import CondenseConfig
from prism.condensation.prepare import Setup
from prism.recipes import read_recipe

T = TypeVar("T")
CPU = torch.device("cpu")
PAPER = {key: value for key, value in read_recipe("paper")["condense"].items() if key != "method"}
"""The paper's options of `prism condense`: whole key-frames, insertion, an absolute learning rate."""


def setup_of(store: ClipStore, **options: object) -> Setup:
    """The parts of a run with some options."""
    return Setup(store, resolve(CondenseConfig(**options)))  # type: ignore[arg-type]


def started(store: ClipStore, classes: range | None = None, **options: object) -> Condensation:
    """A condensation on a CPU before its first iteration."""
    return setup_of(store, **options).start(CPU, classes)


def either(short: T, long: T) -> T:
    """How much the fault tests do: less with every run of the tests, more with `make faults`."""
    return long if os.environ.get("PRISM_FAULTS") == "long" else short
