"""A strided convolution that is computed in other ways is still that convolution."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from prism.machine.randomness import generator
from prism.networks.build import build
from prism.networks.gradients import by_matrices, by_phases, by_pictures, input_gradient, weight_gradient
from prism.networks.initial import initialise
from prism.networks.strided import StridedConv3d

sizes = st.tuples(st.integers(1, 6), st.integers(1, 13), st.integers(1, 13))
kernels = st.tuples(*[st.sampled_from([1, 3, 5, 7])] * 3)
strides = st.tuples(*[st.integers(1, 4)] * 3)


def layer(frozen: bool = True) -> StridedConv3d:
    made = StridedConv3d(3, 5, (3, 7, 7), (1, 2, 2), (1, 3, 3)).double()
    initialise(made, generator(0, "init"))
    return made.requires_grad_(not frozen)


def drawn(*shape: int, name: str = "clips") -> Tensor:
    return torch.randn(shape, generator=generator(1, name), dtype=torch.float64)


@pytest.mark.parametrize("way", [input_gradient, by_phases])
@given(size=sizes, kernel=kernels, stride=strides)
def test_the_input_gradient_is_that_of_automatic_differentiation(way, size, kernel, stride):
    clips, weight = drawn(2, 3, *size).requires_grad_(), drawn(4, 3, *kernel, name="weight")
    outputs = functional.conv3d(clips, weight, None, stride, tuple(side // 2 for side in kernel))
    gradient = drawn(*outputs.shape, name="gradient")
    (expected,) = torch.autograd.grad(outputs, clips, gradient)
    torch.testing.assert_close(way(gradient, weight, stride, size), expected)


@pytest.mark.parametrize("way", [weight_gradient, by_pictures, by_matrices])
@given(size=sizes, kernel=kernels, stride=strides)
def test_the_weight_gradient_is_that_of_automatic_differentiation(way, size, kernel, stride):
    clips, weight = drawn(2, 3, *size), drawn(4, 3, *kernel, name="weight").requires_grad_()
    outputs = functional.conv3d(clips, weight, None, stride, tuple(side // 2 for side in kernel))
    gradient = drawn(*outputs.shape, name="gradient")
    (expected,) = torch.autograd.grad(outputs, weight, gradient)
    torch.testing.assert_close(way(gradient, clips, stride, kernel), expected)


def test_many_clips_are_added_up_a_few_at_a_time():
    clips, weight = drawn(70, 3, 2, 4, 4), drawn(4, 3, 3, 7, 7, name="weight").requires_grad_()
    outputs = functional.conv3d(clips, weight, None, (1, 2, 2), (1, 3, 3))
    gradient = drawn(*outputs.shape, name="gradient")
    (expected,) = torch.autograd.grad(outputs, weight, gradient)
    torch.testing.assert_close(by_matrices(gradient, clips, (1, 2, 2), (3, 7, 7)), expected)


@settings(max_examples=8)
@given(size=sizes)
def test_a_frozen_layer_has_the_gradient_of_finite_differences(size):
    assert torch.autograd.gradcheck(layer(), drawn(1, 3, *size).requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("processor", ["AVX2", "AVX512", "DEFAULT"])
@pytest.mark.parametrize("before", [3, 16, 40], ids=["colours in", "few channels in", "many in"])
@pytest.mark.parametrize("after", [5, 40], ids=["few channels out", "many out"])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last_3d])
@pytest.mark.parametrize("size", [(9, 12), (3, 4)], ids=["large", "small"])
@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "trained"])
def test_it_has_the_layout_values_and_gradients_of_the_plain_one(
    monkeypatch, processor, before, after, memory_format, size, frozen
):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: processor)
    ours, plain = (kind(before, after, (3, 7, 7), (1, 2, 2), (1, 3, 3)) for kind in (StridedConv3d, nn.Conv3d))
    initialise(ours, generator(0, "init"))
    plain.load_state_dict(ours.state_dict())
    for each in (ours, plain):
        each.requires_grad_(not frozen).weight.data = each.weight.data.to(memory_format=memory_format)
    # As condensation hands them over: frames before channels in memory.
    clips = drawn(2, 4, before, *size).float().transpose(1, 2)
    values, gradients = [], []
    for convolution in (ours, plain):
        inputs = clips.detach().requires_grad_()
        values.append(convolution(inputs))
        wanted = [inputs] if frozen else [inputs, convolution.weight, convolution.bias]
        gradients.append(torch.autograd.grad(values[-1].square().sum(), wanted))
    assert torch.equal(*values)
    assert values[0].is_contiguous(memory_format=memory_format)
    # Summed in another order, single values near zero lose more digits.
    is_own = processor == "AVX2" and not frozen and memory_format == torch.channels_last_3d
    for found, expected in zip(*gradients, strict=True):
        assert found.shape == expected.shape
        assert (found - expected).norm() < 1e-5 * expected.norm()
        if not is_own:
            # Rounding grows with the channels that are summed.
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-7 * after)


def test_a_layer_without_a_bias_trains():
    ours = StridedConv3d(3, 5, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False).double()
    initialise(ours, generator(0, "init"))
    assert torch.autograd.gradcheck(ours, drawn(1, 3, 3, 6, 5).requires_grad_(), fast_mode=True)
    (gradient,) = torch.autograd.grad(ours(drawn(1, 3, 3, 6, 5)).square().sum(), ours.weight)
    assert gradient.abs().max() > 0


@pytest.mark.parametrize("processor", ["AVX2", "AVX512", "DEFAULT"])
@pytest.mark.parametrize("after", [5, 40])
def test_a_trained_bias_beside_frozen_weights_and_automatic_bfloat16_have_their_gradients(
    monkeypatch, processor, after
):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: processor)
    ours = StridedConv3d(3, after, (3, 7, 7), (1, 2, 2), (1, 3, 3))
    initialise(ours, generator(0, "init"))
    ours.weight.data = ours.weight.data.to(memory_format=torch.channels_last_3d)
    ours.weight.requires_grad_(False)
    clips = drawn(1, 3, 3, 9, 12).float().requires_grad_()
    to_bias, to_clips = torch.autograd.grad(ours(clips).sum(), [ours.bias, clips])
    torch.testing.assert_close(to_bias, torch.full_like(to_bias, 3 * 5 * 6))
    assert to_clips.abs().max() > 0

    ours.weight.requires_grad_()
    (exact,) = torch.autograd.grad(ours(clips).square().sum(), ours.weight)
    with torch.autocast("cpu", torch.bfloat16):
        values = ours(clips)
    (rounded,) = torch.autograd.grad(values.float().square().sum(), ours.weight)
    assert values.dtype == torch.bfloat16
    assert (rounded - exact).norm() < 0.2 * exact.norm()


def test_frozen_weights_keep_no_clips_for_their_gradient():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        layer().float()(drawn(1, 3, 3, 6, 5).float().requires_grad_())
    assert kept == [torch.Size((5, 3, 3, 7, 7))]


def test_training_still_gives_every_gradient():
    ours, clips = layer(frozen=False), drawn(2, 3, 4, 8, 8).requires_grad_()
    ours(clips).square().sum().backward()
    plain = nn.Conv3d(3, 5, (3, 7, 7), (1, 2, 2), (1, 3, 3)).double()
    plain.load_state_dict(ours.state_dict())
    again = clips.detach().requires_grad_()
    plain(again).square().sum().backward()
    for value, expected in [(clips, again), (ours.weight, plain.weight), (ours.bias, plain.bias)]:
        torch.testing.assert_close(value.grad, expected.grad)


def test_threads_change_no_bit_of_a_gradient():
    network = build("convnet3d", num_classes=3, num_frames=8, size=64, width=8)
    initialise(network, generator(0, "init"))
    network.eval().requires_grad_(False)
    found, threads = [], torch.get_num_threads()
    try:
        for num_threads in (1, 2):
            torch.set_num_threads(num_threads)
            clips = drawn(4, 3, 8, 64, 64).float().requires_grad_()
            found += torch.autograd.grad(network.embed(clips).square().sum(), clips)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


def test_the_state_of_convnet3d_is_named_as_ever():
    network = build("convnet3d", "meta", num_classes=3, num_frames=8, size=64, width=8)
    layers = [*(f"blocks.{i}" for i in (0, 3, 6)), "classifier"]
    assert list(network.state_dict()) == [f"{name}.{kind}" for name in layers for kind in ("weight", "bias")]
