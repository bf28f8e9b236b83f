"""ConvNet3D is the field's miniC3D, to the last weight."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from prism.errors import ConfigError
from prism.models import MODELS, Dropout, build, initialise, use_generator
from prism.runtime import generator


def shapes_through_the_blocks(network: nn.Module, *clip: int) -> list[tuple[int, ...]]:
    """(C, T, H, W) after every convolution and pooling, without computing a value."""
    x, shapes = torch.empty(1, *clip, device="meta"), []
    for layer in network.blocks:
        x = layer(x)
        if not isinstance(layer, nn.ReLU):
            shapes.append(tuple(x.shape[1:]))
    return shapes


def num_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


# Three convolutions of 3×7×7 and one of 1×1×1, each with its biases.
BLOCK_PARAMETERS = (3 * 64 * 147 + 64) + (64 * 128 * 147 + 128) + (128 * 128 * 147 + 128)


def test_layer_shapes_and_parameters_for_16_frames_of_112_pixels():
    network = build("convnet3d", "meta", num_classes=50, num_frames=16, size=112)
    assert shapes_through_the_blocks(network, 3, 16, 112, 112) == [
        (64, 16, 56, 56),
        (64, 16, 28, 28),
        (128, 16, 14, 14),
        (128, 8, 7, 7),
        (128, 8, 4, 4),
        (128, 4, 2, 2),
    ]
    assert network.pool.kernel_size == (2, 2, 2)
    assert num_parameters(network) == BLOCK_PARAMETERS + 128 * 50 + 50 == 3_647_666


def test_layer_shapes_and_parameters_for_8_frames_of_64_pixels():
    network = build("convnet3d", "meta", num_classes=400, num_frames=8, size=64)
    assert shapes_through_the_blocks(network, 3, 8, 64, 64) == [
        (64, 8, 32, 32),
        (64, 8, 16, 16),
        (128, 8, 8, 8),
        (128, 4, 4, 4),
        (128, 4, 2, 2),
        (128, 2, 1, 1),
    ]
    assert network.pool.kernel_size == (2, 1, 1)
    assert num_parameters(network) == BLOCK_PARAMETERS + 128 * 400 + 400


@pytest.mark.parametrize(("num_frames", "size", "embed_dim"), [(16, 112, 128 * 4 * 2 * 2), (8, 64, 128 * 2)])
def test_the_embedding_is_the_flattened_output_of_the_blocks(num_frames, size, embed_dim):
    network = build("convnet3d", "meta", num_classes=50, num_frames=num_frames, size=size)
    clips = torch.empty(2, 3, num_frames, size, size, device="meta")
    assert network.embed_dim == embed_dim
    assert network.embed(clips).shape == (2, embed_dim)
    assert network(clips).shape == (2, 50)


@given(st.integers(4, 20), st.integers(43, 130), st.integers(43, 130))
def test_the_network_takes_every_size_that_it_does_not_refuse(num_frames, height, width):
    network = build("convnet3d", "meta", num_classes=5, num_frames=num_frames, size=(height, width), width=2)
    clips = torch.empty(3, 3, num_frames, height, width, device="meta")
    assert network.embed(clips).shape == (3, network.embed_dim)
    assert network(clips).shape == (3, 5)


def test_the_smallest_size_works_and_one_pixel_less_is_refused_by_name():
    assert build("convnet3d", "meta", num_classes=2, num_frames=4, size=43)
    with pytest.raises(ConfigError, match="43 pixels"):
        build("convnet3d", "meta", num_classes=2, num_frames=4, size=42)
    with pytest.raises(ConfigError, match="43 pixels"):
        build("convnet3d", "meta", num_classes=2, num_frames=4, size=(64, 42))
    with pytest.raises(ConfigError, match="4 frames"):
        build("convnet3d", "meta", num_classes=2, num_frames=3, size=43)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_embeds_and_classifies_clips_of_its_shape(name):
    network = MODELS[name](num_classes=3, num_frames=8, size=48)
    clips = torch.rand(2, 3, 8, 48, 48)
    network.eval()
    assert network(clips).shape == (2, 3)
    assert network.embed(clips).shape[0] == 2
    assert network.embed(clips).dim() == 2


@pytest.mark.parametrize("name", MODELS)
def test_a_model_built_directly_is_ready_to_train(name):
    network = MODELS[name](num_classes=3, num_frames=8, size=48)
    network(torch.rand(2, 3, 8, 48, 48)).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())
    assert all(parameter.std() > 0 for parameter in network.parameters())
    torch.manual_seed(7)
    first = MODELS[name](num_classes=3, num_frames=8, size=48).state_dict()
    torch.manual_seed(7)
    second = MODELS[name](num_classes=3, num_frames=8, size=48).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)


def initialised(seed: int, **options: object) -> nn.Module:
    network = build("convnet3d", **({"num_classes": 3, "num_frames": 8, "size": 48, "width": 8} | options))
    initialise(network, generator(seed, "init"))
    return network


def test_initial_values_are_uniform_within_one_over_the_root_of_the_inputs():
    network = initialised(0, width=16)
    for module in network.modules():
        if isinstance(module, nn.Conv3d):
            bound = 1 / math.sqrt(module.in_channels * math.prod(module.kernel_size))
            for parameter in (module.weight, module.bias):
                assert parameter.abs().max() <= bound
            if module.weight.numel() > 1000:
                # Not just inside: a uniform distribution fills the range, with deviation bound / √3.
                assert module.weight.abs().max() > 0.99 * bound
                assert module.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
                assert module.weight.mean().item() == pytest.approx(0, abs=0.05 * bound)


def test_initial_values_are_distributed_as_pytorchs_own():
    ours = initialised(0, width=16).blocks[3].weight.flatten()
    theirs = (
        MODELS["convnet3d"](num_classes=3, num_frames=8, size=48, width=16).blocks[3].weight.detach().flatten()
    )
    shares = torch.linspace(0, 1, 11)
    bound = theirs.abs().max().item()
    torch.testing.assert_close(ours.quantile(shares), theirs.quantile(shares), rtol=0, atol=0.03 * bound)


def test_the_same_generator_gives_the_same_network_and_another_seed_another():
    first, again, other = (initialised(seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_initialise_leaves_no_old_value_behind():
    network = initialised(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(99.0)
    initialise(network, generator(1, "init"))
    assert all(parameter.abs().max() < 1 for parameter in network.parameters())


def test_a_layer_without_known_initial_values_is_refused_rather_than_left_empty():
    with pytest.raises(NotImplementedError, match="BatchNorm"):
        initialise(nn.Sequential(nn.BatchNorm1d(2)), generator(0, "init"))


def test_logits_are_the_largest_over_time():
    network = initialised(0, num_frames=16).eval()
    clips = torch.rand(2, 3, 16, 48, 48)
    features = network.blocks(clips)
    windows = [features[:, :, t : t + 2].mean(dim=(2, 3, 4), keepdim=True) for t in range(3)]
    over_time = torch.stack([network.classifier(window).flatten(1) for window in windows])
    torch.testing.assert_close(network(clips), over_time.amax(dim=0))
    assert not torch.allclose(network(clips), over_time.mean(dim=0))


def test_the_embedding_of_a_clip_does_not_depend_on_its_batch():
    network, clips = initialised(0).eval(), torch.rand(5, 3, 8, 48, 48)
    alone = torch.cat([network(clips[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(network(clips), alone, rtol=1e-4, atol=1e-6)


def test_dropout_draws_from_its_own_generator_and_keeps_the_mean():
    drop = nn.Sequential(Dropout(0.5))
    x = torch.ones(10_000)
    use_generator(drop, generator(0, "dropout"))
    first = drop(x)
    use_generator(drop, generator(0, "dropout"))
    torch.rand(3)
    assert torch.equal(drop(x), first)
    assert set(first.tolist()) == {0.0, 2.0}
    assert first.mean().item() == pytest.approx(1, abs=0.05)
    assert torch.equal(drop.eval()(x), x)


def test_width_scales_every_block_alike():
    network = build("convnet3d", "meta", num_classes=2, num_frames=8, size=48, width=5)
    channels = [layer.out_channels for layer in network.blocks if isinstance(layer, nn.Conv3d)]
    assert channels == [5, 10, 10]
    assert all(after >= before for before, after in pairwise(channels))
