"""R(2+1)D-18 has the layers of torchvision's, to the last weight."""

import pytest
import torch
from torch import nn

from prism.machine.randomness import generator
from prism.networks.build import build
from prism.networks.residual import HeConv3d


def factorised(before: int, between: int, after: int) -> int:
    """A 1×3×3 and a 3×1×1 convolution without biases, each with a norm."""
    return 9 * before * between + 2 * between + 3 * between * after + 2 * after


def block(before: int, between: int, after: int) -> int:
    shortcut = before * after + 2 * after if before != after else 0
    return factorised(before, between, after) + factorised(after, between, after) + shortcut


def test_layers_and_parameters_are_those_of_the_published_network():
    network = build("r2plus1d-18", "meta", num_classes=400, num_frames=16, size=112)
    stem = 3 * 45 * 49 + 2 * 45 + 3 * 45 * 64 + 2 * 64
    stages = [
        2 * block(64, 144, 64),
        block(64, 230, 128) + block(128, 288, 128),
        block(128, 460, 256) + block(256, 576, 256),
        block(256, 921, 512) + block(512, 1152, 512),
    ]
    expected = stem + sum(stages) + 512 * 400 + 400
    # The number that torchvision states for its weights of Kinetics-400.
    assert sum(parameter.numel() for parameter in network.parameters()) == expected == 31_505_325


@pytest.mark.parametrize(
    ("num_frames", "size", "shapes"),
    [
        (16, 112, [(64, 16, 56, 56), (128, 8, 28, 28), (256, 4, 14, 14), (512, 2, 7, 7)]),
        (8, 64, [(64, 8, 32, 32), (128, 4, 16, 16), (256, 2, 8, 8), (512, 1, 4, 4)]),
    ],
)
def test_every_stage_after_the_first_halves_time_and_space(num_frames, size, shapes):
    network = build("r2plus1d-18", "meta", num_classes=5, num_frames=num_frames, size=size)
    x, seen = network.stem(torch.empty(2, 3, num_frames, size, size, device="meta")), []
    for number, layer in enumerate(network.blocks):
        x = layer(x)
        if number % 2:
            seen.append(tuple(x.shape[1:]))
    assert seen == shapes
    assert network.embed_dim == 512


def small(seed: int = 0) -> nn.Module:
    return build("r2plus1d-18", num_classes=3, num_frames=8, size=32, width=8, seed=seed)


def test_convolutions_start_normal_with_variance_two_over_fan_out():
    for module in (*small().modules(), *type(small())(num_classes=3, num_frames=8, size=32, width=8).modules()):
        if isinstance(module, HeConv3d) and module.weight.numel() > 1000:
            kernel = module.weight[0, 0].numel()
            expected = (2 / (module.out_channels * kernel)) ** 0.5
            assert module.weight.std().item() == pytest.approx(expected, rel=0.1)


def test_an_untrained_network_tells_clips_apart_in_eval_mode():
    """What condensation needs: with PyTorch's default values the signal would fade by a factor of a hundred."""
    embeddings = small().eval().embed(torch.randn(6, 3, 8, 32, 32, generator=generator(0, "clips")))
    assert embeddings.square().sum(dim=1).mean() > 1
    assert (embeddings - embeddings.mean(dim=0)).square().sum(dim=1).mean() > 1e-3
