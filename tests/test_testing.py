"""Every part that PRISM ships keeps the promises of `prism.testing`, and a part that breaks one is caught."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from prism import testing
from prism.artifacts.options import STORAGES
from prism.condensation.options import METHODS, OBJECTIVES, RULES, CondenseConfig
from prism.condensation.rules import InsertionRule
from prism.networks.network import Network
from prism.networks.options import NETWORKS
from prism.selection.methods import Selection
from prism.selection.options import SELECTIONS, SelectConfig


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return testing.tiny_store(tmp_path_factory.mktemp("tiny") / "store")


@pytest.mark.parametrize("name", RULES.homes)
def test_every_rule_keeps_its_promises(tiny, name):
    testing.check_rule(RULES.make(name, CondenseConfig(epsilon=0.03)), tiny)


@pytest.mark.parametrize("name", OBJECTIVES.homes)
def test_every_objective_keeps_its_promises(tiny, name):
    testing.check_objective(OBJECTIVES.make(name, CondenseConfig()), tiny)


@pytest.mark.parametrize("name", METHODS.homes)
def test_every_method_keeps_its_promises(tiny, name):
    testing.check_method(METHODS.make(name, CondenseConfig()), tiny)


@pytest.mark.parametrize("name", ["convnet3d", "cnn-gru"])
def test_every_network_keeps_its_promises(name):
    testing.check_network(NETWORKS.found(name)[0], num_frames=4)


@pytest.mark.parametrize("name", SELECTIONS.homes)
def test_every_selection_keeps_its_promises(name):
    testing.check_selection(SELECTIONS.make(name, SelectConfig()))


@pytest.mark.parametrize("name", STORAGES.homes)
def test_every_storage_keeps_its_promises(tmp_path, name):
    testing.check_storage(STORAGES.make(name, CondenseConfig()), tmp_path / "set")


class Forgetful(InsertionRule):
    """Draws from the global stream."""

    def propose(self, occasion):
        return torch.rand(occasion.conflict.mask.shape) < 0.5


class Meddling(InsertionRule):
    """Changes what it judges."""

    def propose(self, occasion):
        occasion.gradients.zero_()
        return ~occasion.conflict.mask


@dataclass
class Counting(InsertionRule):
    """Remembers, so that a resumed run differs."""

    seen: int = 0

    def propose(self, occasion):
        self.seen += 1
        return ~occasion.conflict.mask if self.seen > 3 else torch.zeros_like(occasion.conflict.mask)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (Forgetful(), "from the generator alone"),
        (Meddling(), "must not change the gradients"),
        (Counting(), "the bytes of one that was not stopped|the same proposal|another part"),
    ],
)
def test_a_rule_that_breaks_a_promise_is_caught(tiny, rule, sentence):
    with pytest.raises(AssertionError, match=sentence):
        testing.check_rule(rule, tiny)


class Crowded(Network):
    """Embeds a clip by its distance from the mean of the batch."""

    def __init__(self, *, num_classes: int, num_frames: int, size: tuple[int, int]) -> None:
        super().__init__(num_classes=num_classes, num_frames=num_frames, size=size)
        self.embed_dim = 3
        self.classifier = torch.nn.Linear(3, num_classes)

    def embed(self, clips):
        means = clips.mean(dim=(2, 3, 4))
        return means - means.mean(dim=0)

    def forward(self, clips):
        return self.classifier(self.embed(clips))


def test_a_network_that_mixes_the_clips_of_a_batch_is_caught():
    with pytest.raises(AssertionError, match="no clip may depend on those beside it"):
        testing.check_network(Crowded)


class First(Selection):
    """Picks one clip again and again."""

    def choose(self, embeddings, num, generator):
        return [0] * num


def test_a_selection_that_picks_a_clip_twice_is_caught():
    with pytest.raises(AssertionError, match="different clips"):
        testing.check_selection(First())


def test_a_layout_that_finds_nothing_is_caught(tmp_path: Path):
    from prism.ingestion.layouts import ClassFolders

    with pytest.raises(AssertionError, match="finds no video"):
        testing.check_layout(ClassFolders(), tmp_path)
