"""What a network can learn of the built-in pairs: motion, and nothing but motion."""

import numpy as np
import pytest
import torch

from prism.artifacts.clips import Clips
from prism.artifacts.store import ClipStore
from prism.evaluation.options import EvaluateConfig
from prism.ingestion.build import ingest
from prism.ingestion.motion import draw_pairs
from prism.ingestion.options import IngestConfig, MotionConfig
from prism.machine.randomness import derive_seed
from prism.networks.build import build
from prism.networks.training import outputs_of, train

SIX = ["bounce", "growing", "left", "right", "shake", "shrinking"]
USED = [*SIX, "clockwise", "counterclockwise"]
SIZES = MotionConfig(size=48)
CONFIG = EvaluateConfig(width=8, epochs=20, batch_size=8, lr=0.005)


@pytest.fixture(scope="module")
def motion(tmp_path_factory) -> ClipStore:
    """As `prism motion` draws its videos, without a codec between."""

    def items(split: str, count: int) -> list[tuple[np.ndarray, str]]:
        seeds = [(name, derive_seed(0, "motion", split, name, index)) for name in USED for index in range(count)]
        return [
            (draw_pairs(name, SIZES.num_frames, SIZES.size, np.random.default_rng(seed)), name)
            for name, seed in seeds
        ]

    data = {"train": items("train", 40), "test": items("test", 20)}
    config = IngestConfig(num_frames=8, stride=2, size=48, val_fraction=0)
    return ingest(data, tmp_path_factory.mktemp("learning") / "store", config, progress=False)


def of_classes(clips: Clips, names: list[str]) -> Clips:
    """Only the clips of these classes, labelled by the place of the class in the list."""
    labels = torch.tensor([names.index(name) if name in names else -1 for name in clips.classes])[clips.labels]
    return Clips(clips.frames[labels >= 0], labels[labels >= 0], tuple(names))


def accuracy(store: ClipStore, names: list[str], reorder) -> tuple[float, int]:
    """Test accuracy of a network trained on clips whose frames went through `reorder`, and the number of clips."""
    sides = [of_classes(store.clips(split), names) for split in ("train", "test")]
    learned, scored = (Clips(reorder(side.frames), side.labels, side.classes) for side in sides)
    num_frames = learned.num_frames
    network = build("convnet3d", num_classes=len(names), num_frames=num_frames, size=48, width=CONFIG.width)
    train(network, learned, store.normalisation, CONFIG.schedule, seed=0, flip=False)
    guesses = outputs_of(network, scored, store.normalisation, 64).argmax(dim=1)
    return float((guesses == scored.labels).float().mean()), len(scored)


def at_chance(accuracy: float, chance: float, num_clips: int) -> bool:
    """Within 3.5 standard deviations of guessing."""
    return abs(accuracy - chance) < 3.5 * (chance * (1 - chance) / num_clips) ** 0.5


def test_a_network_on_whole_clips_knows_more_than_shuffled_frames_could_tell(motion):
    found, _ = accuracy(motion, SIX, lambda x: x)
    # Without the order of frames, pairs of opposites could only be guessed: 4 of 6 at the very best.
    assert found > 2 / 3, found


def test_a_network_on_single_frames_stays_at_chance(motion):
    def first_frame(frames: torch.Tensor) -> torch.Tensor:
        return frames[:, :1].expand(-1, 4, -1, -1, -1)

    found, num_clips = accuracy(motion, SIX, first_frame)
    assert at_chance(found, 1 / 6, num_clips)


# The courses of every pair have the same frames (tests/ingestion/test_pairs.py): two are enough to train on.
