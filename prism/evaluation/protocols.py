"""Protocols: how the clips of an evaluation are shown to a network, and when it is scored.

A protocol is a value. `clean` is ours; others exist so that numbers can be put beside those of earlier work.
docs/method.md names their differences.
"""

from dataclasses import dataclass

import torch

from prism.artifacts.clips import BatchStandardisation, Clips, Standardisation
from prism.artifacts.store import ClipStore
from prism.errors import ConfigError
from prism.machine.randomness import generator


@dataclass(frozen=True)
class EvaluationProtocol:
    """The points in which protocols differ; the defaults are those of the clean one.

    Attributes:
        name: as options and results say it.
        standardises_batches: every batch, in training and test, is standardised by its own mean and deviation
            instead of those of the training pixels.
        num_windows: random windows of each test video that are scored, each mirrored at random where that
            keeps the labels; 0 scores the clips of the asked split as they are.
        num_checkpoints: epochs, evenly spread up to the last, after which the network is scored; for each
            metric the best of them counts. With 1 there is nothing to choose.
    """

    name: str
    standardises_batches: bool = False
    num_windows: int = 0
    num_checkpoints: int = 1

    def standardisation(self, store: ClipStore) -> Standardisation:
        """How pixels become a network's input."""
        return BatchStandardisation() if self.standardises_batches else store.normalisation

    def split(self, asked: str) -> str:
        """The split of a store that is scored, where `asked` is the one in the options."""
        return "test-random" if self.num_windows else asked

    def passes(self, store: ClipStore, asked: str) -> list[Clips]:
        """The clips to score, one pass after the other, each sorted by class.

        Raises:
            ConfigError: the store does not have the windows.
            StoreError: the split is empty.
        """
        if not self.num_windows:
            return [store.clips(asked)]
        if store.num_passes != self.num_windows:
            raise ConfigError(
                f"protocol {self.name} scores {self.num_windows} random windows of each test video, but "
                f"'{store.path}' has {store.num_passes}. Ingest it with --random-test-windows {self.num_windows}."
            )
        return store.passes()

    def flips(self, store: ClipStore, seed: int, epoch: int) -> torch.Generator | None:
        """The generator that mirrors the scored clips, or None where they stay as they are."""
        return generator(seed, "test flip", epoch) if self.num_windows and store.flip else None

    def checkpoints(self, epochs: int) -> set[int]:
        """The epochs, counted from 1, after which a network is scored; the last is always one of them."""
        return {-(-epochs * k // self.num_checkpoints) for k in range(1, self.num_checkpoints + 1)}


CLEAN = EvaluationProtocol("clean")
WANG2024 = EvaluationProtocol("wang2024", standardises_batches=True, num_windows=3, num_checkpoints=10)
PROTOCOLS = {protocol.name: protocol for protocol in (CLEAN, WANG2024)}
