"""Every part that PRISM ships keeps the promises of `prism.testing`, and a part that breaks one is caught."""

from dataclasses import dataclass

import pytest
import torch

from prism import testing
from prism.condensation.objectives import MatchLoss, Objective
from prism.condensation.options import METHODS, OBJECTIVES, RULES, CondenseConfig
from prism.condensation.rules import InsertionRule
from prism.errors import ConfigError
from prism.networks.network import Network
from prism.networks.options import NETWORKS


@pytest.mark.parametrize("name", RULES.registry)
def test_every_rule_keeps_its_promises(tiny, name):
    testing.check_rule(RULES.make(name, CondenseConfig(epsilon=0.03)), tiny.path)


@pytest.mark.parametrize("name", OBJECTIVES.registry)
def test_every_objective_keeps_its_promises(tiny, name):
    testing.check_objective(OBJECTIVES.make(name, CondenseConfig()), tiny)


@pytest.mark.parametrize("name", METHODS.registry)
def test_every_method_keeps_its_promises(tiny, name):
    testing.check_method(METHODS.make(name, CondenseConfig(static_iterations=2)), tiny)


@pytest.mark.parametrize("name", ["convnet3d", "cnn-gru"])
def test_every_network_keeps_its_promises(name):
    testing.check_network(NETWORKS.resolve(name)[0], num_frames=4)


class Forgetful(InsertionRule):
    """Draws from the global stream."""

    def propose(self, state):
        return torch.rand(state.mask.shape) < 0.5


@dataclass
class Counting(InsertionRule):
    """Remembers, so that a resumed run differs."""

    seen: int = 0

    def propose(self, state):
        self.seen += 1
        return ~state.mask if self.seen > 6 else torch.zeros_like(state.mask)


class Comparing(InsertionRule):
    """Proposes frames of the video whose gradients are the largest, and promises more."""

    independent_classes = True

    def propose(self, state):
        energy = state.conflict.energy.sum(dim=1, keepdim=True)
        return (energy == energy.max()) & ~state.mask


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (Forgetful(), "from the generator alone|the bytes of one that was not stopped"),
        (Counting(), "the bytes of one that was not stopped|another part"),
        (Comparing(), "or independent_classes be False"),
    ],
)
def test_a_rule_that_breaks_a_promise_is_caught_with_a_sentence(tiny, rule, sentence):
    with pytest.raises((AssertionError, ConfigError), match=sentence):
        testing.check_rule(rule, tiny)


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


class Overflowing(Colours):
    def embed(self, clips):
        return super().embed(clips) * float("nan")


class Tall(Colours):
    """Takes height and width, and trains its classifier alone."""

    def __init__(self, size, **shape):
        height, width = size
        super().__init__(size=size, **shape)
        self.layer = torch.nn.Linear(height, width).requires_grad_(False)


@pytest.mark.parametrize("size", [48, (48, 64)])
def test_a_network_gets_height_and_width_and_may_freeze_layers(size):
    testing.check_network(Tall, size=size)


def made(base, **methods):
    return type("Made", (base,), methods)


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (made(Colours, embed=lambda _, c: (c - c.mean(0))[..., 0, 0, 0]), "no clip may depend on those beside it"),
        (Dropping, "dropout = 0.5 of the layer Dropout does not depend on the seed"),
        (Thinned, "randomness must come from the generator alone"),
        (
            made(Colours, forward=lambda self, clips: self.embed(clips) @ torch.ones(3, 3)),
            "does not require grad|the logits must be differentiable in the weights",
        ),
        (Overflowing, "embeddings and logits must be finite"),
        (
            made(Colours, forward=lambda self, clips: self.classifier(self.embed(clips))[:, :1]),
            r"forward of .* must give \(N, num_classes\) = \(4, 3\) of torch\.float32, got \(4, 1\)",
        ),
        (made(Colours, forward=lambda self, clips: self.embed(clips).softmax(0)), "no clip may depend on those"),
        (made(Colours, embed=lambda _, clips: clips.half()), "embed of the network .* must give"),
        (made(Colours, embed=lambda _, c: c.data[..., 0, 0, 0]), "embeddings must be differentiable in the clips"),
    ],
)
def test_a_network_that_the_verbs_could_not_use_is_caught_with_a_sentence(network, sentence):
    testing.check_network(Colours)
    with pytest.raises((AssertionError, ConfigError, RuntimeError), match=sentence):
        testing.check_network(network)


@dataclass(frozen=True)
class Greyness(Objective):
    """The distance of clips from grey, with gradients that a test spoils."""

    factor: float = 2.0
    is_grey: bool = False

    def match(self, network, real, clips, chunk):
        losses = clips.view(len(real), -1).square().sum(dim=1)
        (gradients,) = torch.autograd.grad(self.factor / 2 * losses.sum(), clips)
        if self.is_grey:
            clips.detach().zero_()
        return MatchLoss(losses, gradients)


@pytest.mark.parametrize(
    ("objective", "sentence"),
    [
        (Greyness(factor=3.0), "the gradients are not those of the sum of the losses"),
        (Greyness(is_grey=True), "without a change of the clips"),
        (Greyness(factor=float("nan")), "losses and their gradients must be finite"),
        (Greyness(factor=0.0), "the losses must depend on the clips"),
        (made(Objective, loss=lambda _, real, syn: (real - syn.mean(0)).square().sum(1)), "a loss for each class"),
        (made(Objective, loss=lambda _, real, s: (real - s.mean((0, 1))).square().sum(1)), "a class alone must"),
        (made(Objective, real=lambda _, networks, iteration: networks.trained(0)), "trained = 0 and epochs = 0"),
    ],
)
def test_an_objective_that_breaks_a_promise_is_caught(tiny, objective, sentence):
    testing.check_objective(Greyness(), tiny)
    testing.check_objective(Greyness, tiny)
    with pytest.raises((AssertionError, ConfigError), match=sentence):
        testing.check_objective(objective, tiny)


def test_a_tiny_store_may_have_more_than_ten_classes(tmp_path):
    assert len(testing.tiny_store(tmp_path / "store", classes=11, clips=1, size=8).classes) == 11
