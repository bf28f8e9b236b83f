"""Protocols: how the clips of an evaluation are shown to a network. Every one scores it after its last epoch.

`clean` is ours; others exist for numbers beside those of earlier work. Wang et al. print, for a condensed set, the
largest mean on the test clips over all checkpoints of a condensation. `wang2024` scores one set: no maximum.
"""

from dataclasses import dataclass

from prism.artifacts.clips import BatchStandardisation, Clips, Standardisation
from prism.artifacts.store import ClipStore
from prism.errors import ConfigError
from prism.evaluation.options import TrainingFlip


@dataclass(frozen=True)
class EvaluationProtocol:
    """The points in which protocols differ; the defaults are those of the clean one.

    Attributes:
        words: its description on the page of a result.
        standardises_batches: every batch, in training and test, is standardised by its own mean and deviation
            instead of those of the training pixels.
        test_batch: clips that are scored at a time, where that counts; 0 for as many as a training step has.
        num_windows: random windows of each test video that are scored, each mirrored at random where that
            keeps the labels; 0 scores the clips of the split as they are.
        flip_of_sets, flip_of_stores: when the clips of a set, and the real clips of a store, are mirrored in
            training, where that keeps the labels.
    """

    name: str
    words: str
    standardises_batches: bool = False
    test_batch: int = 0
    num_windows: int = 0
    flip_of_sets: TrainingFlip = "always"
    flip_of_stores: TrainingFlip = "always"

    def standardisation(self, store: ClipStore) -> Standardisation:
        """How pixels become a network's input."""
        return BatchStandardisation() if self.standardises_batches else store.normalisation

    def passes(self, store: ClipStore, split: str) -> list[Clips]:
        """The clips to score, one pass after the other, each sorted by class.

        Raises:
            ConfigError: the store does not have the windows.
            ArtifactError: the split is empty.
        """
        if not self.num_windows:
            return [store.clips(split)]
        if store.num_passes != self.num_windows:
            raise ConfigError(
                f"protocol {self.name} scores {self.num_windows} random windows of each test video, but "
                f"'{store.path}' has {store.num_passes}. Ingest it with --random-test-windows {self.num_windows}."
            )
        return store.passes()


CLEAN = EvaluationProtocol("clean", "The protocol clean normalises and scores every clip by itself.")
WANG2024 = EvaluationProtocol(
    "wang2024",
    "The protocol wang2024, of earlier work, standardises every batch and scores random windows.",
    standardises_batches=True,
    test_batch=64,
    num_windows=3,
    flip_of_sets="never",
    flip_of_stores="once",
)
PROTOCOLS = {protocol.name: protocol for protocol in (CLEAN, WANG2024)}
