"""Every network keeps the same promises; ConvNet3D is the field's miniC3D, to the last weight."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from prism.artifacts.clips import Clips, Normalisation
from prism.condensation.random_networks import MOST_ON_CPU
from prism.errors import ConfigError
from prism.machine.devices import deterministic
from prism.machine.randomness import generator
from prism.networks.build import allocate, build, build_for
from prism.networks.initial import initialise
from prism.networks.network import Dropout, Network, use_generator
from prism.networks.options import NETWORKS, Schedule
from prism.networks.training import outputs_of, train


def num_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def shapes_through_the_blocks(network: nn.Module, *clip: int) -> list[tuple[int, ...]]:
    """(C, T, H, W) after every convolution and pooling, without computing a value."""
    x, shapes = torch.empty(1, *clip, device="meta"), []
    for layer in network.blocks:
        x = layer(x)
        if not isinstance(layer, nn.ReLU):
            shapes.append(tuple(x.shape[1:]))
    return shapes


# Three convolutions of 3×7×7 and one of 1×1×1, each with its biases.
BLOCK_PARAMETERS = (3 * 64 * 147 + 64) + (64 * 128 * 147 + 128) + (128 * 128 * 147 + 128)
SIDES = [(16, 56), (16, 28), (16, 14), (8, 7), (8, 4), (4, 2)]
SMALL_SIDES = [(8, 32), (8, 16), (8, 8), (4, 4), (4, 2), (2, 1)]


@pytest.mark.parametrize(("num_frames", "size", "sides"), [(16, 112, SIDES), (8, 64, SMALL_SIDES)])
def test_layer_shapes_and_parameters_of_convnet3d(num_frames, size, sides):
    network = build("convnet3d", "meta", num_classes=50, num_frames=num_frames, size=size)
    channels = [64, 64, 128, 128, 128, 128]
    shapes = [(after, frames, side, side) for after, (frames, side) in zip(channels, sides, strict=True)]
    assert shapes_through_the_blocks(network, 3, num_frames, size, size) == shapes
    assert network.pool.kernel_size == (2, sides[-1][1], sides[-1][1])
    assert num_parameters(network) == BLOCK_PARAMETERS + 128 * 50 + 50 == 3_647_666
    clips = torch.empty(2, 3, num_frames, size, size, device="meta")
    assert network.embed(clips).shape == (2, math.prod(shapes[-1])) == (2, network.embed_dim)
    assert network(clips).shape == (2, 50)


# A new network gets these tests by having a name.
every_model = pytest.mark.parametrize("name", NETWORKS.registry)
CLIP = {"num_classes": 3, "num_frames": 8, "size": 48, "width": 4}


def network_type(name: str) -> type[Network]:
    return NETWORKS.resolve(name)[0]


def drawn(name: str, seed: int = 0, **options: object) -> Network:
    return build(name, seed=seed, **(CLIP | options))


@every_model
@settings(max_examples=8)
@given(data=st.data(), num_frames=st.integers(1, 20))
def test_a_network_takes_every_size_that_it_does_not_refuse(name, data, num_frames):
    side = st.integers(network_type(name).MIN_SIZE, 130)
    size, num_frames = (data.draw(side), data.draw(side)), max(num_frames, network_type(name).MIN_FRAMES)
    network = build(name, "meta", num_classes=5, num_frames=num_frames, size=size, width=2)
    clips = torch.empty(3, 3, num_frames, *size, device="meta")
    assert network.embed(clips).shape == (3, network.embed_dim)
    assert network(clips).shape == (3, 5)


@every_model
def test_a_network_trains_on_a_single_clip_of_the_smallest_size(name):
    smallest = {"num_frames": network_type(name).MIN_FRAMES, "size": network_type(name).MIN_SIZE}
    network = drawn(name, **smallest)
    network.train()(torch.rand(1, 3, smallest["num_frames"], *network.size)).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


@every_model
def test_a_network_refuses_what_is_too_small_and_names_the_smallest(name):
    frames, size = network_type(name).MIN_FRAMES, network_type(name).MIN_SIZE
    for wrong in [{"size": size - 1}, {"size": (64, size - 1)}, {"num_frames": frames - 1}]:
        with pytest.raises(ConfigError, match=f"{name}: it needs at least {frames} frames and {size} pixels"):
            build(name, "meta", **(CLIP | wrong))


@every_model
def test_gradients_reach_every_frame_of_the_clips(name):
    clips = torch.rand(2, 3, 8, 48, 48, requires_grad=True)
    drawn(name).eval().embed(clips).square().sum().backward()
    assert (clips.grad.abs().amax(dim=(1, 3, 4)) > 0).all()


@every_model
def test_a_network_that_is_built_has_the_values_of_a_seed_and_carries_its_name(store, name):
    shape = {"num_classes": len(store.classes), "num_frames": store.num_frames, "size": store.size, "width": 4}
    for seed in (0, 1):
        expected = allocate(build(name, "meta", **shape), torch.device("cpu"))
        initialise(expected, generator(seed, "init"))
        built = build(name, **shape, seed=seed) if seed else build_for(store, name, width=4)
        values = built.state_dict()
        assert all(torch.equal(values[key], value) for key, value in expected.state_dict().items())
    assert built.name == NETWORKS.name_of(type(built)) == name
    assert type("Deeper", (type(built),), {"__module__": "theirs"})(**shape).name == "theirs:Deeper"


@every_model
def test_in_eval_mode_a_network_keeps_its_state_and_says_of_a_clip_what_no_other_changes(name):
    network, clips = drawn(name), torch.rand(5, 3, 8, 48, 48)
    network.train()(clips)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    network.eval()
    alone = torch.cat([network(clips[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(network(clips), alone, rtol=1e-3, atol=1e-5)
    embedded = torch.cat([network.embed(clips[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(network.embed(clips), embedded, rtol=1e-3, atol=1e-5)
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())


@pytest.mark.parametrize("name", ["convnet3d", "cnn-gru", "r2plus1d-18"])
def test_training_a_network_halves_its_loss_on_dark_and_bright_clips(name):
    network, labels = build(name, **CLIP), torch.tensor([0, 1, 0, 1])
    frames = torch.rand(4, 8, 3, 48, 48, generator=generator(0, "clips")) / 4 + labels.view(-1, 1, 1, 1, 1) / 2
    clips, plain = Clips(frames, labels, ("dark", "bright", "none")), Normalisation((0.5,) * 3, (0.25,) * 3)
    lr, epochs = (0.003, 48) if name == "r2plus1d-18" else (0.03, 12)  # Batch normalisation swings by more.

    def loss_after(num: int) -> float:
        train(network, clips, plain, Schedule(num, batch_size=4, lr=lr), seed=0, flip=False)
        return functional.cross_entropy(outputs_of(network, clips, plain, 4), labels).item()

    assert loss_after(epochs) < 0.5 * loss_after(0)


@every_model
def test_width_scales_a_network_and_zero_leaves_it_as_published(name):
    def count(**options: int) -> int:
        return num_parameters(build(name, "meta", num_classes=3, num_frames=8, size=48, **options))

    published = network_type(name).WIDTH
    assert count(width=2) < count(width=4) < count() == count(width=0, hidden=0) == count(width=published)


@every_model
def test_neither_draws_nor_embeddings_depend_on_the_layout_in_memory(name):
    with torch.device("meta"):
        plain = network_type(name)(**CLIP).to_empty(device="cpu")
    initialise(plain, generator(0, "init"))
    ours, clips = drawn(name), torch.rand(2, 3, 8, 48, 48)
    assert all(torch.equal(value, plain.state_dict()[key]) for key, value in ours.state_dict().items())
    torch.testing.assert_close(ours.eval().embed(clips), plain.eval().embed(clips), rtol=1e-4, atol=1e-5)


def test_memory_is_laid_out_for_the_device_also_where_it_is_given_later():
    later = allocate(build("convnet3d", "meta", **CLIP), torch.device("cpu"))
    for network in (later, build("convnet3d", **CLIP)):
        convolution = network.blocks[3].weight
        assert convolution.is_contiguous(memory_format=torch.channels_last_3d)
        assert not convolution.is_contiguous()


def test_a_block_is_convolution_relu_and_pooling_as_published():
    network, clips = drawn("convnet3d").eval(), torch.rand(2, 3, 8, 48, 48)
    x = clips
    for i, pool in [(0, (1, 2, 2)), (3, 2), (6, 2)]:
        x = nn.functional.max_pool3d(network.blocks[i](x).relu(), pool)
    assert torch.equal(network.embed(clips), x.flatten(1))


def test_logits_are_the_largest_over_time():
    network = drawn("convnet3d", num_frames=16).eval()
    clips = torch.rand(2, 3, 16, 48, 48)
    features = network.blocks(clips)
    windows = [features[:, :, t : t + 2].mean(dim=(2, 3, 4), keepdim=True) for t in range(3)]
    over_time = torch.stack([network.classifier(window).flatten(1) for window in windows])
    torch.testing.assert_close(network(clips), over_time.amax(dim=0))
    assert not torch.allclose(network(clips), over_time.mean(dim=0))


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


@pytest.mark.parametrize("width", [4, 16, 64])
def test_in_one_thread_no_bit_of_convnet3d_depends_on_the_clips_beside_a_clip(width):
    """So classes condensed apart give the bytes of those condensed together; at sizes of the fast kernels."""
    network = build("convnet3d", num_classes=2, num_frames=8, size=64, width=width).eval()
    clips = torch.randn(6, 3, 8, 64, 64, generator=generator(0, "clips"))

    def embedded(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        part = part.detach().requires_grad_()
        embedding = network.embed(part)
        return embedding.detach(), torch.autograd.grad(embedding.square().sum(), part)[0]

    with deterministic(torch.device("cpu")):
        alone = [torch.cat(values) for values in zip(*map(embedded, clips.split(1)), strict=True)]
        for first, last in ((0, 6), (0, 2), (1, 4), (2, 6), (1, 6)):
            for together, single in zip(embedded(clips[first:last]), alone, strict=True):
                assert torch.equal(together, single[first:last])


@pytest.mark.parametrize(("num_frames", "size"), [(7, 64), (16, 50)])
def test_in_one_thread_many_clips_round_like_each_alone(num_frames, size):
    network = build("convnet3d", num_classes=2, num_frames=num_frames, size=size, width=8).eval()
    clips = torch.randn(MOST_ON_CPU, 3, num_frames, size, size, generator=generator(0, "clips"))
    with deterministic(torch.device("cpu")), torch.no_grad():
        alone = torch.cat([network.embed(clip) for clip in clips.split(1)])
        assert torch.equal(network.embed(clips), alone)
