"""Custom networks: evaluated as an object or by name, and recorded by that name."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result
from prism.condensation.condense import condense
from prism.errors import ConfigError
from prism.evaluation.evaluate import evaluate
from prism.networks.network import Dropout, Network
from prism.selection.select import select

TINY = {"epochs": 2, "seeds": 1, "device": "cpu"}


class Weighting(nn.Module):
    """A weight for each channel, and a fixed sign."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels))
        self.register_buffer("sign", torch.empty(channels))

    def initialise(self, generator: torch.Generator) -> None:
        nn.init.uniform_(self.weight, 0.5, 1.5, generator=generator)
        self.sign.fill_(-1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight * self.sign


class Own(Network):
    """The colours of a clip at a few places, normalised, weighted and mixed."""

    def __init__(
        self, *, num_classes: int, num_frames: int, size: int | tuple[int, int], depth: int = 1, rate: float = 0.0
    ) -> None:
        super().__init__(num_classes=num_classes, num_frames=num_frames, size=size)
        self.pool = nn.AdaptiveAvgPool3d((1, 2, 2))
        layers = [nn.LayerNorm(12), Weighting(12), *(nn.Linear(12, 12) for _ in range(depth)), Dropout(rate)]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Linear(12, num_classes)
        self.embed_dim = 12

    def embed(self, clips: Tensor) -> Tensor:
        return self.layers(self.pool(clips).flatten(1))

    def forward(self, clips: Tensor) -> Tensor:
        return self.classifier(self.embed(clips))


class WithoutEmbedding(Network):
    def forward(self, clips: Tensor) -> Tensor:
        return clips


class Wrapped(Own):
    """One that holds any layer."""

    def __init__(self, layer: Callable[[], nn.Module], **shape: int) -> None:
        super().__init__(**shape)
        self.layer = layer()


class Loose(Own):
    """One that holds a tensor which is no buffer."""

    def __init__(self, **shape: int) -> None:
        super().__init__(**shape)
        self.layers[0].tint = torch.ones(12)


class Loaded(Own):
    """One that loads values where layers have no memory."""

    def __init__(self, **shape: int) -> None:
        super().__init__(**shape)
        self.layers[0].load_state_dict({"weight": ONES, "bias": ONES})


ONES = torch.ones(12)
NAME = f"{__name__}:Own"


@pytest.fixture
def chosen(roomy) -> CondensedSet:
    return select(roomy, vpc=2)


def scores(result: Result) -> list[tuple[dict[str, float], float]]:
    return [(run.scores, run.train_loss) for run in result.runs]


def test_a_network_is_the_same_as_an_object_and_by_its_name_and_is_recorded(roomy, chosen):
    by_name = evaluate(chosen, roomy, model=NAME, **TINY)
    torch.manual_seed(99)
    by_object = evaluate(chosen, roomy, model=Own, **TINY)
    assert (scores(by_name), by_name.config) == (scores(by_object), by_object.config)
    assert by_name.config["model"] == NAME


@pytest.mark.parametrize("epochs", [0, 1])
def test_clips_are_chosen_by_its_embeddings_which_are_never_taken_from_a_cache(roomy, epochs):
    """Its code may have changed under the same name."""
    options = {"method": "herding", "vpc": 2, "epochs": epochs, "device": "cpu"}
    by_name, by_object = (select(roomy, model=model, **options) for model in (NAME, Own))
    assert by_name.to_bytes() == by_object.to_bytes()
    assert by_name.source["config"]["model"] == NAME
    assert not (roomy.path / "cache").exists()


UNUSABLE = [
    (WithoutEmbedding, rf"the network '{__name__}:WithoutEmbedding' cannot be made: .* abstract method '?embed"),
    (Loose, r"the network '.*Loose' holds the tensor 'tint', which .*\. Use register_buffer, and"),
    (Loaded, r"the network '.*Loaded' loads values in __init__, .*\. Load them in initialise\(generator\)\."),
    (nn.Linear(3, 3), r"the network must be a class, or a functools\.partial of one, not a Linear\."),
    (nn.Linear, "the network '.*Linear' does not derive from prism.networks.network.Network"),
    (f"{NAME}(dept=3)", rf"the network '{NAME}\(dept=3\)' cannot be made: .*'dept'"),
    (f"{__name__}:Onw", f"module '{__name__}' has no attribute 'Onw'"),
]


@pytest.mark.parametrize(("model", "says"), UNUSABLE)
def test_a_network_that_cannot_be_used_is_refused_in_one_sentence(roomy, chosen, model, says):
    with pytest.raises(ConfigError, match=says):
        evaluate(chosen, roomy, model=model, **TINY)


@pytest.mark.parametrize(
    "layer",
    [
        partial(nn.Dropout, 0.5),
        partial(nn.LSTM, 2, 2, num_layers=2, dropout=0.5),
        partial(nn.MultiheadAttention, 2, 1, dropout=0.5),
    ],
)
def test_a_layer_that_would_draw_from_global_randomness_is_refused(roomy, chosen, layer):
    says = rf"dropout = 0\.5 of the layer {layer.func.__name__} does not depend on"
    with pytest.raises(ConfigError, match=says):
        evaluate(chosen, roomy, model=partial(Wrapped, layer=layer), **TINY)


class Odd(Own):
    """Gives something else than it should."""

    def __init__(self, *, embeds=None, says=None, **shape: int) -> None:
        super().__init__(**shape)
        self.embeds, self.says = embeds or (lambda x: x), says or (lambda x: x)

    def embed(self, clips: Tensor) -> Tensor:
        return self.embeds(super().embed(clips))

    def forward(self, clips: Tensor) -> Tensor:
        return self.says(self.classifier(Own.embed(self, clips)))


@pytest.mark.parametrize(
    ("says", "got"),
    [
        (lambda logits: torch.cat([logits, logits], dim=1), r"\(\d+, 4\) of torch\.float32"),
        (lambda logits: logits[:1], r"\(1, 2\) of torch\.float32"),
        (lambda logits: logits.double(), r"\(\d+, 2\) of torch\.float64"),
        (lambda logits: None, "a NoneType"),
    ],
)
def test_a_network_that_gives_no_logits_is_refused_in_one_sentence(roomy, chosen, says, got):
    sentence = rf"forward of the network '{__name__}:Odd.*' must give \(N, num_classes\) = \(.*, got {got}\."
    with pytest.raises(ConfigError, match=sentence):
        evaluate(chosen, roomy, model=partial(Odd, says=says), **TINY)


@pytest.mark.parametrize(
    ("embeds", "got"),
    [
        (lambda found: found[:, :, None].repeat(1, 1, 8), r"\(\d+, 12, 8\) of torch\.float32"),
        (lambda found: found.double(), r"\(\d+, 12\) of torch\.float64"),
        (lambda found: None, "a NoneType"),
    ],
)
def test_a_network_that_gives_no_embeddings_is_refused_in_one_sentence(roomy, chosen, embeds, got):
    model = partial(Odd, embeds=embeds)
    sentence = rf"embed of the network '{__name__}:Odd.*' must give \(N, embed_dim\) = \(.*, got {got}\."
    for epochs in (0, 1):
        with pytest.raises(ConfigError, match=sentence):
            select(roomy, method="herding", model=model, epochs=epochs, device="cpu")
    with pytest.raises(ConfigError, match=sentence):
        condense(roomy, model=model, iterations=1, device="cpu")


def test_another_error_of_a_networks_own_code_keeps_its_traceback(roomy, chosen):
    for size, says in ((1, lambda logits: int("own")), (2, lambda logits: nn.BatchNorm1d(2)(logits[:1]))):
        with pytest.raises(ValueError, match=r"^(invalid literal|Expected more than 1 value)"):
            evaluate(chosen, roomy, model=partial(Odd, says=says), batch_size=size, **TINY)
