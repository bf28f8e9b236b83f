"""Every part that PRISM ships keeps the promises of `prism.testing`, and a part that breaks one is caught."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from prism import testing
from prism.artifacts import STORAGES
from prism.condensation.objectives import Compared, Objective
from prism.condensation.options import METHODS, OBJECTIVES, RULES, CondenseConfig
from prism.condensation.rules import InsertionRule
from prism.errors import OutputError
from prism.networks.network import Network
from prism.networks.options import NETWORKS
from prism.selection.methods import Selection
from prism.selection.options import SELECTIONS, SelectConfig


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return testing.tiny_store(tmp_path_factory.mktemp("tiny") / "store")


@pytest.mark.parametrize("name", RULES.registry)
def test_every_rule_keeps_its_promises(tiny, name):
    testing.check_rule(RULES.make(name, CondenseConfig(epsilon=0.03)), tiny)


@pytest.mark.parametrize("name", OBJECTIVES.registry)
def test_every_objective_keeps_its_promises(tiny, name):
    testing.check_objective(OBJECTIVES.make(name, CondenseConfig()), tiny)


@pytest.mark.parametrize("name", METHODS.registry)
def test_every_method_keeps_its_promises(tiny, name):
    testing.check_method(METHODS.make(name, CondenseConfig(static_iterations=2)), tiny)


@pytest.mark.parametrize("name", ["convnet3d", "cnn-gru"])
def test_every_network_keeps_its_promises(name):
    testing.check_network(NETWORKS.resolve(name)[0], num_frames=4)


@pytest.mark.parametrize("name", SELECTIONS.registry)
def test_every_selection_keeps_its_promises(name):
    testing.check_selection(SELECTIONS.make(name, SelectConfig()))


@pytest.mark.parametrize("name", STORAGES.registry)
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


class Comparing(InsertionRule):
    """Proposes frames of the video whose gradients are the largest, and promises more."""

    independent_classes = True

    def propose(self, occasion):
        energy = occasion.conflict.energy.sum(dim=1, keepdim=True)
        return (energy == energy.max()) & ~occasion.conflict.mask


class Drawing(InsertionRule):
    """Draws more than one number for each frame, and promises less."""

    independent_classes = True

    def propose(self, occasion):
        return torch.rand((*occasion.conflict.mask.shape, 2), generator=occasion.generator)[..., 0] < 0.5


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (Forgetful(), "from the generator alone"),
        (Meddling(), "must not change the gradients"),
        (Counting(), "the bytes of one that was not stopped|the same proposal|another part"),
        (Comparing(), "must judge every video by itself, and draw so, or independent_classes be False"),
        (Drawing(), "must judge every video by itself, and draw so, or independent_classes be False"),
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


class Colours(Network):
    """Embeds a clip by its mean colour."""

    embed_dim = 3

    def __init__(self, **shape):
        super().__init__(**shape)
        self.classifier = torch.nn.Linear(3, self.num_classes)

    def embed(self, clips):
        return clips.mean(dim=(2, 3, 4))

    def forward(self, clips):
        return self.classifier(self.embed(clips))


class Dropping(Colours):
    def __init__(self, **shape):
        super().__init__(**shape)
        self.dropout = torch.nn.Dropout(0.5)


class Thinned(Colours):
    """Leaves out colours at random while it trains."""

    def forward(self, clips):
        return self.classifier(torch.nn.functional.dropout(self.embed(clips), 0.5, self.training))


class Noisy(Colours):
    def embed(self, clips):
        return super().embed(clips) + torch.rand(3, device=clips.device)


class Constant(Colours):
    def __init__(self, **shape):
        super().__init__(**shape)
        self.places = torch.arange(3.0)

    def embed(self, clips):
        return super().embed(clips) + self.places


class Detached(Colours):
    def forward(self, clips):
        return self.embed(clips) @ torch.ones(3, self.num_classes)


class Overflowing(Colours):
    def embed(self, clips):
        return super().embed(clips) * float("nan")


class Narrow(Colours):
    def forward(self, clips):
        return super().forward(clips)[:, :1]


class Long(Colours):
    def embed(self, clips):
        return super().embed(clips).double()

    def forward(self, clips):
        return self.classifier(self.embed(clips).float())


class Mistyped(Colours):
    def embed(self, clips):
        return clips.maen(dim=(2, 3, 4))


class Cut(Colours):
    def embed(self, clips):
        return super().embed(clips.detach())


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (Dropping, "dropout = 0.5 of the layer Dropout does not depend on the seed"),
        (Thinned, "randomness must come from the generator alone"),
        (Noisy, "randomness must come from the generator alone"),
        (Constant, "the part fails: RuntimeError: .*meta"),
        (Detached, "a loss of the logits must have a gradient with respect to the weights"),
        (Overflowing, "embeddings and logits must be finite"),
        (Mistyped, "the part fails: AttributeError"),
        (Narrow, r"forward of .* must give \(N, num_classes\) = \(4, 3\) of torch\.float32, got \(4, 1\)"),
        (Long, r"embed of .* must give \(N, embed_dim\) = \(4, 3\) of .*, got \(4, 3\) of torch\.float64"),
        (Cut, "embeddings must be differentiable in the clips"),
    ],
)
def test_a_network_that_the_verbs_could_not_use_is_caught_with_a_sentence(network, sentence):
    testing.check_network(Colours)
    with pytest.raises(AssertionError, match=sentence):
        testing.check_network(network)


class Nothing(InsertionRule):
    def propose(self, occasion):
        return None


class Raising(InsertionRule):
    def propose(self, occasion):
        raise KeyError("no frame")


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [(Nothing(), r"must propose \(V, T\) = \(4, 8\) booleans, got a None"), (Raising(), "KeyError: 'no frame'")],
)
def test_whatever_a_part_does_a_check_fails_with_a_sentence(tiny, rule, sentence):
    with pytest.raises(AssertionError, match=sentence):
        testing.check_rule(rule, tiny)


@dataclass(frozen=True)
class Picking(Selection):
    """Picks what it is told."""

    picks: object = None

    def choose(self, embeddings, num, generator):
        return self.picks


@pytest.mark.parametrize(
    ("picks", "sentence"),
    [
        (None, "gave a NoneType of 0 positions, but it must choose 1 different ones in 0..6"),
        ([0.5], "gave a list of 0 positions"),
        ([7], "gave a list of 1 positions, but it must choose 1 different"),
        ([0, 0], "gave a list of 2 positions, but it must choose 1 different"),
    ],
)
def test_a_selection_that_picks_something_else_is_caught(picks, sentence):
    with pytest.raises(AssertionError, match=sentence):
        testing.check_selection(Picking(picks))


@dataclass(frozen=True)
class Greyness(Objective):
    """How far clips are from grey; what it does beside that is for the test to say."""

    spoil: Callable = lambda clips: None
    dtype: str = "float32"

    def start(self, store, config, device, classes):
        def compare(clips, iteration, generator, view):
            gradients = 2 * clips.detach()
            losses = clips.detach().view(len(classes), -1).square().sum(dim=1)
            self.spoil(clips)
            return Compared(losses, gradients.to(getattr(torch, self.dtype)))

        return compare


@pytest.mark.parametrize(
    ("objective", "sentence"),
    [
        (Greyness(spoil=lambda clips: clips.detach().zero_()), "it changes the clips that it compares"),
        (Greyness(spoil=lambda clips: clips.data.zero_()), "must not change the clips that it compares"),
        (Greyness(dtype="int64"), r"gradients must be of torch\.float32, got torch\.int64"),
    ],
)
def test_an_objective_that_breaks_a_promise_is_caught(tiny, objective, sentence):
    testing.check_objective(Greyness(), tiny)
    with pytest.raises(AssertionError, match=sentence):
        testing.check_objective(objective, tiny)


def test_a_layout_that_finds_nothing_is_caught(tmp_path: Path):
    from prism.ingestion.listing import ClassFolders

    with pytest.raises(AssertionError, match="finds no video"):
        testing.check_layout(ClassFolders(), tmp_path)


def test_a_tiny_store_may_have_more_than_ten_classes(tmp_path):
    assert len(testing.tiny_store(tmp_path / "store", classes=11, clips=1, size=8).classes) == 11


def test_a_tiny_store_does_not_replace_what_exists(tmp_path):
    with pytest.raises(OutputError, match=r"store '.*' exists already\. Delete it, or choose another path\.$"):
        testing.tiny_store(tmp_path)
