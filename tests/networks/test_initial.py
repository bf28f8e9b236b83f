"""Initial values: PyTorch's distributions, drawn from nothing but the generator."""

import pytest
import torch
from torch import Tensor, nn

from prism.errors import ConfigError
from prism.machine.randomness import generator
from prism.networks.initial import initialise

LAYERS = {
    "Conv1d": lambda: nn.Conv1d(8, 64, 5),
    "Conv2d": lambda: nn.Conv2d(8, 64, 3, groups=4),
    "Conv3d": lambda: nn.Conv3d(4, 32, 3),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(64, 16, 3),
    "ConvTranspose2d": lambda: nn.ConvTranspose2d(32, 8, 3, groups=2),
    "ConvTranspose3d": lambda: nn.ConvTranspose3d(32, 4, 3),
    "Linear": lambda: nn.Linear(50, 100),
    "Bilinear": lambda: nn.Bilinear(20, 10, 30),
    "Embedding": lambda: nn.Embedding(100, 50, padding_idx=3),
    "EmbeddingBag": lambda: nn.EmbeddingBag(100, 50),
    "RNN": lambda: nn.RNN(30, 40, num_layers=2),
    "GRU": lambda: nn.GRU(30, 20, bidirectional=True),
    "LSTM": lambda: nn.LSTM(30, 40, proj_size=10),
    "LSTMCell": lambda: nn.LSTMCell(30, 40),
    "MultiheadAttention": lambda: nn.MultiheadAttention(40, 4),
    "MultiheadAttention of other sizes": lambda: nn.MultiheadAttention(40, 4, kdim=30, vdim=20, add_bias_kv=True),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0),
    "LayerNorm": lambda: nn.LayerNorm((4, 5)),
    "RMSNorm": lambda: nn.RMSNorm(5),
    "GroupNorm": lambda: nn.GroupNorm(2, 4),
    "BatchNorm1d": lambda: nn.BatchNorm1d(5),
    "BatchNorm3d": lambda: nn.BatchNorm3d(5),
    "InstanceNorm2d": lambda: nn.InstanceNorm2d(5, affine=True, track_running_stats=True),
    "PReLU": lambda: nn.PReLU(5, init=0.1),
}


def filled(layer: nn.Module, seed: int = 0) -> dict[str, Tensor]:
    """The values of a layer that had other ones before."""
    with torch.no_grad():
        for value in layer.state_dict().values():
            value.fill_(99)
    initialise(layer, generator(seed, "init"))
    return {key: value.clone() for key, value in layer.state_dict().items()}


@pytest.mark.parametrize("name", LAYERS)
def test_the_values_of_a_layer_are_distributed_as_pytorch_draws_them(name):
    with torch.random.fork_rng():
        torch.manual_seed(7)
        layers = [LAYERS[name]() for _ in range(20)]
    theirs = [{key: value.clone() for key, value in layer.state_dict().items()} for layer in layers]
    ours = [filled(layer, seed) for seed, layer in enumerate(layers)]
    for key in theirs[0]:
        drawn, expected = (torch.stack([one[key].double() for one in some]).flatten() for some in (ours, theirs))
        if expected.unique().numel() == 1:
            assert torch.equal(drawn, expected), key
            continue
        shares = torch.linspace(0.05, 0.95, 10).double()
        tolerance = max(0.1, 10 / len(drawn) ** 0.5) * expected.std().item()
        quantiles = (values.quantile(shares) for values in (drawn, expected))
        torch.testing.assert_close(*quantiles, rtol=0, atol=tolerance, msg=key)
        assert (drawn == 0).sum() == (expected == 0).sum(), key
        if expected.abs().max() < 2 * expected.std():
            # Uniform: as many draws of either fill the same range.
            assert drawn.abs().max().item() == pytest.approx(expected.abs().max().item(), rel=0.05), key


@pytest.mark.parametrize("name", LAYERS)
def test_nothing_reads_global_randomness(name):
    layer, before = LAYERS[name](), torch.get_rng_state()
    first = filled(layer)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert all(torch.equal(value, first[key]) for key, value in filled(layer).items())


class Token(nn.Module):
    """A parameter of its own beside a layer of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(5))
        self.layer = nn.Linear(5, 5)


class Drawn(Token):
    def initialise(self, generator: torch.Generator) -> None:
        nn.init.normal_(self.token, generator=generator)
        nn.init.zeros_(self.layer.bias)


class Statistics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(5))


@pytest.mark.parametrize("layer", [Token, Statistics])
def test_a_layer_without_known_initial_values_is_refused_rather_than_left_empty(layer):
    with pytest.raises(ConfigError, match=f"layer {layer.__name__}.*a method initialise"):
        initialise(nn.Sequential(nn.Linear(2, 2), layer()), generator(0, "init"))


def test_a_layer_that_draws_otherwise_than_pytorchs_is_refused_rather_than_drawn_as_that():
    class Orthogonal(nn.Linear):
        def reset_parameters(self) -> None:
            nn.init.orthogonal_(self.weight)

    with pytest.raises(ConfigError, match=r"Orthogonal draws its values in reset_parameters\(\).*initialise"):
        filled(Orthogonal(3, 3))


def test_a_layer_may_draw_its_own_values_and_replace_those_of_the_layers_inside():
    values = filled(nn.Sequential(Drawn()))
    assert values["0.token"].unique().numel() == 5
    assert values["0.layer.weight"].unique().numel() == 25
    assert not values["0.layer.bias"].any()


def test_a_layer_that_stands_in_two_places_is_drawn_once():
    shared = nn.Linear(3, 3)
    twice, once = filled(nn.Sequential(shared, shared)), filled(nn.Sequential(nn.Linear(3, 3)))
    assert torch.equal(twice["1.weight"], once["0.weight"])
