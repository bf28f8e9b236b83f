"""Condensation in shares of the classes, which an executor computes side by side and which are joined to one set.

Each share is a set of its own in `.SET.shards` (docs/formats.md). Where a worker is lost, another one resumes its
share from the checkpoint.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.store import ClipStore
from prism.artifacts.telemetry import telemetry_path
from prism.condensation.options import CondenseConfig
from prism.condensation.prepare import Setup, scored
from prism.condensation.random_networks import shares
from prism.condensation.recorder import check_free, checkpoint_path, damaged, run_path, shards_path
from prism.errors import BusyError, ConfigError, OutputError
from prism.machine.executors import completed, stoppable
from prism.machine.files import discard, lock, write_atomically
from prism.machine.progress import progress_bar
from prism.machine.provenance import check_same_run
from prism.machine.run import Run
from prism.machine.text_io import canonical_json, parse_json, read_text

PAUSE_SECONDS = 0.5
MOST_SHARES = 16
"""Largest number of shares: each draws all networks of the run, so with many shares GPUs are slower than one."""


@dataclass(frozen=True)
class ClassOrder:
    """Order that is sent to a worker: condense shares of the classes, where `condense` is `condense_classes`."""

    condense: Callable[..., CondensedSet]
    store: ClipStore
    config: CondenseConfig
    output: Path
    device: str
    checkpoint_seconds: float

    def path(self, classes: range) -> Path:
        return shards_path(self.output) / f"{classes.start:05}.safetensors"

    def __call__(self, classes: range) -> None:
        """Condense a share, unless its file exists; go on from its checkpoint, if it has one."""
        path, setup = self.path(classes), Setup(self.store, self.config)
        run = Run(path, resume=True, device=self.device, progress=False)
        while not path.exists():
            try:
                self.condense(setup, classes, run, self.checkpoint_seconds)
            except OutputError as error:
                # A worker that lost its lease computes the same share; the first file wins.
                if not path.exists() and not isinstance(error, BusyError):
                    raise
                time.sleep(PAUSE_SECONDS)


def condense_on(order: ClassOrder, setup: Setup, run: Run) -> CondensedSet:
    """The saved set of all classes, whose shares an executor condenses independently of each other.

    All machines must find the store and the output at the same paths. A resumed run keeps finished shares.
    """
    if not setup.independent_classes:
        said = "the method, the objective, the insertion rule or the placement condenses all classes together"
        raise ConfigError(f"{said}. Leave out --executor, or use parts with independent_classes = True.")
    # An encoding that cannot be joined is refused here, not when all classes are done.
    setup.example.join([setup.example, setup.example])
    with lock(order.output):
        check_free(order.output, setup.reads, run, by_class=True)
        _begin(order.output, setup.source, run.resume)
        setup.precompute(run)
        num_classes = len(order.store.classes)
        found = {order.path(share): share for share in shares(num_classes, MOST_SHARES)}
        left = [share for path, share in found.items() if not path.exists()]
        done = num_classes - sum(map(len, left))
        bar = progress_bar("Condensing", num_classes, "classes", enabled=run.progress, done=done)
        with stoppable("stopped. Run the same command with --resume to continue."), bar as advance:
            for share, _ in completed(run.executor, order, left):
                advance(len(share))
        order.store.check_unchanged()
        condensed = scored(_joined_set(found, setup), setup.held_out(run))
        # The telemetry of one share after the other, each with a `start` record of its own.
        parts = (telemetry_path(path).read_bytes() for path in found)
        write_atomically(telemetry_path(order.output), b"".join(parts))
        write_atomically(order.output, condensed.to_bytes())
        run_path(order.output).unlink()
        shutil.rmtree(shards_path(order.output), ignore_errors=True)
        return condensed


def _begin(output: Path, source: dict[str, Any], resume: bool) -> None:
    folder, file = shards_path(output), run_path(output)
    discard(checkpoint_path(output))
    if resume and file.exists():
        try:
            found = parse_json(read_text(file))["source"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise damaged(file, error) from None
        return check_same_run(f"'{folder}'", found, source)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_atomically(file, canonical_json({"source": source}).encode())


def _joined_set(found: dict[Path, range], setup: Setup) -> CondensedSet:
    parts = [CondensedSet.load(path, [type(setup.example)]) for path in found]
    first, source = parts[0], setup.source | {"device": parts[0].source.get("device")}
    for (path, share), part in zip(found.items(), parts, strict=True):
        check_same_run(f"'{path}'", part.source, source | {"classes": [first.classes[label] for label in share]})
    encoding = first.encoding.join([part.encoding for part in parts])
    return replace(first, encoding=encoding, labels=torch.cat([part.labels for part in parts]), source=source)
